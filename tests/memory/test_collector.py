"""The collector's parent with a real child, on a stand-in driver that fails in every way."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from servers.host.collector import child, parent
from servers.host.collector.parent import Collector
from servers.host.kernel.proc import KernelError
from tests import nvml, proc
from tests.nvml import StandIn, profiles
from tests.waiting import PATIENCE, wait_until

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture
def standin(tmp_path: Path) -> StandIn:
    standin = StandIn(tmp_path)
    standin.show(profiles.h200(2))
    return standin


@pytest.fixture
def collecting(standin: StandIn) -> Iterator[Callable[..., Collector]]:
    started: list[Collector] = []

    def start(**options: Any) -> Collector:
        usual = {"interval": 0.1, "patience": 0.6, "start_patience": 3600, "nvml_retry": 0.2}
        options = usual | options
        started.append(Collector(env=standin.env, **options))
        started[-1].start()
        return started[-1]

    yield start
    for each in started:
        each.stop()


def until(samples: Collector, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The first sample that is as wanted."""
    seen: list[dict[str, Any]] = []

    def found() -> dict[str, Any] | None:
        sample = samples.next_sample(timeout=1.0)
        if sample is None:
            return None
        seen[:] = [sample]
        return sample if wanted(sample) else None

    return wait_until(found, lambda: f"no such sample; the last one: {seen}", every=0)


def is_fresh(sample: dict[str, Any]) -> bool:
    return sample["stale_s"] is None


def is_stale(sample: dict[str, Any]) -> bool:
    return sample["stale_s"] is not None


