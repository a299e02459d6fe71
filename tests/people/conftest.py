from typing import Any

import pytest

from servers.models import Role, User
from tests.people.desk import PASSWORD


@pytest.fixture(autouse=True)
def quick_hashes(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def ada(db: None, own_redis: object) -> User:
    return User.objects.create_user("ada", password=PASSWORD, role=Role.ADMIN)


@pytest.fixture
def grace(ada: User) -> User:
    return User.objects.create_user("grace", password=PASSWORD, role=Role.EDITOR)
