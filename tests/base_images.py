"""Images for the tests, made without a registry: a base by debootstrap, and the test engine.

Each carries a hash of what it was made from, and is made again when that changes.
"""

import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import docker
from docker.errors import ImageNotFound

HERE = Path(__file__).resolve().parent
LABEL = "inferdash.test.recipe"
SUITE = platform.freedesktop_os_release().get("VERSION_CODENAME", "bookworm")
BASE = f"inferdash-test/base:{SUITE}"
ENGINE = "inferdash-test/engine:1"
_LISTED = "mirror+file:"  # a file with the mirrors to try, one a line, as on CI's runner
# How a suite is made; of one that is newer than this debootstrap, as it makes unstable.
SCRIPTS = Path("/usr/share/debootstrap/scripts")
# Engines may be started by their own names, too.
SHIM = '#!/bin/sh\nexec python3 -m tests.engine "${0##*/}" "$@"\n'
BENCH_SERVING = (
    'import sys\n\nfrom tests.engine import bench\n\nbench.main("sglang", sys.argv[1:])\n'
)
DOCKERFILE = f"""\
FROM {BASE}
COPY . /opt/
RUN cd /usr/local/bin && for name in vllm sglang llama-server llama-bench; do \\
    install /opt/shim $name; done && mkdir /app && ln -s /usr/local/bin/llama-server /app/
ENV PYTHONPATH=/opt PYTHONUNBUFFERED=1
ENTRYPOINT ["python3", "-m", "tests.engine"]
"""


class ImageError(Exception):
    """An image cannot be built; the text says why."""


def mirror(suite: str, apt: Path = Path("/etc/apt")) -> str:
    """Where this machine gets the packages of a suite from: its own apt says."""
    if given := os.environ.get("DEBIAN_MIRROR"):
        return given
    sources = list(_sources(apt))
    for uri, suites in sources:
        if suite in suites:
            return uri
    for uri, _suites in sources:
        if re.search(r"/debian/?$", uri):
            return uri
    raise ImageError(f"No apt source of this machine has {suite}: set DEBIAN_MIRROR.")


def build_base(
    host: str,
    suite: str = SUITE,
    tag: str = BASE,
    include: str = "python3",
    changes: tuple[str, ...] = (),
) -> None:
    recipe = " ".join((suite, include, *changes))
    with closing(docker.APIClient(host, version="auto", timeout=600)) as client:
        if _recipe_of(client, tag) == recipe:
            return
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / "root"
            debootstrap(root, suite, include)
            with subprocess.Popen(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE) as tar:
                repository, _colon, version = tag.rpartition(":")
                label = f"LABEL {LABEL}={json.dumps(recipe)}"
                said = client.import_image(
                    tar.stdout, repository, version, changes=[*changes, label]
                )
        if _recipe_of(client, tag) != recipe:
            raise ImageError(f"{tag} could not be imported: {said}")


def build_engine(host: str) -> None:
    build_base(host)
    files = {
        f"tests/{path.relative_to(HERE)}": path.read_bytes()
        for path in [HERE / "__init__.py", HERE / "scripted_engine.py", *_engine_files()]
    }
    files |= {"shim": SHIM.encode(), "Dockerfile": DOCKERFILE.encode()}
    files["sglang/bench_serving.py"] = BENCH_SERVING.encode()
    recipe = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()
    with closing(docker.APIClient(host, version="auto", timeout=600)) as client:
        if _recipe_of(client, ENGINE) == recipe:
            return
        said = list(
            client.build(
                fileobj=_context(files),
                custom_context=True,
                tag=ENGINE,
                rm=True,
                labels={LABEL: recipe},
                decode=True,
            )
        )
        if _recipe_of(client, ENGINE) != recipe:
            raise ImageError(f"{ENGINE} could not be built: {said[-3:]}")
        # The one before, unless a container still uses it.
        client.prune_images(  # type: ignore[no-untyped-call]
            filters={"dangling": True, "label": [LABEL]}
        )


def copy_engine(here: str, there: str) -> None:
    """Give another Docker Engine the test engine's image, unless it has the same."""
    with (
        closing(docker.APIClient(here, version="auto", timeout=600)) as source,
        closing(docker.APIClient(there, version="auto", timeout=600)) as target,
    ):
        if _recipe_of(target, ENGINE) != _recipe_of(source, ENGINE):
            for _progress in target.load_image(source.get_image(ENGINE)):  # type: ignore[no-untyped-call]
                pass


def _engine_files() -> list[Path]:
    found = (HERE / "engine").rglob("*")
    return sorted(path for path in found if path.suffix in (".py", ".txt"))


def _context(files: dict[str, bytes]) -> io.BytesIO:
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mode = 0o755
            tar.addfile(entry, io.BytesIO(content))
    context.seek(0)
    return context


def debootstrap(root: Path, suite: str, include: str) -> None:
    script = SCRIPTS / (suite if (SCRIPTS / suite).exists() else "sid")
    done = subprocess.run(
        [
            *("debootstrap", "--variant=minbase", f"--include={include}"),
            *(suite, root, mirror(suite), script),
        ],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"},
    )
    if done.returncode:
        raise ImageError(f"debootstrap {suite} failed:\n{done.stdout[-2000:]}{done.stderr}")
    for waste in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale"):
        shutil.rmtree(root / waste, ignore_errors=True)


def _sources(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Address and suites of every apt source, of both kinds of file."""
    for path in [folder / "sources.list", *sorted(folder.glob("sources.list.d/*.list"))]:
        if path.is_file():
            for line in path.read_text().splitlines():
                if found := re.match(r"deb\s+(?:\[[^]]*]\s+)?((?:http|mirror)\S+)\s+(\S+)", line):
                    yield _first_of(found[1]), [found[2]]
    for path in sorted(folder.glob("sources.list.d/*.sources")):
        for stanza in re.split(r"\n\s*\n", path.read_text()):
            fields = dict(re.findall(r"^(\w+):[ \t]*(.*)$", stanza, re.MULTILINE))
            if "deb" in fields.get("Types", "").split():
                for uri in fields.get("URIs", "").split():
                    yield _first_of(uri), fields.get("Suites", "").split()


def _first_of(uri: str) -> str:
    if not uri.startswith(_LISTED):
        return uri
    listed = Path(uri.removeprefix(_LISTED)).read_text()
    return next(line.split()[0] for line in listed.splitlines() if line.startswith("http"))


def _recipe_of(client: docker.APIClient, tag: str) -> str | None:
    try:
        found = client.inspect_image(tag)  # type: ignore[no-untyped-call]
    except ImageNotFound:
        return None
    label: str | None = (found["Config"].get("Labels") or {}).get(LABEL)
    return label
