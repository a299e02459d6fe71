"""Sealed copies: a secret that one box alone can open.

A box has an X25519 key; its public half stands in its link. For a copy the hub makes a key pair of
one use, and from X25519 of the two, by HKDF-SHA256 (salt: both public keys; info: INFO), the key of
ChaCha20-Poly1305. As no key is used twice, its nonce is 12 zero bytes. `bound_to`, which names the
row, is authenticated with it: a copy that is put into another row does not open.

A copy is FORMAT (one byte), the public key of one use (32), the sealed text with its tag (16).
"""

import base64

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

FORMAT = b"\x01"
INFO = b"inferdash: a secret for a box"
_KEY, _NONCE = 32, bytes(12)


class CopyError(Exception):
    """The copy is not for this key, or damaged."""


def seal_copy(public_key: str, text: str, *, bound_to: str) -> bytes:
    """`public_key`: a box's, 32 bytes in base64. Raises CopyError where it is none."""
    try:
        box = X25519PublicKey.from_public_bytes(base64.b64decode(public_key, validate=True))
    except ValueError as error:
        raise CopyError("its key is no X25519 key") from error
    once = X25519PrivateKey.generate()
    mine = once.public_key().public_bytes_raw()
    key = _derive(once.exchange(box), mine, box.public_bytes_raw())
    sealed = ChaCha20Poly1305(key).encrypt(_NONCE, text.encode(), bound_to.encode())
    return FORMAT + mine + sealed


def open_copy(private_key: str, sealed: bytes, *, bound_to: str) -> str:
    """`private_key`: the box's own, in base64. Raises CopyError."""
    try:
        box = X25519PrivateKey.from_private_bytes(base64.b64decode(private_key, validate=True))
        if sealed[:1] != FORMAT:
            raise CopyError("it is of a format that this version does not know")
        once = sealed[1 : 1 + _KEY]
        shared = box.exchange(X25519PublicKey.from_public_bytes(once))
        key = _derive(shared, once, box.public_key().public_bytes_raw())
        plain = ChaCha20Poly1305(key).decrypt(_NONCE, sealed[1 + _KEY :], bound_to.encode())
    except (ValueError, InvalidTag) as error:
        raise CopyError("it was sealed to another key, or is damaged") from error
    return plain.decode()


def find_public_key(private_key: str) -> str:
    """The public half in base64. Raises CopyError."""
    try:
        raw = base64.b64decode(private_key, validate=True)
        found = X25519PrivateKey.from_private_bytes(raw).public_key()
    except ValueError as error:
        raise CopyError("its key is no X25519 key") from error
    return base64.b64encode(found.public_bytes_raw()).decode()


def _derive(shared: bytes, once: bytes, box: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=_KEY, salt=once + box, info=INFO).derive(shared)
