"""llama.cpp itself in an image, on the CPU, from Debian's next release, and a tiny model for it.

`python -m tests.llamacpp` makes both unless they are there: half a minute the first time.
"""

import fcntl
import hashlib
from pathlib import Path

from tests import base_images, docker_engine
from tests.llamacpp import make_model

TAG = "inferdash-test/llama.cpp:cpu"
SUITE = "forky"  # the first Debian that has it
# Made anew when its recipe changes.
_RECIPE = Path(make_model.__file__).read_bytes()
MODEL = (
    docker_engine.FOLDER
    / "models"
    / f"tiny-gguf-{hashlib.sha256(_RECIPE).hexdigest()[:8]}"
    / "tiny-qwen3.gguf"
)


def provide(host: str) -> None:
    """Both; one process of tests makes them while the others wait. Raises base_images.ImageError."""
    with (docker_engine.FOLDER / "llamacpp.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        base_images.build_base(
            host,
            suite=SUITE,
            tag=TAG,
            include="llama.cpp-tools",
            changes=('ENTRYPOINT ["llama-server"]',),
        )
        if not MODEL.exists():
            make_model.write(MODEL)
