"""A simulated Docker Engine (the part of its API that inferdash uses, at a Unix socket), and the program that simulates."""

import asyncio
import hashlib
import itertools
import json
import os
import random
import re
import socket
import struct
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from inferdash.demo.box import SimulatedBox, make_boxes
from inferdash.demo.container import SimulatedContainer, timestamp
from inferdash.demo.engine import Reply, SimulatedRequest, serve
from inferdash.demo.script import GIB, SAMPLE
from servers.launch.engines import flaglist
from servers.launch.engines.flaglist import Flag

# With its size in GiB and its age in days.
IMAGES: dict[str, list[float]] = SAMPLE["images"]
ENTRYPOINTS = {"vllm": ["vllm", "serve"], "llama.cpp": ["/app/llama-server"]}
_STATUS = "CapBnd:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n"
_FRAME = struct.Struct(">BxxxL")
_PATH = re.compile(r"^(?:/v1\.\d+)?(/.*)$")


class SimulatedDocker:
    def __init__(self, box: SimulatedBox) -> None:
        self.box = box
        self.containers: dict[str, SimulatedContainer] = {}
        self.images = {name: self._image(name, *facts) for name, facts in IMAGES.items()}
        self.volumes: dict[str, dict[str, Any]] = {}
        self._listeners: set[asyncio.Queue[dict[str, Any]]] = set()
        self._past: list[dict[str, Any]] = []

    def listen(self) -> None:
        self.box.socket.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(str(self.box.socket))
        self.box.socket.chmod(0o600)
        serve(self.answer, listening)

    async def answer(self, asked: SimulatedRequest) -> Reply:
        match = _PATH.match(asked.path)
        parts = (match[1] if match else asked.path).strip("/").split("/")
        match (asked.method, *parts):
            case (_, "_ping"):
                return Reply(body=b"OK", kind="text/plain")
            case (_, "version"):
                return Reply(
                    body={"Version": "28.5.1", "ApiVersion": "1.51", "MinAPIVersion": "1.24"}
                )
            case (_, "info"):
                return Reply(body=self._info())
            case (_, "events"):
                return Reply(stream=self._events(asked))
            case (_, "auth"):
                return Reply(body={"Status": "Login Succeeded"})
            case (_, "system", "df"):
                images = [self._list_image(name) for name in self.images]
                return Reply(
                    body={"LayersSize": sum(each["Size"] for each in images), "Images": images}
                )
            case (_, "distribution", *name):
                return self._find_published("/".join(name[:-1]))
            case (method, "images", *rest):
                return await self._of_images(asked, method, rest)
            case (method, "volumes", *rest):
                return self._of_volumes(asked, method, rest)
            case ("GET", "containers", "json"):
                return Reply(body=self._list(asked))
            case ("POST", "containers", "create"):
                return self._create(asked)
            case (method, "containers", name, *rest):
                container = self._find(name)
                if container is None:
                    return _refuse(404, f"No such container: {name}")
                return await self._of_container(asked, method, container, rest[0] if rest else "")
        return _refuse(404, "page not found: the demo does not simulate this")

    def _info(self) -> dict[str, Any]:
        return {
            "ServerVersion": "28.5.1",
            "DockerRootDir": "/var/lib/docker",
            "Runtimes": {"runc": {}, "nvidia": {}},
            "CgroupDriver": "systemd",
            "CgroupVersion": "2",
            "OperatingSystem": self.box.system,
            "Architecture": self.box.architecture,
            "PidsLimit": True,
        }

    # Containers

    def _find(self, name: str) -> SimulatedContainer | None:
        name = name.lstrip("/")
        for each in self.containers.values():
            if each.name == name or (len(name) >= 12 and each.id.startswith(name)):
                return each
        return None

    def _list(self, asked: SimulatedRequest) -> list[dict[str, Any]]:
        filters = json.loads(asked.query.get("filters") or "{}")
        wanted = {name: list(said) for name, said in filters.items()}
        states = wanted.get("status")
        if states is None and asked.query.get("all") not in ("1", "true", "True"):
            states = ["running"]
        found = [
            each
            for each in self.containers.values()
            if (not states or each.state in states)
            and all(_has_label(each.labels, label) for label in wanted.get("label", ()))
        ]
        return [
            {
                "Id": each.id,
                "Names": [f"/{each.name}"],
                "Image": each.config.get("Image"),
                "ImageID": each.image_id,
                "Labels": each.labels,
                "State": each.state,
                "Created": int(each.created),
                "Ports": [
                    {"PublicPort": int(said["HostPort"] or 0)}
                    for bindings in each.list_published().values()
                    for said in bindings
                ],
            }
            for each in sorted(found, key=lambda each: each.created, reverse=True)
        ]

    def _create(self, asked: SimulatedRequest) -> Reply:
        config = asked.json
        reference = str(config.get("Image"))
        image = self._image_of(reference)
        if image is None:
            return _refuse(404, f"No such image: {reference}")
        name = asked.query.get("name") or f"question-{len(self.containers)}-{os.urandom(3).hex()}"
        if self._find(name):
            return _refuse(409, f'Conflict. The container name "/{name}" is already in use')
        if not config.get("Entrypoint"):
            config["Entrypoint"] = image["Config"]["Entrypoint"]
        env = dict(text.partition("=")[::2] for text in config.get("Env") or ())
        made = SimulatedContainer(
            box=self.box, name=name, config=config, image_id=image["Id"], env=env
        )

        async def tell() -> None:
            self._tell(made, "die", exitCode=str(made.exit_code))

        made.on_end = tell  # type: ignore[method-assign]
        self.containers[made.id] = made
        self._tell(made, "create")
        return Reply(status=201, body={"Id": made.id, "Warnings": []})

    async def _of_container(
        self, asked: SimulatedRequest, method: str, container: SimulatedContainer, verb: str
    ) -> Reply:
        match (method, verb):
            case ("GET", "json"):
                return Reply(body=container.inspect())
            case ("GET", "top"):
                if not container.is_running:
                    return _refuse(409, f"container {container.id} is not running")
                pids = [[str(each.pid)] for each in container.processes]
                return Reply(body={"Titles": ["PID"], "Processes": pids})
            case ("GET", "logs") | ("POST", "attach"):
                return Reply(stream=self._logs(container, asked), kind="application/octet-stream")
            case ("POST", "start"):
                return await self._start(container)
            case ("POST", "wait"):
                return Reply(stream=self._wait(container))
            case ("POST", "kill" | "stop"):
                if not container.is_running:
                    return _refuse(409, f"container {container.id} is not running")
                signal = asked.query.get("signal") or ("SIGTERM" if verb == "stop" else "SIGKILL")
                self._tell(container, "kill", signal="9" if "KILL" in signal else "15")
                asyncio.create_task(container.kill(signal))  # noqa: RUF006 - a second at most
                return Reply(status=204)
            case ("DELETE", ""):
                await container.end(137)
                self.containers.pop(container.id, None)
                self._tell(container, "destroy")
                return Reply(status=204)
        return _refuse(404, "page not found: the demo does not simulate this")

    async def _start(self, container: SimulatedContainer) -> Reply:
        words = container.words
        if words[:1] == ["/nothing"]:
            return _refuse(400, 'exec: "/nothing": stat /nothing: no such file or directory')
        if "inferdash.question" in container.labels:
            asyncio.create_task(self._say(container))  # noqa: RUF006 - at once over
            return Reply(status=204)
        try:
            await container.start()
        except OSError:
            return _refuse(
                500, "driver failed programming external connectivity: port is already allocated"
            )
        self._tell(container, "start")
        return Reply(status=204)

    async def _say(self, container: SimulatedContainer) -> None:
        """What an image is asked for: what the kernel says of a program, versions and flags."""
        container.state, container.started_at = "running", timestamp()
        text = " ".join(container.words)
        image = str(container.config.get("Image"))
        if "/proc/self/status" in text:
            said = _STATUS
        elif "metadata.version" in text:
            said = "0.5.12\n" if "sglang" in text else "0.20.2\n"
        elif "--help" in text and "llama" not in image:
            said = _help("sglang" if "sglang" in text else "vllm")
        elif container.labels["inferdash.question"] == "bench":
            await asyncio.sleep(3)
            said = _measure(container.words)
        else:
            said = ""
        await asyncio.sleep(0.05)
        for line in said.splitlines():
            await container.log(line)
        await container.end(0 if said else 1)

    async def _logs(
        self, container: SimulatedContainer, asked: SimulatedRequest
    ) -> AsyncIterator[bytes]:
        since = float(asked.query.get("since") or 0)
        is_stamped = asked.query.get("timestamps") in ("1", "true", "True")
        follows = asked.query.get("follow") in ("1", "true", "True") or "stream" in asked.query
        tail = asked.query.get("tail", "all")
        at = 0 if not tail.isdigit() else max(0, len(container.lines) - int(tail))
        while True:
            async with container.changed:
                while (
                    follows
                    and at == len(container.lines)
                    and container.state in ("created", "running")
                ):
                    await container.changed.wait()
                new, at = container.lines[at:], len(container.lines)
                is_over = not follows or container.state not in ("created", "running")
            pieces = []
            for when, stream, text in new:
                if when >= since - 1e-6:
                    said = f"{timestamp(when)} ".encode() + text if is_stamped else text
                    pieces.append(_FRAME.pack(2 if stream == "e" else 1, len(said)) + said)
            if pieces:
                yield b"".join(pieces)
            if is_over:
                return

    async def _wait(self, container: SimulatedContainer) -> AsyncIterator[bytes]:
        async with container.changed:
            while container.state in ("created", "running"):
                await container.changed.wait()
        yield json.dumps({"StatusCode": container.exit_code}).encode()

    # Events

    def _tell(self, container: SimulatedContainer, action: str, **more: str) -> None:
        event = {
            "Type": "container",
            "Action": action,
            "Actor": {"ID": container.id, "Attributes": {**container.labels, **more}},
            "timeNano": time.time_ns(),
        }
        self._past = [*self._past[-255:], event]
        for queue in self._listeners:
            queue.put_nowait(event)

    async def _events(self, asked: SimulatedRequest) -> AsyncIterator[bytes]:
        filters = json.loads(asked.query.get("filters") or "{}")
        since = float(asked.query.get("since") or time.time())
        queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        for event in self._past:
            if event["timeNano"] / 1e9 > since:
                queue.put_nowait(event)
        # A question about the past ends.
        is_past = "until" in asked.query
        if not is_past:
            self._listeners.add(queue)
        try:
            yield b"\n"
            while not (is_past and queue.empty()):
                event = await queue.get()
                labels = event["Actor"]["Attributes"]
                wanted, containers = filters.get("event"), filters.get("container")
                if wanted and event["Action"] not in wanted:
                    continue
                if containers and event["Actor"]["ID"] not in containers:
                    continue
                if all(_has_label(labels, label) for label in filters.get("label", ())):
                    yield json.dumps(event).encode() + b"\n"
        finally:
            self._listeners.discard(queue)

    # Images

    def _image(self, reference: str, size: float, days: float) -> dict[str, Any]:
        digest = hashlib.sha256(reference.encode()).hexdigest()
        entrypoint = next((words for name, words in ENTRYPOINTS.items() if name in reference), [])
        repository = reference.rpartition(":")[0] or reference
        arch = "arm64" if self.box.architecture == "aarch64" else "amd64"
        return {
            "Id": f"sha256:{digest}",
            "RepoTags": [reference],
            "RepoDigests": [f"{repository}@sha256:{digest[::-1]}"],
            "Size": int(size * GIB),
            "Created": timestamp(time.time() - days * 86400),
            "Architecture": arch,
            "Config": {"Entrypoint": entrypoint, "Cmd": [], "Env": [], "Labels": {}},
        }

    def _image_of(self, reference: str) -> dict[str, Any] | None:
        for name, image in self.images.items():
            if reference in (name, image["Id"], f"{name}:latest") or name == f"{reference}:latest":
                return image
        return None

    def _list_image(self, name: str) -> dict[str, Any]:
        image = self.images[name]
        created = int(time.time() - IMAGES.get(name, [0, 1])[1] * 86400)
        return {**image, "Created": created, "Labels": {}, "SharedSize": 0, "Containers": 0}

    def _find_published(self, reference: str) -> Reply:
        image = self._image_of(reference) or self._image(reference, 12, 1)
        digest = image["RepoDigests"][0].rpartition("@")[2]
        platforms = [{"os": "linux", "architecture": each} for each in ("amd64", "arm64")]
        return Reply(body={"Descriptor": {"digest": digest}, "Platforms": platforms})

    async def _of_images(self, asked: SimulatedRequest, method: str, rest: list[str]) -> Reply:
        match (method, *rest):
            case ("GET", "json"):
                return Reply(body=[self._list_image(name) for name in self.images])
            case ("POST", "create") if asked.query.get("fromSrc"):
                name = f"{asked.query.get('repo')}:{asked.query.get('tag') or 'latest'}"
                self.images[name] = self._image(name, 0, 0)
                return Reply(body=b'{"status":"imported"}')
            case ("POST", "create"):
                return Reply(
                    stream=self._pull(
                        f"{asked.query['fromImage']}:{asked.query.get('tag', 'latest')}"
                    )
                )
            case ("GET", *name, "json"):
                image = self._image_of("/".join(name))
                return (
                    Reply(body=image) if image else _refuse(404, f"No such image: {'/'.join(name)}")
                )
            case ("POST", *name, "tag"):
                image = self._image_of("/".join(name))
                if image:
                    self.images[f"{asked.query['repo']}:{asked.query.get('tag', 'latest')}"] = image
                return Reply(status=201)
            case ("DELETE", *name):
                found = self._image_of("/".join(name))
                self.images = {
                    key: image for key, image in self.images.items() if image is not found
                }
                return Reply(body=[])
        return _refuse(404, "page not found: the demo does not simulate this")

    async def _pull(self, reference: str) -> AsyncIterator[bytes]:
        """Any image can be had, at a pace at which one sees its layers come."""
        if not reference.partition(":")[2]:
            reference += ":latest"
        sizes = [31, 210, 1890, 4720, 860, 3380]  # MiB
        layers = {
            hashlib.sha256(f"{reference}{n}".encode()).hexdigest()[:12]: size << 20
            for n, size in enumerate(sizes)
        }

        def line(status: str, layer: str, **detail: int) -> bytes:
            return (
                json.dumps({"status": status, "id": layer, "progressDetail": detail}).encode()
                + b"\r\n"
            )

        for layer in layers:
            yield line("Pulling fs layer", layer)
        come = dict.fromkeys(layers, 0)
        while any(come[layer] < total for layer, total in layers.items()):
            await asyncio.sleep(0.25)
            for layer, total in layers.items():
                if come[layer] < total:
                    come[layer] = min(total, come[layer] + (170 << 20))
                    yield line("Downloading", layer, current=come[layer], total=total)
                    if come[layer] == total:
                        yield line("Download complete", layer)
        for layer in layers:
            yield line("Pull complete", layer)
        self.images[reference] = self._image(reference, sum(sizes) / 1024 * 2.1, 1)

    # Volumes

    def _of_volumes(self, asked: SimulatedRequest, method: str, rest: list[str]) -> Reply:
        if method == "POST":
            said = asked.json
            made = {"Name": said["Name"], "Labels": said.get("Labels") or {}, "Options": None}
            return Reply(status=201, body=self.volumes.setdefault(said["Name"], made))
        if method == "DELETE":
            self.volumes.pop(rest[-1], None)
            return Reply(status=204)
        return Reply(body={"Volumes": list(self.volumes.values()), "Warnings": []})


