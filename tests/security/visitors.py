from django.test import Client

from servers.models import Role, User


def viewer() -> Client:
    client = Client()
    client.force_login(User.objects.create(username="vera", role=Role.VIEWER))
    return client
