import pytest

from servers.models import Run
from tests import factories


@pytest.fixture
def run(db: None) -> Run:
    return factories.run(factories.server(factories.box()))
