"""Links of further boxes to the hub: invitations, and what the hub knows of each box's key."""

from datetime import timedelta
from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from servers.models.box import Box
from servers.models.images import RegistryCredential
from servers.models.people.key import Secret, seal_text, unseal_text
from servers.models.people.user import User

INVITED_FOR = timedelta(minutes=30)


class BoxInvitationQuerySet(models.QuerySet["BoxInvitation"]):
    def select_open(self) -> Self:
        """A used one stays open for the key that has used it, until it is over."""
        return self.filter(expires_at__gt=timezone.now(), withdrawn_at=None)


class BoxInvitation(models.Model):
    """A token with which one box may ask to join."""

    ident = models.CharField(max_length=16, unique=True)
    # Of a key made for this token alone; its seed is in the token and is kept nowhere.
    public_key = models.CharField(max_length=200)
    created_at = models.DateTimeField(default=timezone.now)
    created_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    expires_at = models.DateTimeField()
    withdrawn_at = models.DateTimeField(null=True)

    objects = BoxInvitationQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return self.ident


class BoxLinkQuerySet(models.QuerySet["BoxLink"]):
    def select_joined(self) -> Self:
        return self.exclude(joined_at=None).filter(revoked_at=None)

    def select_waiting(self) -> Self:
        """Those about which an admin has to decide."""
        return self.filter(
            joined_at=None,
            refused_at=None,
            revoked_at=None,
            invitation__expires_at__gt=timezone.now(),
        )


class BoxLink(models.Model):
    """A box's wish to join, and, once it was let in, its way to the hub."""

    # None until an admin has let it in.
    box = models.OneToOneField(Box, null=True, on_delete=models.CASCADE, related_name="link")
    invitation = models.OneToOneField(
        BoxInvitation, null=True, on_delete=models.SET_NULL, related_name="link"
    )
    # What it asks to be called, and what it says of itself; none of these identifies it.
    name = models.CharField(max_length=63)
    hostname = models.CharField(max_length=255, blank=True)
    machine_id = models.CharField(max_length=64, blank=True)
    came_from = models.CharField(max_length=64, blank=True)  # the address that it asked from
    version = models.CharField(max_length=40, blank=True)  # of inferdash
    schema = models.CharField(max_length=120, blank=True)  # the last migration that it knows
    clock_offset = models.FloatField(null=True)  # seconds that its clock is ahead of the hub's
    # Identity: its own Ed25519 key, as in authorized_keys, and the X25519 key (base64) to which
    # secrets are sealed.
    public_key = models.CharField(max_length=200, unique=True)
    seal_key = models.CharField(max_length=60)
    words = models.CharField(max_length=120)  # six, the same on both sides
    # On the hub's 127.0.0.1: where its relay comes out.
    port = models.PositiveIntegerField(null=True, unique=True)
    sealed_password = models.BinaryField(null=True)  # of its roles in PostgreSQL and Redis
    sealed_relay_secret = models.BinaryField(null=True)  # what its relay wants in each request
    asked_at = models.DateTimeField(default=timezone.now)
    joined_at = models.DateTimeField(null=True)
    joined_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    refused_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    revoked_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")

    objects = BoxLinkQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        constraints = [
            # A joined box has all that its way needs.
            models.CheckConstraint(
                condition=Q(joined_at=None)
                | Q(
                    port__isnull=False,
                    sealed_password__isnull=False,
                    sealed_relay_secret__isnull=False,
                ),
                name="joined_link_is_whole",
            )
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_joined(self) -> bool:
        return self.joined_at is not None and self.revoked_at is None

    @property
    def role(self) -> str:
        """Its name in PostgreSQL and in Redis."""
        return f"box_{self.pk}"

    def keep_credentials(self, *, password: str, relay_secret: str) -> None:
        """Does not save."""
        self.sealed_password = seal_text(password)
        self.sealed_relay_secret = seal_text(relay_secret)

    def reveal_password(self) -> str:
        """Raises SecretError."""
        return unseal_text(bytes(self.sealed_password or b""), "the password of a box")

    def reveal_relay_secret(self) -> str:
        """Raises SecretError."""
        return unseal_text(bytes(self.sealed_relay_secret or b""), "the relay secret of a box")


class SecretCopy(models.Model):
    """A secret or a registry's password, sealed to the key of one box that needs it."""

    box = models.ForeignKey(Box, on_delete=models.CASCADE, related_name="secret_copies")
    # One of both.
    secret = models.ForeignKey(Secret, null=True, on_delete=models.CASCADE, related_name="copies")
    registry = models.ForeignKey(
        RegistryCredential, null=True, on_delete=models.CASCADE, related_name="copies"
    )
    sealed = models.BinaryField()  # servers.models.people.sealed_copies
    sealed_to = models.CharField(max_length=60, default="")  # the box's public key
    made_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["box", "secret"], name="one_copy_a_box_and_secret"),
            models.UniqueConstraint(fields=["box", "registry"], name="one_copy_a_box_and_registry"),
            models.CheckConstraint(
                condition=Q(secret=None, registry__isnull=False)
                | Q(secret__isnull=False, registry=None),
                name="copy_of_one_secret",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.secret_id or self.registry_id} for {self.box_id}"


def is_this_box(box: Box) -> bool:
    """Whether this process runs on it."""
    return bool(box.slug == settings.BOX)
