"""People and roles: who they are, and what they may do."""

import unicodedata
from typing import Any, ClassVar

from django.contrib.auth.hashers import check_password
from django.contrib.auth.models import AbstractUser
from django.contrib.auth.models import UserManager as BaseUserManager
from django.db import models, transaction
from django.db.models.functions import Lower
from django.db.utils import OperationalError


class Permission(models.TextChoices):
    """What a view, an operation of the API, a socket or a line of a page asks for."""

    ACCOUNT = "account"  # one's own password and keys
    CHAT = "chat"  # playground and gateway: asks models
    VIEW = "view"  # boxes, servers, profiles, logs, figures
    OPERATE = "operate"  # starts and stops
    EDIT = "edit"  # changes profiles
    ADMINISTER = "administer"  # people, secrets, boxes, dangerous container options


class Role(models.IntegerChoices):
    # The numbers are those of the database, and no order.
    CHAT = 0, "chat"
    VIEWER = 1, "viewer"
    OPERATOR = 2, "operator"
    EDITOR = 3, "editor"
    ADMIN = 4, "admin"

    @property
    def permissions(self) -> frozenset[Permission]:
        return PERMISSIONS[self]

    @property
    def with_article(self) -> str:
        """As a noun with its article: "an editor"."""
        if self is Role.CHAT:
            return "a chat user"
        return f"a {self.label}" if self is Role.VIEWER else f"an {self.label}"


_VIEWER = frozenset({Permission.ACCOUNT, Permission.VIEW})
_OPERATOR = _VIEWER | {Permission.CHAT, Permission.OPERATE}
_EDITOR = _OPERATOR | {Permission.EDIT}
PERMISSIONS: dict[Role, frozenset[Permission]] = {
    Role.CHAT: frozenset({Permission.ACCOUNT, Permission.CHAT}),
    Role.VIEWER: _VIEWER,
    Role.OPERATOR: _OPERATOR,
    Role.EDITOR: _EDITOR,
    Role.ADMIN: _EDITOR | {Permission.ADMINISTER},
}


def roles_with(permission: Permission) -> list[Role]:
    """Those that may do no more than it takes first."""
    found = [role for role in Role if permission in role.permissions]
    return sorted(found, key=lambda role: len(role.permissions))


def name_roles(permission: Permission) -> str:
    """The roles to ask an admin for: "editor", "chat or operator"."""
    found = roles_with(permission)
    least = [
        role for role in found if not any(each.permissions < role.permissions for each in found)
    ]
    # Where the smallest role opens little else, the next one stands beside it.
    if least == [Role.CHAT] and len(found) > 1:
        least = found[:2]
    return " or ".join(role.label for role in least)


def lesser(one: Role, other: Role) -> Role:
    """Of a key and its person: the role that permits no more than the other."""
    return one if one.permissions <= other.permissions else other


class UserManager(BaseUserManager["User"]):
    def get_by_natural_key(self, username: str | None) -> "User":
        """The person of this name, whichever way its capitals are typed."""
        name = models.Value(unicodedata.normalize("NFKC", username or ""))
        return self.alias(folded=Lower("username")).get(folded=Lower(name))

    def create_superuser(self, username: str, *args: Any, **fields: Any) -> "User":
        return super().create_superuser(username, *args, **{"role": Role.ADMIN, **fields})

    def admins(self) -> "models.QuerySet[User]":
        return self.filter(role=Role.ADMIN, is_active=True)

    def person_may(self, pk: int, permission: Permission) -> bool:
        """Whether this person, as they are in the database now, has the permission."""
        return self.filter(pk=pk, is_active=True, role__in=roles_with(permission)).exists()

    def change(self, pk: int, *, role: Role | None = None, is_active: bool | None = None) -> bool:
        """Change what is given, and return whether it was; not if no admin would be left."""
        fields = {"role": role, "is_active": is_active}
        given = {name: value for name, value in fields.items() if value is not None}
        takes_admin = is_active is False or (role is not None and role != Role.ADMIN)
        with transaction.atomic():
            # Locked, not only counted: two admins who demote each other at the same moment
            # would each see the other one stay.
            admins = list(self.admins().select_for_update().order_by("pk"))
            if takes_admin and [admin.pk for admin in admins] == [pk]:
                return False
            return self.filter(pk=pk).update(**given) == 1


class User(AbstractUser):
    role = models.PositiveSmallIntegerField(choices=Role, default=Role.VIEWER)

    objects: ClassVar[UserManager] = UserManager()

    class Meta(AbstractUser.Meta):
        constraints = [
            # "Ada" beside "ada" would let one pass for the other.
            models.UniqueConstraint(Lower("username"), name="one_person_a_name")
        ]

    def check_password(self, raw_password: str | None) -> bool:
        kept = self.password
        try:
            return super().check_password(raw_password)
        except OperationalError:
            # It was to be hashed anew, as a newer Django wants it, and the disk may be full: at the
            # next log-in then.
            self.password = kept
            return check_password(raw_password, kept)

    def may(self, permission: Permission) -> bool:
        return self.is_active and permission in Role(self.role).permissions

    @property
    def may_view(self) -> bool:
        return self.may(Permission.VIEW)

    @property
    def may_chat(self) -> bool:
        return self.may(Permission.CHAT)

    @property
    def may_operate(self) -> bool:
        return self.may(Permission.OPERATE)

    @property
    def may_edit(self) -> bool:
        return self.may(Permission.EDIT)

    @property
    def may_administer(self) -> bool:
        return self.may(Permission.ADMINISTER)
