"""The token with which a box asks to join: where the hub is, how it proves itself, and a key."""

import base64
import binascii
import hashlib
import re
import struct
from dataclasses import dataclass

PREFIX = "ifj"
VERSION = 1
_DIGEST = 32
_CHECKED_BY = 4  # bytes: enough to tell a token that was cut or mistyped
_FIXED = struct.Struct(f">{_DIGEST}s{_DIGEST}sHB")
_TEXT = re.compile(rf"{PREFIX}(\d{{1,4}})_([A-Za-z0-9_-]*)")


@dataclass(frozen=True)
class JoinToken:
    """Whoever has it may ask to join, once; an admin still has to let the box in."""

    address: str
    port: int
    host_key: bytes  # SHA-256 of the hub's host key
    ident: str
    seed: bytes  # of the one-time Ed25519 key

    def write(self) -> str:
        """One line of letters that no shell and no address changes."""
        ident = self.ident.encode("ascii")
        packed = _FIXED.pack(self.host_key, self.seed, self.port, len(ident))
        whole = packed + ident + self.address.encode()
        text = base64.urlsafe_b64encode(whole + _make_check(whole)).decode().rstrip("=")
        return f"{PREFIX}{VERSION}_{text}"


def read_token(text: str) -> JoinToken:
    """Raises ValueError, with a sentence for the person who pasted it."""
    found = _TEXT.fullmatch("".join(text.split()))
    if found is None:
        raise ValueError(
            f"This is no token to join with: one begins with {PREFIX}{VERSION}_. "
            "Copy the whole line from Settings, Boxes."
        )
    if int(found[1]) != VERSION:
        raise ValueError(
            "This token comes from another version of inferdash. "
            "Bring this box and the hub to the same version, then make a new token."
        )
    try:
        whole = base64.urlsafe_b64decode(found[2] + "=" * (-len(found[2]) % 4))
    except binascii.Error:
        whole = b""
    body, check = whole[:-_CHECKED_BY], whole[-_CHECKED_BY:]
    if len(body) <= _FIXED.size or _make_check(body) != check:
        raise ValueError(
            "This token is not whole. Copy the whole line from Settings, Boxes, and paste it again."
        )
    host_key, seed, port, length = _FIXED.unpack_from(body)
    rest = body[_FIXED.size :]
    return JoinToken(
        address=rest[length:].decode(),
        port=port,
        host_key=host_key,
        ident=rest[:length].decode("ascii"),
        seed=seed,
    )


def _make_check(whole: bytes) -> bytes:
    return hashlib.sha256(f"{PREFIX}{VERSION}".encode() + whole).digest()[:_CHECKED_BY]
