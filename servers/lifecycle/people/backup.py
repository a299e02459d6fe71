"""The backup of one moment, its archive and its encryption.

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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Field, Model, QuerySet
from django.utils import timezone

from servers.launch.engines.launch import fill_parameters
from servers.models import (
    Box,
    ChatMessage,
    CheckpointFacts,
    Conversation,
    EnvironmentGroup,
    EnvironmentVersion,
    HostResources,
    Key,
    LegacyPort,
    NotificationChannel,
    NotificationChoices,
    Preset,
    Profile,
    ProfileVersion,
    PromptSet,
    RegistryCredential,
    Secret,
    Server,
    StoredCheckpoint,
    User,
)
from servers.models.people.key import SecretError


@dataclass(frozen=True)
class Table:
    """What people have set, nothing that was only observed."""

    name: str  # in the file; stays when the model's changes
    model: type[Model]
    one: str  # for people: "1 profile"
    _: KW_ONLY
    several: str = ""  # "": as the one, with an s
    leaves: frozenset[str] = frozenset()  # columns that are not kept
    sealed: tuple[str, ...] = ()  # columns with secrets, which are kept under the passphrase alone
    later: tuple[str, ...] = ()  # that name a row of a table further below
    many: tuple[str, ...] = ()
    only: Mapping[str, None] = field(default_factory=dict)  # rows with these values

    def format_count(self, count: int) -> str:
        return f"{count} {self.one if count == 1 else self.several or f'{self.one}s'}"

    @property
    def columns(self) -> "dict[str, Field[Any, Any]]":
        """By the name that rows have them under: a key's is of the row that it names."""
        left = {*self.leaves, *self.sealed}
        fields = self.model._meta.concrete_fields
        return {each.attname: each for each in fields if each.name not in left}

    def all(self) -> "QuerySet[Any]":
        return self.model._default_manager.filter(**self.only).order_by("pk")


_SEEN_OF_A_BOX = frozenset(
    {"seen_at", "boot_id", "booted_at", "facts", "memory_best", "left_behind"}
)
# In the order in which rows can be written: what is named comes first.
TABLES = (
    Table("people", User, "person", several="people", leaves=frozenset({"last_login"})),
    Table("secrets", Secret, "secret", sealed=("sealed",)),
    Table("boxes", Box, "box", several="boxes", leaves=_SEEN_OF_A_BOX),
    Table("environment_groups", EnvironmentGroup, "environment group", later=("current",)),
    Table("environment_versions", EnvironmentVersion, "version of it", several="versions of them"),
    Table("profiles", Profile, "profile", later=("current",), many=("fans",)),
    Table("profile_versions", ProfileVersion, "version of it", several="versions of them"),
    Table(
        "servers",
        Server,
        "server",
        leaves=frozenset({"run", "removed_at"}),
        many=("fans",),
        only={"removed_at": None},
    ),
    Table("presets", Preset, "preset"),
    Table("conversations", Conversation, "conversation", only={"deleted_at": None}),
    Table("messages", ChatMessage, "message", only={"conversation__deleted_at": None}),
    Table("prompt_sets", PromptSet, "set of prompts", several="sets of prompts"),
    Table("old_ports", LegacyPort, "legacy port", leaves=frozenset({"problem"})),
    Table("keys", Key, "key", leaves=frozenset({"used_at"})),
    Table(
        "outlets",
        NotificationChannel,
        "notification channel",
        sealed=("sealed_address", "sealed_key"),
        leaves=frozenset({"tried_at", "delivered_at", "error"}),
    ),
    Table(
        "notification_choices",
        NotificationChoices,
        "choice of notifications",
        several="choices of notifications",
    ),
    Table(
        "registries",
        RegistryCredential,
        "registry credential",
        sealed=("sealed",),
        leaves=frozenset({"tested_at", "test_wanted_at", "tested_on", "error"}),
    ),
)

BY_NAME = {table.name: table for table in TABLES}


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


