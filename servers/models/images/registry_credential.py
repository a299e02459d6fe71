"""Credentials of registries, for pulls and builds."""

from django.db import models
from django.utils import timezone

from servers.models.box import Box
from servers.models.people.secret import seal_text, unseal_text
from servers.models.people.user import User


class RegistryCredential(models.Model):
    registry = models.CharField(max_length=200, unique=True)  # as in references: ghcr.io
    username = models.CharField(max_length=200)
    sealed = models.BinaryField()
    created_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)
    # What came of trying it; None: nobody has since it was entered.
    tested_at = models.DateTimeField(null=True)
    test_wanted_at = models.DateTimeField(null=True)
    tested_on = models.ForeignKey(Box, null=True, on_delete=models.SET_NULL, related_name="+")
    error = models.TextField(blank=True)  # of the newest try; "": it lets us in

    class Meta:
        ordering = ["registry"]

    def __str__(self) -> str:
        return self.registry

    def keep(self, password: str) -> None:
        """Set the password; what was tried before says nothing of it. The caller saves."""
        self.sealed = seal_text(password)
        self.tested_at = self.test_wanted_at = None
        self.error = ""

    @property
    def password(self) -> str:
        """Raises SecretError. Never shown: only who asks the registry has a use for it."""
        return unseal_text(bytes(self.sealed), f"The credential of {self.registry}")

    @property
    def is_wanted(self) -> bool:
        return self.test_wanted_at is not None and (
            self.tested_at is None or self.tested_at < self.test_wanted_at
        )
