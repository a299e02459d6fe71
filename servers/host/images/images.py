"""Images of a box's Docker Engine: what each says of itself, pulls, deletions and builds."""

import base64
import io
import json
import re
import tarfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import quote, urlencode

from servers.host.docker.client import (
    DockerResponse,
    DockerSocketError,
    NotFound,
    server_address,
    translate_errors,
)
from servers.host.docker.facts import ContainerError, Image, Json, split_reference, translate
from servers.host.external.containers import DockerReader
from servers.launch import numbers

type LayerState = Literal["waiting", "downloading", "downloaded", "extracting", "done", "there"]

# Docker's words of a layer, beside "Downloading" and "Extracting", which come with figures.
_STATES: dict[str, LayerState] = {
    "Pulling fs layer": "waiting",
    "Waiting": "waiting",
    "Verifying Checksum": "downloaded",
    "Download complete": "downloaded",
    "Pull complete": "done",
    "Already exists": "there",
}


@dataclass(frozen=True, kw_only=True)
class Layer:
    """`id` is the beginning of the digest by which the registry knows it.

    `total` is None until Docker tells its size; of one that the box had it never does. `unpacked`
    is how much of it has been written to the box's disk, of its size as it travels.
    """

    id: str
    state: LayerState
    done: int = 0  # bytes that have come
    total: int | None = None
    unpacked: int = 0


@dataclass(frozen=True, kw_only=True)
class PullState:
    """A pull so far, in bytes; total is None until Docker knows a layer's size."""

    done: int
    total: int | None
    layers: tuple[Layer, ...] = field(default=(), compare=False)


class PullProgress:
    """Adds up what Docker tells of a pull's layers."""

    def __init__(self) -> None:
        self._layers: dict[str, Layer] = {}

    def hear(self, line: dict[str, Any]) -> PullState:
        """Take in one line of Docker's answer to a pull."""
        status, layer = line.get("status") or "", line.get("id") or ""
        detail = line.get("progressDetail") or {}
        known = self._layers.get(layer)
        if status == "Downloading" and detail.get("total"):
            self._layers[layer] = Layer(
                id=layer, state="downloading", done=detail["current"], total=detail["total"]
            )
        elif status == "Extracting" and known is not None:
            self._keep(known, "extracting", unpacked=int(detail.get("current") or 0))
        elif status in _STATES and layer:
            self._keep(known or Layer(id=layer, state="waiting"), _STATES[status])
        return self.so_far()

    def so_far(self) -> PullState:
        layers = tuple(self._layers.values())
        total = sum(each.total or 0 for each in layers)
        return PullState(done=sum(each.done for each in layers), total=total or None, layers=layers)

    def _keep(self, layer: Layer, state: LayerState, *, unpacked: int = 0) -> None:
        has_come = state in ("downloaded", "extracting", "done") and layer.total is not None
        self._layers[layer.id] = Layer(
            id=layer.id,
            state=state,
            done=(layer.total or 0) if has_come else layer.done,
            total=layer.total,
            unpacked=(layer.total or 0) if state == "done" else unpacked,
        )


