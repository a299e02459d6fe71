"""Secrets at rest: encrypted with a key that lives beside the data, never in the database."""

from collections.abc import Iterable
from functools import cache

from cryptography.fernet import Fernet
from django.conf import settings
from django.db import models
from django.utils import timezone

from servers.models.user import User

SHORTEST = 4


@cache
def _fernet() -> Fernet:
    return Fernet(settings.SECRETS_KEY)


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

    def reveal(self) -> str:
        """The plain value. Only a worker that starts a container has a use for it."""
        return _fernet().decrypt(bytes(self.sealed)).decode()


MASK = "••••••••"


def mask(text: str, values: Iterable[str]) -> str:
    """The text with every secret value replaced; short values are left, they would hit anything."""
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= SHORTEST:
            text = text.replace(value, MASK)
    return text
