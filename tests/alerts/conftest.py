"""Somebody who is sent to, and a box that sends."""

from collections.abc import Iterator

import pytest

from servers.models import Box
from tests import factories
from tests.alerts.receiver import Receiver, receiver


@pytest.fixture
def there() -> Iterator[Receiver]:
    with receiver() as made:
        yield made


@pytest.fixture
def box(own_redis: object) -> Box:
    return factories.box("rtx8")
