"""Keys of OpenSSH: made, written, and told apart by their hash."""

import base64
import hashlib
import os
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_private_key,
    load_ssh_public_key,
)

SEED = 32  # bytes of an Ed25519 key


class KeyFileError(Exception):
    """A file that should hold a key does not; the text says which, and what to do."""


def make_key(seed: bytes | None = None) -> Ed25519PrivateKey:
    """A new key; of a seed always the same one. Raises ValueError for a seed of another length."""
    return Ed25519PrivateKey.from_private_bytes(os.urandom(SEED) if seed is None else seed)


def write_public_line(key: Ed25519PrivateKey) -> str:
    """As a line of authorized_keys, without a comment."""
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def keep_private(path: Path, key: Ed25519PrivateKey) -> None:
    """As ssh reads it, for the owner's eyes."""
    text = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    keep_text(path, text.decode())


def keep_key(path: Path) -> Ed25519PrivateKey:
    """The key in the file, which is made on first use. Raises KeyFileError."""
    if not path.exists():
        keep_private(path, make_key())
    try:
        key = load_ssh_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError) as error:
        raise KeyFileError(f"{path} holds no key that can be read ({error}).") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyFileError(f"{path} holds a key of another kind; inferdash wants Ed25519.")
    return key


def keep_seal_key(path: Path) -> str:
    """The public part, in base64, of the X25519 key in the file, which is made on first use.

    Raises KeyFileError.
    """
    if not path.exists():
        raw = X25519PrivateKey.generate().private_bytes_raw()
        keep_text(path, base64.b64encode(raw).decode())
    try:
        key = X25519PrivateKey.from_private_bytes(base64.b64decode(path.read_text(), validate=True))
    except (OSError, ValueError) as error:
        raise KeyFileError(f"{path} holds no key that can be read ({error}).") from error
    return base64.b64encode(key.public_key().public_bytes_raw()).decode()


def keep_text(path: Path, text: str) -> None:
    """Whole or not at all, for the owner's eyes."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    draft.replace(path)


def check_public_line(line: str) -> str:
    """The line without its comment. Raises ValueError for what is no Ed25519 key of OpenSSH."""
    parts = line.split()
    if len(parts) < 2 or parts[0] != "ssh-ed25519":
        raise ValueError("This is no Ed25519 key of OpenSSH.")
    plain = " ".join(parts[:2])
    try:
        load_ssh_public_key(plain.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ValueError("This is no Ed25519 key of OpenSSH.") from error
    return plain


def hash_key(line: str) -> bytes:
    """SHA-256 of the key, as ssh-keygen -l shows it in base64. `line`: as in authorized_keys."""
    return hashlib.sha256(base64.b64decode(line.split()[1])).digest()


def show_hash(line: str) -> str:
    """ "SHA256:…", as OpenSSH writes it in its log."""
    return "SHA256:" + base64.b64encode(hash_key(line)).decode().rstrip("=")