def state(pid: int) -> str:
    """By the kernel's letter; Z for one that is gone, too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


def is_alive(pid: int) -> bool:
    return state(pid) != "Z"


def hang(standin: StandIn, seconds: float = 600) -> None:
    machine = profiles.h200(2)
    machine.cards[1].sleeps["nvmlDeviceGetPowerUsage"] = seconds
    standin.show(machine)


def test_samples_follow_what_the_cards_show(
    collecting: Callable[..., Collector], standin: StandIn
) -> None:
    samples = collecting()
    first = until(samples, is_fresh)
    machine = profiles.h200(2)
    machine.cards[1].numbers["temperature"] = 83
    standin.show(machine)

    later = until(samples, lambda sample: sample["gpus"][1]["temperature_c"] == 83)

    assert later["t"] > first["t"]
    assert later["boot_id"] == first["boot_id"]


class Day:
    """What collect takes for the clock, and samples that take so many seconds each."""

    def __init__(self, *costs: float) -> None:
        self.now = 100.0
        self.costs = list(costs)
        self.begun: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def sample(self) -> dict[str, Any]:
        if not self.costs:
            raise KernelError("the day is over")
        self.begun.append(self.now - 100)
        self.now += self.costs.pop(0)
        return {}


def test_one_sample_comes_a_second_and_none_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    day = Day(0.25, 0.5, 3.5, 0.25, 0.25)
    monkeypatch.setattr(child, "time", day)

    with pytest.raises(KernelError, match="over"):
        child._write_for_ever(cast(child.Sampler, day), 1.0)

    assert day.begun == [0.0, 1.0, 2.0, 5.5, 6.5]


def test_a_reader_that_is_late_gets_the_newest(
    collecting: Callable[..., Collector], standin: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = collecting()
    first = until(samples, is_fresh)
    child = samples.pid
    assert child is not None
    several = 3 * len(json.dumps(first))
    wait_until(lambda: unread(samples) > several, "several samples lie in the pipe")
    machine = profiles.h200(2)
    machine.cards[1].numbers["temperature"] = 83
    standin.show(machine)
    several += unread(samples)
    wait_until(lambda: unread(samples) > several, "several more of them do")
    os.kill(child, signal.SIGSTOP)  # which of them is the newest does not change any more
    wait_until(lambda: state(child) == "T", "it stands still")
    # Late by more than the patience, for which the child is not to blame.
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 3600)

    newest = samples.next_sample(timeout=0.0)

    assert newest is not None
    assert is_fresh(newest)
    assert newest["gpus"][1]["temperature_c"] == 83, "It is not the newest one."
    assert unread(samples) == 0
    assert samples.pid == child
    os.kill(child, signal.SIGCONT)


def unread(samples: Collector) -> int:
    """Bytes that the child has said and nobody has read."""
    assert samples._child is not None
    pipe = samples._child._process.stdout
    assert pipe is not None
    size = fcntl.ioctl(pipe.fileno(), termios.FIONREAD, bytes(4))
    return int.from_bytes(size, sys.byteorder)


def test_a_hung_call_is_killed_and_the_last_values_stay(
    collecting: Callable[..., Collector], standin: StandIn
) -> None:
    samples = collecting()
    good = until(samples, is_fresh)
    hung = samples.pid
    assert hung is not None
    hang(standin)

    stale = until(samples, is_stale)

    assert stale["gpus"] == good["gpus"]
    assert stale["collector_ok"] is False
    assert stale["error"].startswith("NVML has not answered for ")
    wait_until(lambda: not is_alive(hung), "the hung one is gone")
    standin.show(profiles.h200(2))
    assert until(samples, is_fresh)["t"] > good["t"]
    assert samples.pid != hung


def test_a_collector_that_cannot_be_killed_is_left_behind(
    collecting: Callable[..., Collector], standin: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Signal 0 does what SIGKILL does to a process that waits in the driver: nothing.
    monkeypatch.setattr(parent, "SIGKILL", 0)
    samples = collecting()
    until(samples, is_fresh)
    left = samples.pid
    assert left is not None
    os.kill(left, signal.SIGSTOP)

    until(samples, is_stale)
    fresh = until(samples, is_fresh)

    assert is_alive(left)
    assert samples.pid != left
    assert fresh["gpus"][0]["total"] is not None
    os.kill(left, signal.SIGKILL)


def test_after_three_unkillable_ones_it_asks_for_a_reboot(
    collecting: Callable[..., Collector], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parent, "SIGKILL", 0)
    monkeypatch.setattr(parent, "_BACK_OFF", (0.05,))
    samples = collecting()
    left: list[int] = []
    while len(left) < 3:
        until(samples, is_fresh)
        assert samples.pid is not None
        left.append(samples.pid)
        os.kill(left[-1], signal.SIGSTOP)
        until(samples, is_stale)

    hopeless = until(samples, lambda sample: "reboot" in (sample["error"] or ""))

    assert "3 collectors hang in the NVIDIA driver" in hopeless["error"]
    assert samples.pid is None
    assert all(is_alive(pid) for pid in left)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    # When the driver lets one go after all, collecting goes on.
    until(samples, is_fresh)


def test_a_slow_start_of_the_driver_is_not_a_hang(
    collecting: Callable[..., Collector], standin: StandIn
) -> None:
    machine = profiles.h200(1)
    machine.sleeps["nvmlInitWithFlags"] = 3
    standin.show(machine)
    samples = collecting()
    first = samples.pid

    waiting = until(samples, is_stale)
    assert "waits for the driver" in waiting["error"]
    assert waiting["gpus"] == []
    until(samples, is_fresh)
    assert samples.pid == first


def test_a_driver_that_hangs_from_the_start_is_told(
    collecting: Callable[..., Collector], standin: StandIn
) -> None:
    machine = profiles.h200(1)
    machine.sleeps["nvmlInitWithFlags"] = 600
    standin.show(machine)
    samples = collecting(start_patience=1.5)
    first = samples.pid

    stale = until(samples, lambda sample: "was killed" in (sample["error"] or ""))

    assert stale["meminfo"] == {}
    assert first is not None
    wait_until(lambda: not is_alive(first), "the first one is gone")


def test_a_collector_that_dies_is_replaced(
    collecting: Callable[..., Collector], monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = collecting()
    before = until(samples, is_fresh)
    first = samples.pid
    assert first is not None
    monkeypatch.setattr(parent, "_BACK_OFF", (3600.0,))  # as long as it takes to see it
    os.kill(first, signal.SIGKILL)

    stale = until(samples, lambda sample: "exit code -9" in (sample["error"] or ""))
    assert is_stale(stale)
    samples._start_at = 0.0
    after = until(samples, lambda sample: is_fresh(sample) and sample["t"] > before["t"])
    assert after["gpus"]
    assert samples.pid != first


def test_a_collector_that_cannot_read_says_why(tmp_path: Path, standin: StandIn) -> None:
    with Collector(env=standin.env, root=tmp_path / "nothing", patience=0.2) as samples:
        stale = until(samples, lambda sample: "exit code 1" in (sample["error"] or ""))

    assert "meminfo cannot be read" in stale["error"]


def test_a_driver_that_comes_back_is_found(
    collecting: Callable[..., Collector], standin: StandIn
) -> None:
    machine = profiles.h200(2)
    machine.errors["nvmlInitWithFlags"] = nvml.DRIVER_NOT_LOADED
    standin.show(machine)
    samples = collecting()
    without = until(samples, is_fresh)
    assert "not loaded" in without["error"]
    assert without["meminfo"]["MemTotal"] > 0

    standin.show(profiles.h200(2))
    back = until(samples, lambda sample: sample["error"] is None)
    assert len(back["gpus"]) == 2


def test_a_driver_that_comes_is_not_waited_for(
    collecting: Callable[..., Collector], standin: StandIn, tmp_path: Path
) -> None:
    machine = profiles.h200(2)
    machine.errors["nvmlInitWithFlags"] = nvml.DRIVER_NOT_LOADED
    standin.show(machine)
    root = proc.root(tmp_path / "root")
    samples = collecting(nvml_retry=3600, root=root)
    until(samples, lambda sample: sample["error"] is not None)

    # The module is there a moment before its devices are.
    proc.driver(root, "590.48.01", {})
    until(samples, lambda sample: sample["driver"] == "590.48.01")
    standin.show(profiles.h200(2))

    assert len(until(samples, lambda sample: sample["error"] is None)["gpus"]) == 2


def test_a_driver_that_goes_away_is_told(
    collecting: Callable[..., Collector], standin: StandIn
) -> None:
    samples = collecting()
    until(samples, lambda sample: len(sample["gpus"]) == 2)
    machine = profiles.h200(2)
    machine.errors = {
        "nvmlDeviceGetCount_v2": nvml.LIB_RM_VERSION_MISMATCH,
        "nvmlInitWithFlags": nvml.LIB_RM_VERSION_MISMATCH,
    }
    standin.show(machine)

    gone = until(samples, lambda sample: sample["error"] is not None)
    assert "reboot the box" in gone["error"]
    assert is_fresh(gone)


def test_a_lost_card_keeps_its_name_and_may_come_back(
    collecting: Callable[..., Collector], standin: StandIn
) -> None:
    samples = collecting()
    name = until(samples, is_fresh)["gpus"][1]["uuid"]
    machine = profiles.h200(2)
    machine.cards[1].lost = True
    standin.show(machine)

    lost = until(samples, lambda sample: sample["gpus"][1]["fault"] is not None)["gpus"]
    assert lost[1]["uuid"] == name
    assert lost[1]["total"] is None
    assert lost[0]["total"] is not None
    standin.show(profiles.h200(2))
    back = until(samples, lambda sample: sample["gpus"][1]["fault"] is None)["gpus"]
    assert back[1]["total"] is not None


def test_stop_ends_the_child_even_while_it_hangs(
    collecting: Callable[..., Collector], standin: StandIn
) -> None:
    samples = collecting(patience=600)
    until(samples, is_fresh)
    child = samples.pid
    assert child is not None
    hang(standin)
    wait_until(lambda: samples.next_sample(timeout=0.5) is None, "it hangs", every=0)

    samples.stop()

    assert not is_alive(child)
    assert samples.next_sample(timeout=0.0) is None


def test_stop_from_another_thread_ends_the_loop(collecting: Callable[..., Collector]) -> None:
    samples = collecting()
    seen: list[dict[str, Any]] = []
    first = threading.Event()

    def loop() -> None:
        for sample in samples:
            seen.append(sample)
            first.set()

    thread = threading.Thread(target=loop)
    thread.start()
    assert first.wait(PATIENCE)
    samples.stop()
    thread.join(PATIENCE)

    assert not thread.is_alive()
    assert samples.pid is None


@pytest.mark.parametrize("hangs", [False, True])
def test_the_child_dies_with_its_parent(standin: StandIn, hangs: bool) -> None:
    code = (
        "import time\n"
        "from servers.host.collector.parent import Collector\n"
        "samples = Collector(interval=0.1, patience=600)\n"
        "samples.start()\n"
        "while samples.next_sample(10) is None: pass\n"
        "print(samples.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env=standin.env,
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        if hangs:
            hang(standin)
        parent.kill()

    wait_until(lambda: not is_alive(child), "the child is gone")


def test_a_reader_that_closes_its_end_ends_the_program(standin: StandIn) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "servers.host.collector.child", "--interval", "0.05"],
        env=standin.env,
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdout.readline()
        program.stdout.close()
        complaint = program.stderr.read()

    assert program.returncode == 0
    assert complaint == b""


def test_the_child_leaves_django_out(standin: StandIn) -> None:
    code = (
        "import sys, servers.host.collector.child\n"
        "print([name for name in ('django', 'channels', 'celery', 'docker') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"


def test_a_box_of_another_kind_can_be_shown(tmp_path: Path, standin: StandIn) -> None:
    standin.show(profiles.gb10())
    root = proc.gb10_root(tmp_path / "root")
    with Collector(env=standin.env, root=root, interval=0.1) as samples:
        sample = until(samples, is_fresh)

    assert sample["gpus"][0]["kind"] == "unified"
    assert list(samples) == []
