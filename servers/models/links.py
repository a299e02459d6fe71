"""Links of further boxes to the hub: invitations, and what the hub knows of each box's key."""

from datetime import timedelta
from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from servers.models.box import SILENT_AFTER, Box
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

    def select_let_in(self) -> Self:
        """Those of joined ones that may reach the hub now, and be reached."""
        return self.select_joined().filter(held_at=None)

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
    # When it said so last; a box whose watcher waits for another version goes on saying it.
    told_at = models.DateTimeField(null=True)
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
    # When two machines came with its key, which are both kept out until an admin says which it is.
    held_at = models.DateTimeField(null=True)
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
    def is_told(self) -> bool:
        """Whether the box has been heard of lately, whatever its version."""
        return self.told_at is not None and timezone.now() - self.told_at < SILENT_AFTER

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


class UpgradeStep(models.TextChoices):
    """In the order in which a box that is brought up goes through them."""

    ASKED = "asked", "waits for the box"
    DESCRIBED = "described", "the hub packs its release"
    PACKED = "packed", "the box is about to fetch it"
    FETCHING = "fetching", "fetching"
    INSTALLING = "installing", "installing"
    SWITCHING = "switching", "restarting"
    DONE = "done", "done"
    FAILED = "failed", "failed"
    CANCELLED = "cancelled", "cancelled"


class BoxUpgrade(models.Model):
    """A box's change to the hub's version, as an admin has asked for it.

    Boxes of every version read and write this table by the names of its columns, so that none of
    them may go or come to mean something else.
    """

    box = models.ForeignKey(Box, on_delete=models.CASCADE, related_name="upgrades")
    version = models.CharField(max_length=40)  # of the hub
    asked_at = models.DateTimeField(default=timezone.now)
    asked_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    step = models.CharField(max_length=12, choices=UpgradeStep, default=UpgradeStep.ASKED)
    moved_at = models.DateTimeField(default=timezone.now)  # when a step or the percent changed last
    # JSON of what the box has, by which the hub packs: machine, python, requirements.
    has = models.TextField(default="")
    # Of the bundle.
    release = models.CharField(max_length=80, default="")
    digest = models.CharField(max_length=64, default="")  # SHA-256, in hex
    size = models.BigIntegerField(default=0)  # bytes
    percent = models.PositiveSmallIntegerField(null=True)  # of it, that is fetched
    said = models.TextField(default="")  # why it failed
    # True or NULL, of which any number may stand in a unique column: one box at a time.
    is_open = models.BooleanField(null=True, default=True, unique=True)

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return f"{self.box} to {self.version}"


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
