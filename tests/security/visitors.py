from django.test import Client

from servers.models import Role, User
from tests import factories


def viewer() -> Client:
    return factories.log_in(User.objects.create(username="vera", role=Role.VIEWER))
