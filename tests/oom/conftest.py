from tests.chaos.conftest import place
from tests.watched.conftest import hands

__all__ = ["hands", "place"]
