"""The worker and the watcher as processes that can be killed, with the test's own rows."""

from collections.abc import Iterator
from typing import Any

import pytest
import redis
from django.conf import settings as django_settings
from django.db import connection

from servers.host.docker.containers import DockerContainers
from tests.chaos.docker_proxy import DockerProxy
from tests.chaos.mothers import Mothers
from tests.chaos.place import ChaosSite


@pytest.fixture
def place(
    transactional_db: None,
    asking: DockerContainers,
    own_redis: redis.Redis,
    redis_url: str,
    mothers: Mothers,
    settings: Any,
) -> Iterator[ChaosSite]:
    mothers.empty()
    data = mothers.folder / "var"
    data.mkdir(mode=0o700)
    # SQLite goes by the file behind the link: rows that the test makes are theirs.
    (data / "inferdash.sqlite3").symlink_to(connection.settings_dict["NAME"])
    (data / "install.id").write_text(asking.install)
    (data / "secrets.key").write_text(django_settings.SECRETS_KEY)
    settings.DATA = data
    settings.BOX = "rtx8"
    settings.BOX_FILE = data / "box.toml"
    settings.BOX_FILE.write_text("")
    with DockerProxy(mothers.folder / "docker.sock", asking.host) as proxy:
        place = ChaosSite(mothers=mothers, docker=asking, proxy=proxy, redis_url=redis_url)
        try:
            yield place
        finally:
            place.end()
