from typing import Any

from servers.host.docker.containers import DockerContainers, Spec
from servers.models import LogChunk, Run
from servers.models.logs import StoredLine
from tests.base_images import BASE

AT = "2026-11-21T08:00:00.000000001Z"


def stamped(number: int, second: float = 0.0) -> bytes:
    whole, part = divmod(second, 1)
    return f"2026-11-21T08:00:{int(whole):02d}.{int(part * 1e9) + number:09d}Z o {number}".encode()


def stored(run: Run) -> list[StoredLine]:
    return LogChunk.objects.lines(run.pk, 0, 1_000_000)


# Storing and reading


def append(run: Run, count: int, after: int = 0, text: str = "line {}") -> int:
    batch = [f"{AT} o {text.format(after + n + 1)}".encode() for n in range(count)]
    return LogChunk.objects.append(run.pk, after, batch)


def container(docker: DockerContainers, program: str, **fields: Any) -> str:
    """A container that runs this Python program."""
    spec = Spec(
        image=BASE,
        name=f"inferdash-{docker.install[:8]}-log",
        labels={"inferdash.install": docker.install, "inferdash.run": "1"},
        entrypoint=("python3", "-u", "-c"),
        command=(program,),
        network="none",
        **fields,
    )
    return docker.run(spec).id
