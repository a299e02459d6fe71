"""Images made by Docker Engine from a Dockerfile and a few small files beside it."""

import base64
import io
import json
import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from servers.host.docker.client import DockerResponse, server_address, translate_errors
from servers.host.images.images import DockerImages, DockerStream, PullProgress
from servers.launch import numbers

# On images, never "inferdash.install": what is made from an image inherits its labels, and a
# container of somebody else's would pass for ours.
BUILT = "inferdash.built"
PROFILE = "inferdash.profile"
_MADE = re.compile("---> ([0-9a-f]{12})")


@dataclass(frozen=True, kw_only=True)
class BuildOutput:
    """What a line of a build's answer says: a text for the log, which step it begins, and the
    short id of the image that a step has made now."""

    text: str = ""
    step: int | None = None
    steps: int | None = None
    made: str = ""


class BuildAnswer:
    """Reads the lines of a build, of which one may be half a line of text."""

    def __init__(self) -> None:
        self._base = PullProgress()
        self._is_new = False  # whether the step makes an image: FROM and the cache have one

    def hear(self, line: dict[str, Any]) -> BuildOutput:
        if "stream" in line:
            text = str(line["stream"])
            step, steps = _step(text)
            if step:
                self._is_new = " : FROM " not in text
            elif text.strip() == "---> Using cache":
                self._is_new = False
            made = _MADE.fullmatch(text.strip()) if self._is_new else None
            return BuildOutput(text=text, step=step, steps=steps, made=made[1] if made else "")
        if "status" in line:
            return BuildOutput(text=self._status(line))
        return BuildOutput()

    def _status(self, line: dict[str, Any]) -> str:
        """The pull of a base image: what each layer comes to, not every of its thousand words."""
        self._base.hear(line)
        said, layer = str(line["status"]), str(line.get("id") or "")
        if line.get("progressDetail") or said in ("Waiting", "Verifying Checksum"):
            return ""
        return f"{layer}: {said}\n" if layer else f"{said}\n"


def _step(text: str) -> tuple[int | None, int | None]:
    words = text.split()
    if len(words) > 1 and words[0] == "Step" and words[1].count("/") == 1:
        step, _slash, steps = words[1].partition("/")
        return numbers.whole(step), numbers.whole(steps)
    return None, None


class Builds(DockerImages):
    install: str

    def begin_build(
        self, tag: str, dockerfile: str, files: Mapping[str, str], *, profile: str
    ) -> DockerStream:
        """Begin a build: the stream is Docker's own lines, for BuildAnswer. Raises ContainerError.

        It goes on while somebody reads it. Whatever RUN says is done in containers as Docker makes
        them by itself: no GPU, nothing mounted, no privilege.
        """
        query = urlencode(
            {
                "t": tag,
                "rm": "1",
                "forcerm": "1",
                "labels": json.dumps({BUILT: self.install, PROFILE: profile}),
                "cpushares": "256",  # of 1024: what serves comes first
            }
        )
        doing = f"to build {tag}"
        logins = {server_address(each.registry): each.to_json() for each in self.logins()}
        known = base64.urlsafe_b64encode(json.dumps(logins).encode()).decode()
        with translate_errors(doing):
            answer = DockerResponse(
                self.host,
                f"/build?{query}",
                method="POST",
                headers={"X-Registry-Config": known},
                body=_context({**files, "Dockerfile": dockerfile}),
                content_type="application/x-tar",
            )
        return DockerStream(answer, doing)


def _context(files: Mapping[str, str]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, text in sorted(files.items()):
            content = text.encode()
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            # A script is to be run; nothing here is a secret.
            entry.mode = 0o755 if content.startswith(b"#!") else 0o644
            tar.addfile(entry, io.BytesIO(content))
        end = tar.offset + 2 * tarfile.BLOCKSIZE
    # Without what pads it to a tape's record: Docker reads to the archive's end and no further,
    # and what it leaves unread resets the connection under its answer.
    return packed.getvalue()[:end]
