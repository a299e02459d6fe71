"""Secrets at rest: encrypted with a key that lives beside the data, never in the database."""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from urllib.parse import quote

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings
from django.db import models
from django.utils import timezone

from servers.models.people.user import User


class SecretError(Exception):
    """A secret that cannot be read; the text is fit for a person."""


@cache
def _fernet() -> Fernet:
    return Fernet(settings.SECRETS_KEY)


@dataclass(frozen=True, kw_only=True)
class SecretValues:
    """What a container knows: variables by their names, and other values."""

    named: Mapping[str, str] = field(default_factory=dict)
    others: Collection[str] = ()

    @property
    def values(self) -> set[str]:
        return {*self.named.values(), *self.others}

    def seal(self) -> bytes:
        said = {"named": dict(self.named), "others": sorted(set(self.others))}
        return _fernet().encrypt(json.dumps(said).encode())


def unseal_given(sealed: bytes) -> SecretValues:
    """Raises SecretError."""
    try:
        said = json.loads(_fernet().decrypt(sealed))
    except InvalidToken as error:
        raise SecretError(
            f"What a container must not print cannot be read with the key in {settings.DATA}: the "
            "file secrets.key there is another one. Put back the one from before."
        ) from error
    if isinstance(said, list):  # as runs that have begun with an earlier release have it
        return SecretValues(others=said)
    return SecretValues(**said)


def seal_text(text: str) -> bytes:
    return _fernet().encrypt(text.encode())


def unseal_text(sealed: bytes, what: str) -> str:
    """`what` begins the sentence of the SecretError that this raises where the key is another."""
    try:
        return _fernet().decrypt(sealed).decode()
    except InvalidToken as error:
        raise SecretError(
            f"{what} cannot be read with the key in {settings.DATA}: the file secrets.key there is "
            "not the one that it was kept with. Put that file back, or enter it again."
        ) from error


class Secret(models.Model):
    name = models.CharField(max_length=100)  # the variable it becomes: HF_TOKEN
    sealed = models.BinaryField()
    created_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return self.name

    @classmethod
    def seal(cls, name: str, value: str, by: User | None) -> "Secret":
        return cls.objects.create(
            name=name, sealed=_fernet().encrypt(value.encode()), created_by=by
        )

    def replace(self, value: str, by: User | None) -> None:
        self.sealed = _fernet().encrypt(value.encode())
        self.created_by, self.created_at = by, timezone.now()
        self.save()

    def reveal(self) -> str:
        """The plain value. Only a worker that starts a container has a use for it."""
        if not self.sealed:
            raise SecretError(
                f"The secret {self.name} came from a backup that had no values of secrets: enter it "
                "again under Settings, or in the profile that names it."
            )
        try:
            return _fernet().decrypt(bytes(self.sealed)).decode()
        except InvalidToken as error:
            raise SecretError(
                f"The secret {self.name} cannot be read with the key in {settings.DATA}: the "
                "file secrets.key there is not the one that it was kept with. Put that file "
                "back, or enter the secret again under Settings."
            ) from error


MASK = "••••••••"
# Shorter values would hide half of every line that has nothing to do with them.
SHORTEST = 4


def mask(text: str, values: Iterable[str]) -> str:
    """The text with every secret value replaced, also where JSON or a URL has escaped it.

    Each line of a value counts by itself, because logs are read by the line. Values and lines
    of fewer than four characters are left.
    """
    wanted = "|".join(map(re.escape, shapes(values)))
    return re.sub(wanted, MASK, text) if wanted else text


def shapes(values: Iterable[str]) -> list[str]:
    """What to look for in a text so that none of the values stands in it."""
    found = {shape for value in values for shape in _shapes(value) if len(shape) >= SHORTEST}
    # The longest first: a token may begin with another one.
    return sorted(found, key=len, reverse=True)


def _shapes(value: str) -> Iterable[str]:
    for part in (value, *value.splitlines()):
        plain = part.strip()
        yield from (plain, json.dumps(plain)[1:-1], quote(plain, safe=""), repr(plain)[1:-1])
