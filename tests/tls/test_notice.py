"""Who opens inferdash to the network without TLS is told so where they look."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from servers.models import Role, User
from tests.web_stack import ROOT

OPEN = "inferdash is open to the network without TLS"


@pytest.mark.parametrize("role", [Role.EDITOR, Role.ADMIN])
def test_admins_are_told_on_the_dashboard_with_the_line_that_mends_it(
    db: None, own_redis: object, settings: Any, role: Role
) -> None:
    client = Client()
    client.force_login(User.objects.create(username="ada", role=role))

    assert OPEN not in client.get("/").text
    settings.IS_OPEN_UNENCRYPTED = True
    page = client.get("/").text

    assert (OPEN in page) is (role == Role.ADMIN)
    assert ("<code>TLS=self</code>" in page) is (role == Role.ADMIN)


@pytest.mark.parametrize(
    ("chosen", "is_open"),
    [
        ({}, False),
        ({"HOST": "0.0.0.0"}, True),
        ({"HOST": "::"}, True),
        ({"HOST": "192.0.2.1"}, True),
        ({"HOST": "localhost"}, False),
        ({"HOST": "0.0.0.0", "INFERDASH_TLS": "True"}, False),
        ({"HOST": "0.0.0.0", "TLS": "self"}, False),
        ({"HOST": "0.0.0.0", "TLS_CERT": "/a", "TLS_KEY": "/b"}, False),
    ],
)
def test_it_is_open_where_neither_it_nor_a_proxy_ends_tls(
    chosen: dict[str, str], is_open: bool, tmp_path: Path
) -> None:
    empty = dict.fromkeys(("HOST", "INFERDASH_TLS", "TLS", "TLS_CERT", "TLS_KEY"), "")
    done = subprocess.run(
        [sys.executable, "-c", "from inferdash import settings as s; print(s.IS_OPEN_UNENCRYPTED)"],
        env=os.environ | empty | {"INFERDASH_DATA": str(tmp_path)} | chosen,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == str(is_open)
