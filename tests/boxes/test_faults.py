"""Runs that start and stop while the wire, or a part at its ends, fails: nothing is lost or done twice."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from servers.host.links.files import WireFiles
from tests.base_images import ENGINE
from tests.boxes import cable
from tests.boxes.faults import Disturbance
from tests.boxes.lan import BoxLan, LanBox, begin_join, lan_box, lan_hub, make_environment
from tests.boxes.rig import LET_IN, PATIENT
from tests.waiting import wait_until

pytestmark = [pytest.mark.docker, pytest.mark.boxes]

# By hand: INFERDASH_BOX_ROUNDS=100, with another INFERDASH_BOX_SEED for others.
ROUNDS = int(os.environ.get("INFERDASH_BOX_ROUNDS", "3"))
SEED = int(os.environ.get("INFERDASH_BOX_SEED", "1"))
SERVERS = ("one", "two", "three")

MAKE = f"""
for name in {SERVERS!r}:
    factories.server(
        Box.objects.get(slug="milo"), name, engine="vllm", image={ENGINE!r}, checkpoint="/model",
        gpus="none", env={{"ENGINE_SECONDS": "4"}},
    )
"""
# As the web does it, with the message to the box's worker.
START = """
from servers import lifecycle, tasks
run = lifecycle.start(Server.objects.get(slug={name!r}), by=factories.person())
if run is not None:
    tasks.nudge(run)
print(run is not None)
"""
STOP = """
from servers import lifecycle, tasks
run = Server.objects.get(slug={name!r}).run
if run is not None and lifecycle.stop(run, by=factories.person()):
    tasks.nudge(run)
