import pytest
from django.test import Client

from servers.models import Role, User


@pytest.fixture
def client(db: None, own_redis: object) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(User.objects.create(username="ada", role=Role.ADMIN))
    return client
