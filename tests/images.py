"""Images for the tests, made without a registry: a Debian by debootstrap, and the test engine.

Each carries a hash of what it was made from, and is made again when that changes.
"""

import hashlib
import io
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
LABEL = "inferdash.test.recipe"
BASE = "inferdash-test/base:bookworm"
ENGINE = "inferdash-test/engine:1"
ENGINE_FILES = (HERE / "engine" / "engine.py", HERE / "scripted_engine.py")


def mirror() -> str:
    """Where this machine gets its Debian packages from."""
    for path in [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]:
        if path.is_file():
            found = re.search(r"https?://\S+/debian/?(?=\s)", path.read_text() + "\n")
            if found:
                return found[0]
    raise RuntimeError("No Debian mirror in /etc/apt: tests cannot build their base image.")


def build_base(
    host: str, suite: str = "bookworm", tag: str = BASE, include: str = "python3"
) -> None:
    recipe = f"{suite} {include}"
    if _recipe_of(host, tag) == recipe:
        return
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        subprocess.run(
            ["debootstrap", "--variant=minbase", f"--include={include}", suite, root, mirror()],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        for waste in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale"):
            shutil.rmtree(root / waste, ignore_errors=True)
        tar = subprocess.Popen(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE)
        _docker(host, "import", "--change", f'LABEL {LABEL}="{recipe}"', "-", tag, stdin=tar.stdout)
        tar.wait()


def build_engine(host: str) -> None:
    build_base(host)
    recipe = hashlib.sha256(b"".join(path.read_bytes() for path in ENGINE_FILES)).hexdigest()
    if _recipe_of(host, ENGINE) == recipe:
        return
    dockerfile = (
        f"FROM {BASE}\nCOPY *.py /opt/engine/\n"
        f'ENTRYPOINT ["python3", "/opt/engine/engine.py"]\nLABEL {LABEL}="{recipe}"\n'
    )
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path in ENGINE_FILES:
            tar.add(path, path.name)
        entry = tarfile.TarInfo("Dockerfile")
        entry.size = len(dockerfile)
        tar.addfile(entry, io.BytesIO(dockerfile.encode()))
    _docker(host, "build", "-t", ENGINE, "-", input=context.getvalue())


def _recipe_of(host: str, tag: str) -> str:
    template = f'{{{{index .Config.Labels "{LABEL}"}}}}'
    found = subprocess.run(
        ["docker", "-H", host, "image", "inspect", "-f", template, tag],
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip()


def _docker(host: str, *words: str, **options: object) -> None:
    done = subprocess.run(  # type: ignore[call-overload]
        ["docker", "-H", host, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        **options,
    )
    if done.returncode:
        raise RuntimeError(f"docker {words[0]}: {done.stdout.decode(errors='replace')}")
