"""vLLM's image and its models, which one process of tests makes while the others wait.

Apart from build.py, whose text is the image's recipe.
"""

import fcntl

from tests import docker_engine
from tests.vllm import build

# Beside the model for texts alone, and made with it: one that takes pictures.
EYES = build.MODEL / "eyes"


def provide(host: str) -> None:
    with (docker_engine.FOLDER / "vllm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        build.build(host)
