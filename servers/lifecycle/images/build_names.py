"""The name of the image that a profile's own Dockerfile makes."""

import hashlib
import json
import re

from servers.launch.engines.launch import Launch

REPOSITORY = "inferdash"
_HASH = 12


def tag(slug: str, launch: Launch) -> str:
    """Another text makes another image; the same text is the same image."""
    said = json.dumps([launch.dockerfile, sorted(launch.build_files.items())])
    return f"{REPOSITORY}/{slug}:{hashlib.sha256(said.encode()).hexdigest()[:_HASH]}"


def is_ours(reference: str) -> bool:
    """Whether such a name is one that only a build here gives."""
    return bool(re.fullmatch(rf"{REPOSITORY}/[a-z0-9_-]+:[0-9a-f]{{{_HASH}}}", reference))
