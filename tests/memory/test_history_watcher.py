"""The real watcher and collector on stand-in cards: what they saw outlives them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests import migrated
from tests.nvml import StandIn, profiles
from tests.terminal import ROOT
from tests.waiting import PATIENCE, wait_until

LOOK = """
import django; django.setup()
from servers.judge.memory.history import unpack
from servers.models import Box, HistoryChunk
print(sum(len(box.gpus or []) for box in Box.objects.all()))
for chunk in HistoryChunk.objects.filter(step=1):
    for gpu, times in unpack(bytes(chunk.body)).items():
        for point in times.values():
            print(gpu, point["used"] // 2**20, sum(v for k, v in point.items() if k[0] == "="))
"""


def test_the_last_seconds_before_an_orderly_end_are_in_the_database(tmp_path: Path) -> None:
    machine = profiles.h200(2)
    machine.cards[0].run(os.getpid(), 60 * 2**30)
    standin = StandIn(tmp_path)
    standin.show(machine)
    env = standin.env | {
        "INFERDASH_DATA": str(tmp_path / "var"),
        "DJANGO_SETTINGS_MODULE": "inferdash.settings",
        "REDIS_URL": f"unix://{tmp_path}/none.sock",
        "DOCKER_HOST": f"unix://{tmp_path}/none.sock",
        "DATABASE_URL": "",
        "INFERDASH_BOX": "rtx8",
    }
    migrated.put_into(tmp_path / "var")

    def seen() -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", LOOK],
            cwd=ROOT,
            env=env,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        return done.stdout.splitlines()

    watch = [sys.executable, "manage.py", "watch"]
    watcher = subprocess.Popen(watch, cwd=ROOT, env=env)
    try:

        def both_are_seen() -> bool:
            assert watcher.poll() is None, "the watcher ended"
            return seen()[0] == "2"

        wait_until(both_are_seen, "both GPUs are seen", every=0.5)
        watcher.send_signal(signal.SIGTERM)
        assert watcher.wait(PATIENCE) == 0
    finally:
        watcher.kill()
        watcher.wait()

    points = [line.split() for line in seen()[1:]]
    assert {gpu for gpu, _used, _sum in points} == {card.uuid for card in machine.cards}
    assert "60" in {used for gpu, used, _sum in points if gpu == machine.cards[0].uuid}
    total = machine.cards[0].numbers["total"] // 1024
    assert all(abs(int(added) - total) < 8 for _gpu, _used, added in points)
