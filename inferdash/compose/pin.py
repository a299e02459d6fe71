"""Digests of the images behind the compose file's tags: `make compose-pin`.

Docker Compose reads docker-compose.override.yml by itself, and from then on takes those very images,
whatever their tags come to mean. It runs before anything is installed, so it imports the standard
library only.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
OVERRIDE = "docker-compose.override.yml"
MARK = "# Written by make compose-pin; say it again for newer images."
OURS = "inferdash:latest"  # built here


class PinError(Exception):
    """What could not be pinned, and what to do about it."""


def main() -> int:
    try:
        text = override(ROOT)
        path = ROOT / OVERRIDE
        if path.exists() and not path.read_text().startswith(MARK):
            print(text)
            raise PinError(f"{path} is yours and stays as it is: add the lines above to it.")
        path.write_text(text)
    except PinError as error:
        print(f"inferdash: {error}", file=sys.stderr)
        return 1
    print(f"inferdash: {OVERRIDE} pins these; docker compose up -d --build takes them:")
    print("\n".join(line.strip() for line in text.splitlines() if "@sha256:" in line))
    return 0


def override(root: Path) -> str:
    """The file's text. Raises PinError."""
    base = re.search(r"^ARG BASE=(\S+)$", (root / "Dockerfile").read_text(), re.MULTILINE)
    if base is None:
        raise PinError("Dockerfile names no ARG BASE=…: it is not the one of this inferdash.")
    # Without the file that is made here: what it pins has no tag any more.
    said = _run([*_compose(), "-f", "docker-compose.yml", "config"], root)
    known: dict[str, str] = {}
    lines = [MARK, "services:"]
    for service, image in sorted(images(said).items()):
        wanted = base[1] if image == OURS else image
        if wanted not in known:
            known[wanted] = _digest(wanted, root)
        lines.append(f"  {service}:")
        if image == OURS:
            lines += ["    build:", "      args:", f"        BASE: {known[wanted]}"]
        else:
            lines.append(f"    image: {known[wanted]}")
    return "\n".join(lines) + "\n"


def images(config: str) -> dict[str, str]:
    """By service, of what `docker compose config` prints."""
    found: dict[str, str] = {}
    section = service = ""
    for line in config.splitlines():
        if match := re.match(r"(\S+):", line):
            section = match[1]
        elif section == "services" and (match := re.match(r"  (\S+):$", line)):
            service = match[1]
        elif section == "services" and (match := re.match(r"    image: [\"']?([^\"']+)", line)):
            found[service] = match[1].strip()
    if not found:
        raise PinError("docker compose config names no image.")
    return found


def _digest(image: str, root: Path) -> str:
    """name@sha256:… of the image that the tag names at its registry now."""
    if "@sha256:" in image:
        return image
    _run(["docker", "pull", "--quiet", image], root)
    said = _run(["docker", "image", "inspect", "--format", "{{json .RepoDigests}}", image], root)
    # As Docker writes it: without a tag, and a registry's port is no tag.
    name = re.sub(r":[^:/]+$", "", image).removeprefix("docker.io/").removeprefix("library/")
    for each in json.loads(said) or []:
        if re.fullmatch(rf"{re.escape(name)}@sha256:[0-9a-f]{{64}}", str(each)):
            return str(each)
    raise PinError(f"Docker knows no digest of {image}: it comes from no registry.")


def _compose() -> list[str]:
    if not shutil.which("docker"):
        raise PinError("Docker is not installed here.")
    plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    if plugin.returncode == 0:
        return ["docker", "compose"]
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    raise PinError("Docker Compose is not installed here: 1.29 or newer, or Docker's plugin.")


def _run(command: list[str], root: Path) -> str:
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PinError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
