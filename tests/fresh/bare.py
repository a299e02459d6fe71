"""A minimal Debian or Ubuntu in a folder, from the mirror that this machine itself uses."""

import os
import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests import base_images

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "inferdash-tests"
# What the README asks of a machine, and nothing more. Certificates come with any real one.
PACKAGES = "python3,make,git,ca-certificates"
SUITES = {"ubuntu": "noble", "debian": "trixie"}


def unpack(root: Path) -> None:
    suite = SUITES.get(platform.freedesktop_os_release()["ID"], "trixie")
    kept = CACHE / f"fresh-{suite}.tar"
    if not kept.exists():
        _build(suite, base_images.mirror(suite), kept)
    subprocess.run(["tar", "-C", root, "-xpf", kept], check=True)
    root.chmod(0o755)


def _build(suite: str, mirror: str, kept: Path) -> None:
    print(f"making a bare {suite} (once, about a minute)", flush=True)
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="inferdash-fresh-base-") as folder:
        root = Path(folder) / "root"
        options = ["--variant=minbase", f"--include={PACKAGES}"]
        subprocess.run(
            ["debootstrap", *options, suite, root, mirror], check=True, stdout=subprocess.DEVNULL
        )
        subprocess.run(
            ["chroot", root, "useradd", "-m", "-u", "1000", "-U", "-s", "/bin/bash", "person"],
            check=True,
        )
        for waste in ("var/cache/apt/archives", "usr/share/doc", "usr/share/locale"):
            shutil.rmtree(root / waste, ignore_errors=True)
        draft = kept.with_suffix(".draft")
        subprocess.run(["tar", "-C", root, "-cf", draft, "."], check=True)
        draft.rename(kept)


def pass_on_configuration(root: Path, home: Path) -> None:
    """How this machine reaches its mirrors: resolver, certificates, apt's, pip's and npm's files."""
    for name in ("etc/resolv.conf", "etc/hosts", "etc/pip.conf"):
        _copy(Path("/") / name, root / name)
    _copy(Path("/etc/ssl/certs/ca-certificates.crt"), root / "etc/ssl/certs/ca-certificates.crt")
    for path in Path("/etc/apt/apt.conf.d").glob("*"):
        if path.is_file() and "Acquire::" in path.read_text():
            _copy(path, root / "etc/apt/apt.conf.d" / path.name)
    for name in (".config/pip/pip.conf", ".pip/pip.conf", ".npmrc", ".config/uv/uv.toml"):
        _copy(Path.home() / name, root / home / name)


def _copy(source: Path, target: Path) -> None:
    if source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        shutil.copyfile(source, target)


def environment() -> dict[str, str]:
    """A login's, and what tells the package clients where to go."""
    passed = re.compile(
        r"(?i)(pip|uv|npm_config)_.*|.*_proxy|.*(ssl|ca)_?cert.*|.*ca_bundle|.*_ca_.*"
    )
    kept = {name: value for name, value in os.environ.items() if passed.fullmatch(name)}
    kept.pop("UV", None)
    return kept | {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "TERM": "xterm",
        "NO_COLOR": "1",
        "USER": "person",
        "LANG": "C.UTF-8",
    }