_NONE = "<none>"
_PATIENCE, _LOOK_EVERY = 60.0, 0.5  # seconds, for others who add up sizes
# Each registry says it in words of its own.
_REFUSED = re.compile(r"unauthorized|\b40[13]\b|incorrect username|denied", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class ListedImage:
    """An image as Docker lists it. Sizes in bytes."""

    id: str
    tags: tuple[str, ...]  # as Docker writes them: vllm/vllm-openai:v0.20.2
    digests: tuple[str, ...]  # name@sha256:…, for what came from a registry
    size: int  # with the layers that it shares with others
    created_at: datetime | None
    labels: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_docker(cls, found: Json) -> "ListedImage":
        made = found.get("Created")
        return cls(
            id=found["Id"],
            tags=tuple(each for each in found.get("RepoTags") or () if _NONE not in each),
            digests=tuple(each for each in found.get("RepoDigests") or () if _NONE not in each),
            size=found["Size"],
            # Some builders write 0, others 1980, so that builds are the same byte by byte.
            created_at=datetime.fromtimestamp(made, UTC) if made and made > 400_000_000 else None,
            labels=found.get("Labels") or {},
        )


@dataclass(frozen=True, kw_only=True)
class ImageUser:
    """A container, running or not, and the image that it was made from."""

    id: str
    name: str
    image_id: str
    state: str
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ImageDiskUsage:
    """What images take on Docker's disk, in bytes."""

    layers: int  # each layer once
    shared: dict[str, int]  # by image id: of its size, what other images have too


@dataclass(frozen=True, kw_only=True)
class PublishedImage:
    """What a registry has under a reference."""

    digest: str  # sha256:…
    platforms: tuple[str, ...]  # linux/amd64, linux/arm64; empty where it does not tell


class DockerStream:
    """An answer of Docker's that goes on for long, as the JSON lines that it consists of.

    close() ends it at once, also from another thread, and with it what Docker does. Raises
    ContainerError for what Docker says in it, and when it breaks off.
    """

    def __init__(self, answer: DockerResponse, doing: str) -> None:
        self._answer = answer
        self._doing = doing

    @property
    def is_closed(self) -> bool:
        return self._answer.is_closed

    def close(self) -> None:
        self._answer.close()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        with translate_errors(self._doing), closing(self._answer):
            for line in self._answer.lines():
                said = json.loads(line)
                if "error" in said:
                    raise translate(str(said["error"]), doing=self._doing)
                yield said


class DockerImages(DockerReader):
    """What is done with images. Nothing here touches a container."""

    def image(self, reference: str) -> Image | None:
        """The local image; None when this box does not have it. Raises ContainerError."""
        found = self.made_from(reference)
        return Image.from_docker(found) if found is not None else None

    def digest_of(self, image_id: str) -> str:
        """Its name at a registry, by digest; "" of one that has none, or is gone."""
        found = self.image(image_id)
        return next(iter(found.digests), "") if found else ""

    def images(self) -> list[ListedImage]:
        """Every image but the unnamed steps of builds. Raises ContainerError."""
        with translate_errors("a list of images"):
            found = self._api.images()
        return [ListedImage.from_docker(each) for each in found]

    def uses(self) -> list[ImageUser]:
        """Every container of the box, whoever made it, with its image. Raises ContainerError."""
        with translate_errors("a list of containers"):
            found = self._api.containers(all=True)
        return [
            ImageUser(
                id=each["Id"],
                name=(each.get("Names") or ["/"])[0].lstrip("/"),
                image_id=each["ImageID"],
                state=each["State"],
                labels=each.get("Labels") or {},
            )
            for each in found
        ]

    def disk_of_images(self) -> ImageDiskUsage:
        """What images take together and have in common. Raises ContainerError.

        May take a minute: Docker before 25 adds up containers and volumes, too, and does it for
        one caller at a time.
        """
        said = self._usage()
        usage = said.get("ImageUsage") or {}
        items = said.get("Images") or usage.get("Items") or ()
        return ImageDiskUsage(
            layers=int(said.get("LayersSize") or usage.get("TotalSize") or 0),
            shared={each["Id"]: max(0, int(each.get("SharedSize") or 0)) for each in items},
        )

    def _usage(self) -> Json:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                with closing(DockerResponse(self.host, "/system/df?type=image")) as answer:
                    found: Json = json.loads(answer.read())
                    return found
            except DockerSocketError as error:
                if "already running" not in str(error) or time.monotonic() > deadline:
                    raise translate(str(error), doing="the sizes of images") from error
            time.sleep(_LOOK_EVERY)

    def begin_pull(self, reference: str) -> DockerStream:
        """Begin a pull: the stream is Docker's own lines, for PullProgress. Raises ContainerError.

        It goes on while somebody reads it, and what is whole by then stays for the next time.
        """
        repository, tag = split_reference(reference)
        query = urlencode({"fromImage": repository, "tag": tag})
        doing = f"to pull {reference}"
        with translate_errors(doing):
            path = f"/images/create?{query}"
            headers = self._login(repository)
            return DockerStream(
                DockerResponse(self.host, path, method="POST", headers=headers), doing
            )

    def find_published(self, reference: str) -> PublishedImage:
        """Ask the reference's registry what it has there; nothing is pulled.

        Docker asks, so that its mirrors, proxies and certificates count. Raises ContainerError.
        """
        repository, _tag = split_reference(reference)
        doing = f"to ask the registry for {reference}"
        path = f"/distribution/{quote(reference, safe='/:@')}/json"
        headers = self._login(repository)
        with (
            translate_errors(doing),
            closing(DockerResponse(self.host, path, headers=headers)) as answer,
        ):
            said = json.loads(answer.read())
        platforms = (
            "/".join(filter(None, (each.get("os"), each.get("architecture"))))
            for each in said.get("Platforms") or ()
        )
        return PublishedImage(
            digest=said["Descriptor"]["digest"],
            # Attestations beside the image are of the platform unknown.
            platforms=tuple(dict.fromkeys(each for each in platforms if "unknown" not in each)),
        )

    def tag(self, image: str, reference: str) -> None:
        """Let a reference mean this image from now on. Raises ContainerError."""
        repository, tag = split_reference(reference)
        with translate_errors(f"to name the image {reference}"):
            self._api.tag(image, repository, tag, force=True)

    def untag(self, reference: str) -> None:
        """Take a name away from its image; the last one takes the image along.

        One that is gone already is fine. Never against Docker's will: what a container was made
        from stays. Raises ContainerError, of the kind image_in_use then.
        """
        with translate_errors(f"to remove {reference}"):
            try:
                self._api.remove_image(reference)
            except NotFound:
                return

    def drop_image(self, image_id: str) -> bool:
        """Remove an image with all of its names; whether it was there. Raises ContainerError.

        Not one that a container was made from, running or not: kind image_in_use.
        """
        found = next((each for each in self.images() if each.id == image_id), None)
        if found is None and self.image(image_id) is None:
            return False
        users = [each.name for each in self.uses() if each.image_id == image_id]
        if users:
            raise ContainerError(
                f"The image is what the container {users[0]} was made from. Remove that first: "
                f"`docker rm {users[0]}`.",
                kind="image_in_use",
            )
        for name in (*(found.tags if found else ()), *(found.digests if found else ())):
            self.untag(name)
        self.untag(image_id)
        return True

    def check_login(self, registry: str, username: str, password: str) -> None:
        """Log in at a registry and forget it again. Raises ContainerError, kind bad_login."""
        body = json.dumps(
            {
                "username": username,
                "password": password,
                "serveraddress": server_address(registry),
            }
        ).encode()
        try:
            with closing(DockerResponse(self.host, "/auth", method="POST", body=body)):
                return
        except DockerSocketError as error:
            # Docker's words may hold what was sent.
            said = str(error).replace(password, "…") if password else str(error)
            if _REFUSED.search(said):
                raise ContainerError(
                    f"{registry} does not take this name and password. Enter them again; many "
                    "registries want an access token instead of the password.",
                    kind="bad_login",
                    detail=said,
                ) from None
            raise translate(said, doing=f"to log in at {registry}") from None


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