"""
STATES = (
    '[[s, r, w, str(p), l, c] for s, r, w, p, l, c in Run.objects.order_by("pk").values_list('
    '"server__slug", "pk", "state", "port", "log__is_complete", "container_id")]'
)
LINES = (
    "[f'{each.at} {each.text}' for each in LogChunk.objects.lines(%d, 0, 1_000_000) "
    "if each.stream != __import__('servers.models.logs', fromlist=['NOTE']).NOTE]"
)

# Once its watcher has compared it, which the join has done before.
CLOCK = (
    "[[each.state, each.has_wrong_clock, each.clock_word] for each in "
    "__import__('servers.contexts.links', fromlist=['x']).list_linked() "
    "if each.name == 'otis' and each.state != 'waiting']"
)

NOTED = "AuditEntry.objects.filter(action='allow').first().at.timestamp()"


@pytest.fixture(scope="module")
def lan(docker_host: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoxLan]:
    folder = tmp_path_factory.mktemp("f")
    with lan_hub(docker_host, folder) as hub, lan_box(hub, "milo", docker_host, folder):
        yield hub


@dataclass(kw_only=True)
class Wishes:
    """What people want of the servers of a box, and what must be so because of it."""

    lan: BoxLan
    box: LanBox
    chance: random.Random
    wanted: dict[str, str] = field(default_factory=lambda: dict.fromkeys(SERVERS, "never"))
    starts: int = 0

    def adopt(self) -> None:
        """What there is, with at least one that serves."""
        runs = self.read()
        self.starts = len(runs)
        for name, _run, state, *_rest in runs:
            self.wanted[name] = "ready" if state == "ready" else "ended"
        if "ready" not in self.wanted.values():
            self.change()
        wait_until(lambda: not self.find_faults(), lambda: f"right: {self.find_faults()}")

    def change(self) -> str:
        """Another one for one of the servers, which is asked for until somebody is told that it is."""
        name = self.chance.choice(SERVERS)
        if self.wanted[name] != "ready":
            if "True" not in self._ask(START.format(name=name)):
                return f"{name} still stops"
            self.wanted[name] = "ready"
            self.starts += 1
            return f"start {name}"
        self._ask(STOP.format(name=name))
        self.wanted[name] = "ended"
        return f"stop {name}"

    def kill_engine(self) -> str:
        """One that serves dies by itself."""
        for name, _run, state, port, _whole, _container in self.read():
            if state == "ready" and self.wanted[name] == "ready":
                self.wanted[name] = "ended"
                self.box.network.namespace.enter(lambda port=port: die(port))  # type: ignore[misc]
                return f"{name} dies"
        return "none dies"

    def _ask(self, code: str) -> str:
        def ask() -> str | None:
            try:
                return f"done {self.lan.shell.run(code)}"
            except subprocess.CalledProcessError:
                return None  # the database is away, and so is the page that was clicked

        return wait_until(ask, "the wish is kept", patience=PATIENT)

    def read(self) -> list[tuple[str, int, str, str, bool, str]]:
        """Of each run: server, number, state, port, whether its log is whole, container."""
        try:
            found = json.loads(self.lan.shell.run(f"print(json.dumps({STATES}))"))
        except subprocess.CalledProcessError:
            return []
        return [tuple(each) for each in found]

    def find_faults(self) -> list[str]:
        """What is not as it must be, by now."""
        runs = self.read()
        found = [] if len(runs) == self.starts else [f"{len(runs)} runs of {self.starts} starts"]
        running = {
            each.labels["inferdash.run"]
            for each in self.box.docker.list_ours()
            if each.state == "running"
        }
        newest = {name: (str(run), state) for name, run, state, *_rest in runs}
        for name, wish in self.wanted.items():
            run, state = newest.get(name, ("", "never"))
            is_ended = state in ("stopped", "failed")
            if not (state == wish or (wish == "ended" and is_ended)):
                found.append(f"{name} is {state}, not {wish}")
            if (run in running) != (wish == "ready"):
                found.append(
                    f"{name}: its container {'runs' if run in running else 'is not there'}"
                )
        old = running - {run for run, _state in newest.values()}
        return [*found, *(f"run {each} of earlier runs still" for each in sorted(old))]

    def check_containers(self) -> None:
        """None where a stop came before the start could be carried out."""
        counts = self.box.events.counts
        for _name, run, *_rest in self.read():
            for action in ("create", "start"):
                assert counts[action, str(run)] <= 1, f"{action} of run {run}: {counts}"

    def check_logs(self) -> None:
        for each in self.box.docker.list_ours():
            run = int(each.labels["inferdash.run"])
            wait_until(
                lambda run=run, each=each: self._is_whole(run, each.id),  # type: ignore[misc]
                lambda run=run, each=each: self._compare(run, each.id),  # type: ignore[misc]
            )

    def _is_whole(self, run: int, container: str) -> bool:
        return self.lan.ask(LINES % run) == self._docker_lines(container)

    def _compare(self, run: int, container: str) -> str:
        stored, docker = self.lan.ask(LINES % run), self._docker_lines(container)
        return f"the log of run {run} is stored:\n{stored}\nwhile Docker has:\n{docker}"

    def _docker_lines(self, container: str) -> list[str]:
        return [f"{at} {text.decode()}" for at, _stream, text in self.box.docker.logs(container)]


def die(port: str) -> None:
    with suppress(httpx.HTTPError):
        httpx.get(f"http://127.0.0.1:{port}/die")


@pytest.mark.takes(240)
def test_runs_outlive_faults_of_the_wire_and_its_ends(lan: BoxLan) -> None:
    chance = random.Random(SEED)  # noqa: S311
    box = lan.boxes[0]
    lan.shell.run(MAKE)
    wishes = Wishes(lan=lan, box=box, chance=chance)
    faults = Disturbance(lan=lan, box=box).all
    order: list[str] = []
    slowest = 0.0
    for number in range(ROUNDS):
        if not order:
            order = chance.sample(sorted(faults), len(faults))
        name = order.pop()
        done = [wishes.change()]

        def work(done: list[str] = done, name: str = name) -> None:
            if chance.random() < 0.3:
                done.append(wishes.kill_engine())
            if name != "the hub started again":  # there is no page to click on
                done.append(wishes.change())

        faults[name](work)
        began = time.monotonic()
        wait_until(
            lambda: not wishes.find_faults(),
            lambda name=name, done=done: (  # type: ignore[misc]
                f"all is right after {name} with {done}: {wishes.find_faults()}\n"
                f"{box.machine.up.said[-6000:]}"
            ),
            patience=PATIENT,
        )
        took = time.monotonic() - began
        slowest = max(slowest, took)
        wishes.check_containers()
        wishes.check_logs()
        print(f"round {number}: {name}, {', '.join(done)}: right after {took:.1f} s", flush=True)
    print(f"{ROUNDS} rounds, {wishes.starts} starts; slowest {slowest:.1f} s")
    said = lan.hub.up.said + box.machine.up.said
    assert "permission denied" not in said
    assert "Traceback" not in said


@pytest.mark.takes(60)
def test_clocks_are_compared(lan: BoxLan, tmp_path: Path) -> None:
    with cable.cabled_network() as network:
        environment = make_environment(tmp_path, "otis", lan.boxes[0].docker.host)
        ahead = begin_join(lan, network, environment, "otis", "faketime", "-f", "+6m")
        ahead.waits_for("This machine's clock is 6 minutes ahead of the hub's. Set it right")
        assert ahead.ends() != 0

        slow = begin_join(lan, network, environment, "otis", "faketime", "-f", "-100s")
        slow.waits_for("these words must be the same")
        lan.shell.run(LET_IN)
        slow.waits_for("Watching otis")
        try:
            found = wait_until(lambda: lan.ask(CLOCK), "it has signed its life")
            # A box's own note, in the order of all: by the hub's time, and not by its own.
            allow = [*network.namespace.prefix, "faketime", "-f", "-100s", sys.executable]
            before = time.time()
            given = [f"{name}={value}" for name, value in environment.items()]
            cable.run("env", *given, *allow, "manage.py", "allow", "host_network")
            noted = lan.ask(NOTED)
        finally:
            slow.press_ctrl_c()
            slow.ends()
        assert found == [["joined", True, "2 min slow"]]
        assert isinstance(noted, float)
        assert before - 1 < noted < time.time() + 1


@pytest.mark.takes(120)
def test_the_disk_of_the_hubs_database_is_full(lan: BoxLan) -> None:
    with small_database_disk(lan) as disk:
        wishes = Wishes(lan=lan, box=lan.boxes[0], chance=random.Random(SEED))  # noqa: S311
        wishes.adopt()
        programs = list_pids(lan)
        full = disk / "full"
        full.write_bytes(b"")
        with suppress(OSError), full.open("wb", buffering=0) as file:
            while file.write(bytes(1 << 20)):
                pass
        wait_until(lambda: not can_write(lan), "the database cannot write", patience=PATIENT)
        done = wishes.kill_engine()
        wait_until(
            lambda: re.search(r"disk .*full|No space left", lan.hub.up.said),
            lambda: f"it says that the disk is full: {lan.hub.up.said[-4000:]}",
        )
        assert httpx.get(f"{lan.url}/login/").status_code in (200, 503)
        full.unlink()
        wait_until(
            lambda: not wishes.find_faults(),
            lambda: f"all is right after {done}: {wishes.find_faults()}",
            patience=PATIENT,
        )
        wishes.check_containers()
        wishes.check_logs()
        # Others may have come: one that was just being forked from these.
        assert not programs - list_pids(lan), "each runs on"
        assert "Traceback" not in lan.hub.up.said + lan.boxes[0].machine.up.said


WRITE = """
from django.db import connection, transaction
with transaction.atomic():
    AuditEntry.objects.bulk_create(
        AuditEntry(action="test", subject="x", detail={"of": "x" * 6000}) for _each in range(2000)
    )
    transaction.set_rollback(True)
