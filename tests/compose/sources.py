"""How this machine reaches its packages, for builds that know nothing of its set-up."""

import configparser
import os
import shutil
import subprocess
from pathlib import Path

PIP_FILES = ("/etc/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf")
OWN_CERTIFICATES = Path("/usr/local/share/ca-certificates")


def build_arguments() -> dict[str, str]:
    """The Dockerfile's build arguments that let it reach what this machine reaches."""
    found = {
        "PIP_INDEX_URL": _pip("index-url"),
        "PIP_EXTRA_INDEX_URL": _pip("extra-index-url"),
        "PIP_TRUSTED_HOST": _pip("trusted-host"),
        "NPM_CONFIG_REGISTRY": _npm_registry(),
        "EXTRA_CA": "\n".join(
            path.read_text().strip() for path in sorted(OWN_CERTIFICATES.rglob("*.crt"))
        ),
    }
    return {name: value for name, value in found.items() if value}


def _pip(setting: str) -> str:
    """The environment wins, then the person's file, then the machine's, as for pip itself."""
    value = os.environ.get(f"PIP_{setting.upper().replace('-', '_')}", "")
    if not value:
        parser = configparser.RawConfigParser()
        parser.read([Path(name).expanduser() for name in PIP_FILES])
        value = parser.get("global", setting, fallback="")
    # A folder of this machine is not there in the build.
    return " ".join(word for word in value.split() if not word.startswith(("file:", "/")))


def _npm_registry() -> str:
    npm = shutil.which("npm")
    if npm is None:
        return os.environ.get("NPM_CONFIG_REGISTRY", "")
    said = subprocess.run(
        [npm, "config", "get", "registry"], cwd="/", capture_output=True, text=True, check=False
    )
    return said.stdout.strip() if said.returncode == 0 else ""