def write_archive(
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


def read_archive(path: Path) -> Archive:
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


# 128 MiB and some tenths of a second for a guess.
COST = 2**17
# A file is not to ask for more memory than a machine has.
MOST_COST = 2**20
SHORTEST = 8
_BLOCKS, _LANES, _SALT, _NONCE = 8, 1, 16, 12


class WrongPassphrase(Exception):
    """The passphrase is another one, or the file is not what was sealed."""


def seal_archive(values: dict[str, Any], passphrase: str, *, bound_to: str) -> dict[str, Any]:
    """What reads like JSON and opens with the passphrase alone, beside `bound_to` alone."""
    salt, nonce = os.urandom(_SALT), os.urandom(_NONCE)
    text = json.dumps(values).encode()
    sealed = AESGCM(_key(passphrase, salt, COST)).encrypt(nonce, text, bound_to.encode())
    return {
        "cipher": "scrypt-aes256gcm",
        "cost": COST,
        "salt": salt.hex(),
        "nonce": nonce.hex(),
        "sealed": sealed.hex(),
    }


def unseal_archive(sealed: dict[str, Any], passphrase: str, *, bound_to: str) -> dict[str, Any]:
    """Raises WrongPassphrase; ValueError, KeyError or TypeError for what seal() never wrote."""
    if sealed["cipher"] != "scrypt-aes256gcm" or not 2 <= sealed["cost"] <= MOST_COST:
        raise ValueError("sealed in a way that this version does not know")
    key = _key(passphrase, bytes.fromhex(sealed["salt"]), sealed["cost"])
    nonce, text = bytes.fromhex(sealed["nonce"]), bytes.fromhex(sealed["sealed"])
    try:
        plain = AESGCM(key).decrypt(nonce, text, bound_to.encode())
    except InvalidTag as error:
        raise WrongPassphrase(
            "The secrets in the backup do not open: the passphrase is another one, or the file was "
            "changed. Nothing was restored. Try again, or leave them out: --without-secrets."
        ) from error
    found: dict[str, Any] = json.loads(plain)
    return found


def _key(passphrase: str, salt: bytes, cost: int) -> bytes:
    return Scrypt(salt=salt, length=32, n=cost, r=_BLOCKS, p=_LANES).derive(passphrase.encode())


@dataclass(frozen=True, kw_only=True)
class BackupSummary:
    counts: dict[str, int]  # rows by table
    has_secrets: bool


def take(path: Path, *, passphrase: str) -> BackupSummary:
    """Write the backup; an empty passphrase leaves secrets out. Raises BackupError."""
    with _one_moment():
        rows = {table.name: [_row(table, each) for each in table.all()] for table in TABLES}
        needs = _needs()
        values = _secrets() if passphrase else None
    text, digest = pack_rows(rows)
    manifest = {
        "what": WHAT,
        "format": FORMAT,
        "made_at": timezone.now().isoformat(),
        "box": settings.BOX,
        "digest": digest,
        "needs": needs,
    }
    sealed = None if values is None else seal_archive(values, passphrase, bound_to=digest)
    write_archive(path, manifest, text, sealed)
    counts = {name: len(each) for name, each in rows.items()}
    return BackupSummary(counts=counts, has_secrets=sealed is not None)


@contextmanager
def _one_moment() -> Iterator[None]:
    """Every query sees the same state. SQLite's transactions are like that; PostgreSQL is told."""
    with transaction.atomic():
        if connection.vendor == "postgresql" and not connection.savepoint_ids:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


def _row(table: Table, of: Model) -> Row:
    row = {name: _value(column, of) for name, column in table.columns.items()}
    for name in table.many:
        row[name] = sorted(getattr(of, name).values_list("pk", flat=True))
    return row


def _value(column: "Field[Any, Any]", of: Model) -> Any:
    value = getattr(of, column.attname)
    return value.isoformat() if isinstance(value, datetime) else value


def _secrets() -> dict[str, Any]:
    try:
        return {
            "secrets": {str(each.pk): each.reveal() for each in Secret.objects.order_by("pk")},
            "outlets": {
                str(each.pk): [each.address, each.key]
                for each in NotificationChannel.objects.order_by("pk")
            },
            "registries": {
                str(each.pk): each.password for each in RegistryCredential.objects.order_by("pk")
            },
        }
    except SecretError as error:
        raise BackupError(
            f"{error} A backup without secrets can be made: --without-secrets."
        ) from error


def _needs() -> dict[str, dict[str, int | None]]:
    """Images and models that profiles name, with their bytes where a box has told them."""
    images: dict[str, int | None] = {}
    models: dict[str, int | None] = {}
    for profile in Profile.objects.active().exclude(current=None).select_related("current"):
        launch = fill_parameters(profile.launch)
        images[launch.image] = None
        models[launch.checkpoint] = None
    for host_resources in HostResources.objects.all():
        for reference, image in host_resources.images.items():
            if reference in images and image:
                images[reference] = image.get("size")
    sizes = list(StoredCheckpoint.objects.values_list("name", "size"))
    sizes += StoredCheckpoint.objects.values_list("path", "size")
    for source, weights in CheckpointFacts.objects.values_list("source", "weights"):
        if weights is not None:
            sizes.append((source.rpartition("@")[0] or source, weights))
    for name, size in reversed(sizes):
        if name in models:
            models[name] = size
    return {"images": images, "models": models}