"""


def can_write(lan: BoxLan) -> bool:
    try:
        lan.shell.run(WRITE)
    except subprocess.CalledProcessError:
        return False
    return True


def list_pids(lan: BoxLan) -> set[int]:
    """Of the programs of both that are to go on whatever the database does."""
    found = [
        each.pid
        for word in ("inferdash.up.web", "celery", "watch")
        for each in lan.hub.list_programs(word)
    ]
    box = lan.boxes[0].machine
    found += [each.pid for word in ("celery", "watch", "relay") for each in box.list_programs(word)]
    return set(found)


@contextmanager
def small_database_disk(lan: BoxLan) -> Iterator[Path]:
    """The hub's database on a disk of its own, which is soon full."""
    place = WireFiles(lan.hub.data).postgres.resolve()
    lan.hub.end()
    kept = place.with_name(f"{place.name}.kept")
    place.rename(kept)
    place.mkdir()
    cable.run("mount", "-t", "tmpfs", "-o", "size=256m", "tmpfs", str(place))
    try:
        cable.run("cp", "-a", f"{kept}/.", str(place))
        cable.run("chown", "--reference", str(kept), str(place))
        cable.run("chmod", "--reference", str(kept), str(place))
        lan.hub.start()
        lan.hub.up.waits_for("ready at")
        yield place
    finally:
        lan.hub.end()
        shutil.rmtree(kept)
        cable.run("cp", "-a", str(place), str(kept))
        cable.run("umount", str(place))
        place.rmdir()
        kept.rename(place)
        lan.hub.start()
        lan.hub.up.waits_for("ready at")
