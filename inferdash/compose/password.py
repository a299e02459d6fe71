"""The password of the database, made on first use: `… FOLDER`.

Two files: `pgpass` for inferdash alone, as libpq reads it, and `verifier`, which is all that the
database is given and by which nobody can log in.
"""

import base64
import hashlib
import hmac
import os
import secrets
import sys
from pathlib import Path

ROLE = "inferdash_app"
DATABASE = "inferdash"
ROUNDS = 4096  # PostgreSQL's own; a password of 256 bits needs no more


def main() -> None:
    folder = Path(sys.argv[1])
    kept = folder / "pgpass"
    if not kept.exists():
        _write(kept, f"*:*:{DATABASE}:{ROLE}:{secrets.token_hex(32)}\n", 0o600)
    password = kept.read_text().strip().rpartition(":")[2]
    _write(folder / "verifier", verifier(password, secrets.token_bytes(16)), 0o644)


def verifier(password: str, salt: bytes) -> str:
    """What PostgreSQL keeps of a password (RFC 5803, as its scram_build_secret writes it)."""
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, ROUNDS)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    salt64, stored64, server64 = (
        base64.b64encode(each).decode() for each in (salt, stored, server)
    )
    return f"SCRAM-SHA-256${ROUNDS}:{salt64}${stored64}:{server64}"


def _write(path: Path, text: str, mode: int) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    draft.chmod(mode)  # whatever the umask
    draft.replace(path)


if __name__ == "__main__":
    main()
