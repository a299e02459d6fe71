from pathlib import Path
from typing import Any

import pytest

from servers.host.links.files import WireFiles
from servers.models import Role, User


@pytest.fixture
def hub(db: None, own_redis: object, settings: Any, tmp_path: Path) -> User:
    """Whoever administers an inferdash that takes boxes."""
    settings.WIRE, settings.DATA, settings.PUBLIC_URL = "hub", tmp_path, "http://10.0.0.1:8470"
    settings.HUB_OWNER = "milo"
    WireFiles(tmp_path).folder.mkdir()
    return User.objects.create_user("ada", password="x", role=Role.ADMIN)
