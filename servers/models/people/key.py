"""Keys by which programs and terminals use inferdash in a person's name."""

import hashlib
import json
import re
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from cryptography.fernet import Fernet, InvalidToken
from django.apps import apps
from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from servers.launch import redaction
from servers.models.json_values import Json
from servers.models.people.sealed_copies import CopyError, find_public_key, open_copy, seal_copy
from servers.models.people.user import Permission, Role, User, lesser

PREFIX = "ifd_"
SHOWN = 12  # characters by which people tell their keys apart
# So long before a key ends its person is told.
ENDS_SOON = timedelta(days=14)
# An hour's use is a line in the table; a row written for each request would be the slowest part.
USED_EVERY = timedelta(minutes=1)


def digest_of(token: str) -> str:
    """256 bits of chance need no slow hash."""
    return hashlib.sha256(token.encode()).hexdigest()


class KeyQuerySet(models.QuerySet["Key"]):
    def usable(self) -> Self:
        now = timezone.now()
        alive = Q(expires_at=None) | Q(expires_at__gt=now)
        return self.filter(alive, revoked_at=None, person__is_active=True)

    def for_token(self, token: str) -> "Key | None":
        """The key, with its person; None for one that is unknown, over, revoked, or of somebody
        who may not log in any more."""
        if not token.startswith(PREFIX):
            return None
        return self.usable().select_related("person").filter(digest=digest_of(token)).first()

    def ending_soon(self, person: User) -> Self:
        """Of this person, the first to end first."""
        mine = self.usable().filter(person=person, expires_at__lte=timezone.now() + ENDS_SOON)
        return mine.order_by("expires_at")

    def for_more_than_models(self) -> Self:
        return self.filter(only_asks=False)

    def note_use(self, key: "Key") -> None:
        now = timezone.now()
        if key.used_at is None or now - key.used_at >= USED_EVERY:
            self.filter(pk=key.pk).update(used_at=now)

    def revoke(self, key: "Key") -> bool:
        """Whether this call did: a key ends once."""
        return self.filter(pk=key.pk, revoked_at=None).update(revoked_at=timezone.now()) == 1


class Key(models.Model):
    person = models.ForeignKey(User, on_delete=models.CASCADE, related_name="keys")
    name = models.CharField(max_length=80)
    start = models.CharField(max_length=SHOWN)
    digest = models.CharField(max_length=64, unique=True)
    role = models.PositiveSmallIntegerField(choices=Role)  # the most that it may do
    # It opens the gateway alone: whoever has it can ask models, and neither read nor change a thing.
    only_asks = models.BooleanField(default=False)
    # What it may ask engines through the gateway. []: every model; None: as often as it likes.
    models_allowed: Json[list[str]] = models.JSONField(default=list)
    requests_per_minute = models.PositiveIntegerField(null=True)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(null=True)  # None: never
    revoked_at = models.DateTimeField(null=True)
    used_at = models.DateTimeField(null=True)

    objects = KeyQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return f"{self.name} ({self.start}…)"

    @property
    def acts_as(self) -> Role:
        """Never more than its person may by now."""
        return lesser(Role(self.role), Role(self.person.role))

    def may(self, permission: Permission) -> bool:
        """What both its own role and its person's, as it is now, permit."""
        return self.person.may(permission) and permission in Role(self.role).permissions

    @property
    def scope(self) -> str:
        if self.only_asks or not self.may(Permission.VIEW):
            return "use models only"
        return f"what {self.acts_as.label}s may"

    @property
    def is_over(self) -> bool:
        return self.revoked_at is not None or (
            self.expires_at is not None and self.expires_at <= timezone.now()
        )

    @property
    def ends_soon(self) -> bool:
        is_near = self.expires_at is not None and self.expires_at <= timezone.now() + ENDS_SOON
        return is_near and not self.is_over

    @classmethod
    def make(
        cls,
        person: User,
        name: str,
        role: Role,
        *,
        expires_at: datetime | None,
        only_asks: bool = False,
        models_allowed: Sequence[str] = (),
        requests_per_minute: int | None = None,
    ) -> tuple["Key", str]:
        """The key and its token; the token itself is never stored."""
        token = PREFIX + secrets.token_urlsafe(32)
        made = cls.objects.create(
            person=person,
            name=name,
            role=lesser(role, Role(person.role)),
            # Who may only chat has keys for models alone, also after a change of role.
            only_asks=only_asks or not person.may(Permission.VIEW),
            start=token[:SHOWN],
            digest=digest_of(token),
            expires_at=expires_at,
            models_allowed=list(models_allowed),
            requests_per_minute=requests_per_minute,
        )
        return made, token


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


def reveal_copy(of: models.Model, what: str) -> str:
    """The value of a secret or a credential from this box's own copy of it.

    `what` begins the sentence of the SecretError that this raises.
    """
    copies: models.Manager[Any] = of.copies  # type: ignore[attr-defined]
    found = copies.filter(box__slug=settings.BOX).first()
    if found is None:
        raise SecretError(
            f"{what} was not given to this box: the hub gives it those that its profiles name. "
            "Start the server from the page, which has it given."
        )
    try:
        return open_copy(_read_seal_key(), bytes(found.sealed), bound_to=name_copy(of))
    except (CopyError, OSError) as error:
        raise SecretError(
            f"{what} cannot be opened with this box's key: {error}. Start the server from the page, "
            "which has it sealed anew; if that does not help, let the box join again."
        ) from error


def name_copy(of: models.Model) -> str:
    """What a copy is bound to."""
    return f"{of._meta.model_name} {of.pk}"


def _read_seal_key() -> str:
    # WireFiles.seal_key, which tables may not import.
    path: Path = settings.DATA / "wire" / "seal.key"
    return path.read_text().strip()


class Secret(models.Model):
    name = models.CharField(max_length=100)  # the variable it becomes: HF_TOKEN
    sealed = models.BinaryField()
    created_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return self.name

    @classmethod
    def seal(cls, name: str, value: str, by: User | None) -> "Secret":
        if settings.WIRE == "box":
            return cls._seal_for_this_box(name, value, by)
        return cls.objects.create(
            name=name, sealed=_fernet().encrypt(value.encode()), created_by=by
        )

    @classmethod
    def _seal_for_this_box(cls, name: str, value: str, by: User | None) -> "Secret":
        """Found in an engine here: nobody else can open it until somebody enters it on the hub."""
        made = cls.objects.create(name=name, sealed=b"", created_by=by)
        public_key = find_public_key(_read_seal_key())
        copies: models.Manager[Any] = made.copies
        copies.create(
            box=apps.get_model("servers", "Box").objects.get(slug=settings.BOX),
            sealed=seal_copy(public_key, value, bound_to=name_copy(made)),
            sealed_to=public_key,
        )
        return made

    def replace(self, value: str, by: User | None) -> None:
        self.sealed = _fernet().encrypt(value.encode())
        self.created_by, self.created_at = by, timezone.now()
        self.save()

    def reveal(self) -> str:
        """The plain value. Only a worker that starts a container has a use for it."""
        if settings.WIRE == "box":
            return reveal_copy(self, f"The secret {self.name}")
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


MASK = redaction.MASK
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
