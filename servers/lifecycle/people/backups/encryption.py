"""Secrets under a passphrase: scrypt makes the key, AES-GCM seals."""

import json
import os
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

# 128 MiB and some tenths of a second for a guess.
COST = 2**17
# A file is not to ask for more memory than a machine has.
MOST_COST = 2**20
SHORTEST = 8
_BLOCKS, _LANES, _SALT, _NONCE = 8, 1, 16, 12


class WrongPassphrase(Exception):
    """The passphrase is another one, or the file is not what was sealed."""


def seal(values: dict[str, Any], passphrase: str, *, bound_to: str) -> dict[str, Any]:
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


def unseal(sealed: dict[str, Any], passphrase: str, *, bound_to: str) -> dict[str, Any]:
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
