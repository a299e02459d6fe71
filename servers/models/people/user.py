"""People: who they are, and what they may do."""

import unicodedata
from typing import Any, ClassVar

from django.contrib.auth.hashers import check_password
from django.contrib.auth.models import AbstractUser
from django.contrib.auth.models import UserManager as BaseUserManager
from django.db import models, transaction
from django.db.models.functions import Lower
from django.db.utils import OperationalError

from servers.models.people import data_disk
from servers.models.people.role import Permission, Role, roles_with


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
        except OperationalError as error:
            if not data_disk.describe_full_disk(error):
                raise
            # It was to be hashed anew, as a newer Django wants it: at the next log-in then.
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
