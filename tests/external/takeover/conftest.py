"""A box with a real watcher, and somebody who uses Docker without inferdash."""

from tests.chaos.conftest import place  # noqa: F401 - a fixture
from tests.external.monitoring.conftest import hands  # noqa: F401 - a fixture
