import re
from typing import Any

from django.test import Client
from django.urls import reverse

from servers.models import User
from tests import factories

PASSWORD = "a long enough one"
OTHER = "quite another phrase"


def as_(person: User) -> Client:
    return factories.log_in(person)


def join(client: Client, path: str, **typed: str) -> Any:
    return client.post(path, {"password": PASSWORD, "again": PASSWORD, **typed})


def log_in(client: Client, name: str = "ada", password: str = PASSWORD, **more: Any) -> Any:
    return client.post(reverse("login"), {"username": name, "password": password}, **more)


def said(response: Any) -> str:
    """The words of a page."""
    return " ".join(re.sub(r"<[^>]*>", " ", response.content.decode()).split())
