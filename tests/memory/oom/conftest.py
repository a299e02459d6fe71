from tests.chaos.conftest import place
from tests.external.monitoring.conftest import hands

__all__ = ["hands", "place"]
