"""Roles, and what each of them permits. Nothing else in inferdash compares roles."""

from django.db import models


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
