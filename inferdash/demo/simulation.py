"""The program that simulates: Docker Engine, engines and GPUs of the demo's boxes."""

import asyncio
import sys
import time
from pathlib import Path

from inferdash.demo.box import make_boxes
from inferdash.demo.docker import SimulatedDocker

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
