"""Secrets at rest: encrypted with a key that lives beside the data, never in the database."""

import os
from functools import cache

from cryptography.fernet import Fernet
from django.conf import settings
from django.db import models
from django.utils import timezone

from servers.models.user import User


@cache
def _fernet() -> Fernet:
    path = settings.DATA / "secrets.key"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return Fernet(path.read_bytes())
    with os.fdopen(descriptor, "wb") as file:
        file.write(Fernet.generate_key())
    return Fernet(path.read_bytes())


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
