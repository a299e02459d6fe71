import base64
from pathlib import Path
from typing import Any

import pytest

from servers.host.links.files import WireFiles
from servers.models import Role, User


@pytest.fixture
def hub(db: None, own_redis: object, settings: Any, tmp_path: Path) -> User:
    """Whoever administers an inferdash that takes boxes."""
    settings.WIRE, settings.DATA, settings.PUBLIC_URL = "hub", tmp_path, "http://10.0.0.1:8470"
    files = WireFiles(tmp_path)
    files.folder.mkdir()
    packed = base64.b64encode(b"a host key").decode()
    files.host_key.with_suffix(".pub").write_text(f"ssh-ed25519 {packed} hub\n")
    return User.objects.create_user("ada", password="x", role=Role.ADMIN)