def _has_label(labels: dict[str, str], wanted: str) -> bool:
    name, equals, value = wanted.partition("=")
    return name in labels and (not equals or labels[name] == value)


def _refuse(status: int, message: str) -> Reply:
    return Reply(status=status, body={"message": message})


def _measure(words: list[str]) -> str:
    """What the benchmark program of an engine writes, of a server of a usual speed."""
    said = dict(itertools.pairwise(words))
    people, requests = int(said.get("--max-concurrency", 1)), int(said.get("--num-prompts", 1))
    tpot = 9.0 * (1 + 0.05 * people) * random.uniform(0.98, 1.02)  # noqa: S311 - ms, no secret
    took = requests / people * 128 * tpot / 1000
    times = {"ttft": 60.0 + 9 * people, "tpot": tpot, "itl": tpot, "e2el": 128 * tpot}
    found = {
        "model_id": said.get("--model", ""), "completed": requests, "failed": 0,
        "duration": took, "request_rate": "inf", "max_concurrency": people,
        "total_input_tokens": 512 * requests, "total_output_tokens": 128 * requests,
        "output_throughput": 128 * requests / took,
        "median_e2e_latency_ms": times["e2el"],
        **{f"median_{name}_ms": value for name, value in times.items()},
    }  # fmt: skip
    return json.dumps(found) + "\n"


