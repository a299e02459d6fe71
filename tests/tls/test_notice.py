"""Who opens inferdash to the network without TLS is told so where they look."""

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from servers.models import Role, User
from tests import factories
from tests.tls.certificates import make
from tests.web_stack import ROOT

OPEN = "inferdash is open to the network without TLS"


@pytest.mark.parametrize("role", [Role.EDITOR, Role.ADMIN])
def test_admins_are_told_on_the_dashboard_with_the_line_that_mends_it(
    db: None, own_redis: object, settings: Any, role: Role
) -> None:
    client = factories.log_in(User.objects.create(username="ada", role=role))

    assert OPEN not in client.get("/").text
    settings.IS_OPEN_UNENCRYPTED = True
    page = client.get("/").text

    assert (OPEN in page) is (role == Role.ADMIN)
    assert ("<code>TLS=self</code>" in page) is (role == Role.ADMIN)


@pytest.mark.parametrize(
    ("days", "said"),
    [(90, None), (14, None), (13, "ends in 13 days"), (1, "ends in 1 day."), (-1, "has ended")],
)
def test_admins_are_told_of_a_certificate_that_nobody_has_renewed(
    db: None, own_redis: object, settings: Any, tmp_path: Path, days: int, said: str | None
) -> None:
    client = factories.log_in(User.objects.create(username="ada", role=Role.ADMIN))
    begins, ends = timedelta(days=-200), timedelta(days=days, minutes=5)
    settings.TLS_CERT = str(make(tmp_path, begins=begins, ends=ends).certificate)

    page = client.get("/").text

    assert ("inferdash's certificate" in page) is (said is not None)
    assert said is None or said in page
    Path(settings.TLS_CERT).write_text("half of a")
    assert client.get("/").status_code == 200


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
