import pytest

from servers.models import Role, User
from tests.people.desk import PASSWORD


@pytest.fixture
def ada(db: None, own_redis: object) -> User:
    return User.objects.create_user("ada", password=PASSWORD, role=Role.ADMIN)


@pytest.fixture
def grace(ada: User) -> User:
    return User.objects.create_user("grace", password=PASSWORD, role=Role.EDITOR)