def _help(engine: str) -> str:
    """An engine's --help, from the list of its flags that ships with inferdash."""
    known = flaglist.load_shipped(engine, "0.20.2" if engine == "vllm" else "0.5.12")
    flags = known.flags if known else ()
    rows = [_help_of(flag) for flag in flags]
    return "usage: serve [options]\n\noptions:\n" + "\n".join(rows) + "\n"


def _help_of(flag: Flag) -> str:
    value = flag.name.lstrip("-").replace("-", "_").upper()
    if flag.choices:
        value = "{" + ",".join(flag.choices) + "}"
    forms = {"none": "", "optional": f" [{value}]", "many": f" {value} [{value} ...]"}
    names = ", ".join(
        f"{name}{forms.get(flag.takes, f' {value}')}" for name in (*flag.names, *flag.off)
    )
    default = f" (default: {flag.default})" if flag.default else ""
    return f"  {names}\n                        {flag.help or 'See the documentation.'}{default}"


TICK = 0.5  # seconds


async def simulate(folder: Path, port: int, names: str, story: list[str]) -> None:
    """For ever. `story`: the command that fills the installation, started once."""
    boxes = make_boxes(folder, port=port, names=names)
    dockers = []
    for box in boxes:
        box.build()
        docker = SimulatedDocker(box)
        docker.listen()
        dockers.append(docker)
    telling = await asyncio.create_subprocess_exec(*story)
    last = time.monotonic()
    while True:
        await asyncio.sleep(TICK)
        now = time.monotonic()
        passed, last = now - last, now
        for docker in dockers:
            for card in docker.box.cards:
                card.effort = 0.0
            for container in list(docker.containers.values()):
                container.step(passed)
            docker.box.show(passed)
        if telling.returncode not in (None, 0):
            sys.exit(f"The demo could not be filled: exit code {telling.returncode}.")


if __name__ == "__main__":
    asyncio.run(simulate(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]))
