"""A backup's file: a ZIP of manifest.json, rows.json and, under a passphrase, secrets.json.

manifest.json: "what" (always WHAT), "format" (FORMAT), "made_at", "box" (where it was made),
"digest" (SHA-256 of rows.json), "needs" (images and models that the profiles name, with their
sizes where they are known). rows.json: table -> its rows, each column -> value. secrets.json:
sealing.seal() of the values, bound to the digest. A reader refuses another "format" and tables
or columns that it does not know: they come from a newer inferdash.
"""

import hashlib
import json
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WHAT = "inferdash backup"
FORMAT = 1
MANIFEST, ROWS, SECRETS = "manifest.json", "rows.json", "secrets.json"
MOST = 2 * 2**30  # bytes of a part when it is unpacked
_DAY_ONE = (1980, 1, 1, 0, 0, 0)  # ZIP knows no zones of time: the manifest says when


class BackupError(Exception):
    """Why there is no backup, or why nothing was restored, and what to do."""


type Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Archive:
    manifest: dict[str, Any]
    rows: dict[str, list[Row]]
    secrets: dict[str, Any] | None  # sealed; None: it was made without

    @property
    def digest(self) -> str:
        return str(self.manifest["digest"])


def pack_rows(rows: dict[str, list[Row]]) -> tuple[bytes, str]:
    """The rows as they are written, and their digest."""
    text = json.dumps(rows, ensure_ascii=False, sort_keys=True).encode()
    return text, hashlib.sha256(text).hexdigest()


def write(
    path: Path, manifest: dict[str, Any], rows: bytes, secrets: dict[str, Any] | None
) -> None:
    """The whole file or none, for its owner's eyes. Raises BackupError."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    parts = {MANIFEST: json.dumps(manifest, ensure_ascii=False, indent=2).encode(), ROWS: rows}
    if secrets is not None:
        parts[SECRETS] = json.dumps(secrets).encode()
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                for name, content in parts.items():
                    archive.writestr(zipfile.ZipInfo(name, _DAY_ONE), content, zipfile.ZIP_DEFLATED)
            file.flush()
            os.fsync(file.fileno())
        # Not replace(): a backup that is there already is somebody's.
        os.link(draft, path)
    except FileExistsError as error:
        raise BackupError(
            f"{path} is there already. Name another file, or move it away."
        ) from error
    except OSError as error:
        raise BackupError(f"{path} cannot be written: {error.strerror}.") from error
    finally:
        draft.unlink(missing_ok=True)


def read(path: Path) -> Archive:
    """Raises BackupError for what is no backup, damaged, or of a newer inferdash."""
    try:
        with zipfile.ZipFile(path) as file:
            names = set(file.namelist())
            if not {MANIFEST, ROWS} <= names:
                raise BackupError(f"{path} is no backup of inferdash: it has no {MANIFEST}.")
            texts = {name: _part(file, name) for name in (MANIFEST, ROWS, SECRETS) if name in names}
        found = {name: json.loads(text) for name, text in texts.items()}
    except OSError as error:
        raise BackupError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise BackupError(f"{path} is no backup of inferdash, or is damaged: {error}.") from error
    except ValueError as error:
        raise BackupError(f"{path} is damaged: a part of it is no JSON ({error}).") from error
    manifest = found[MANIFEST]
    _check(path, manifest, texts[ROWS])
    if not isinstance(found[ROWS], dict) or not all(
        isinstance(r, list) for r in found[ROWS].values()
    ):
        raise BackupError(f"{path} is damaged: its {ROWS} holds no tables.")
    return Archive(manifest=manifest, rows=found[ROWS], secrets=found.get(SECRETS))


def _part(file: zipfile.ZipFile, name: str) -> bytes:
    if file.getinfo(name).file_size > MOST:
        raise zipfile.BadZipFile(f"{name} is larger than any backup")
    return file.read(name)


def _check(path: Path, manifest: Any, rows: bytes) -> None:
    if not isinstance(manifest, dict) or manifest.get("what") != WHAT:
        raise BackupError(f"{path} is no backup of inferdash.")
    made = manifest.get("format")
    if not isinstance(made, int) or made < 1:
        raise BackupError(f"{path} does not say of which format it is.")
    if made > FORMAT:
        raise BackupError(
            f"{path} was made by a newer inferdash (format {made}; this one reads up to {FORMAT}). "
            "Upgrade inferdash here first."
        )
    if hashlib.sha256(rows).hexdigest() != manifest.get("digest"):
        raise BackupError(f"{path} is damaged: its rows are not those that were written.")
