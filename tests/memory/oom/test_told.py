"""What the kernel tells of its kills: lines, counters, cgroups; and the words made of it."""

from pathlib import Path

import pytest

from servers.host.kernel.log import OomKill, OomLog
from servers.host.kernel.proc import Kernel
from servers.host.kernel.resources import CgroupMemory, read_memory
from servers.judge.logs import evidence
from servers.judge.logs.diagnosis import Ending, diagnose
from servers.judge.logs.evidence import Oom
from tests import proc
from tests.memory.hardware.machines import watched
from tests.memory.oom.kernel_lines import CONTAINER, LIMIT, MACHINE, OLD, records
from tests.nvml import profiles

GIB, KIB = 2**30, 1024


def kills(text: str) -> list[OomKill]:
    log = OomLog()
    return [found for line in text.splitlines() if (found := log.read(line, 7.0))]


def test_the_kernels_lines_say_who_where_how_large_and_what_else_was() -> None:
    [limit], [machine], [old] = kills(LIMIT), kills(MACHINE), kills(OLD)

    assert (limit.pid, limit.name, limit.container) == (24445, "python3", CONTAINER)
    assert (limit.held, limit.is_limit, limit.others) == ((65024 + 5260) * KIB, True, [])
    assert (machine.pid, machine.container, machine.is_limit) == (5256, CONTAINER, False)
    assert (machine.held, machine.others) == (20 * GIB, [("node", GIB)])
    assert (old.name, old.container, old.is_limit) == ("VLLM::Worker (T", None, None)
    assert kills(f"{LIMIT}{MACHINE}")[1] == machine, "nothing is left of the one before"
    assert kills("Killed by somebody\noom_reaper: reaped process 5256 (python3)") == []


def test_a_collector_tells_of_them_and_of_the_counter(tmp_path: Path) -> None:
    with watched(tmp_path, profiles.h200(1), log=records(MACHINE)) as seen:
        first = seen.until(lambda sample: sample.get("oom", {}).get("killed"))
        assert first["oom"]["moves"] == [], "what was counted before is nobody's news"
        proc.write(seen.root, "proc/vmstat", "pswpin 0\npswpout 0\noom_kill 22\n")
        seen.until(lambda sample: True)
        seen.until(lambda sample: True)
        proc.write(seen.root, "proc/vmstat", "pswpin 0\npswpout 0\noom_kill 24\n")
        later = seen.until(lambda sample: len(sample["oom"]["moves"]) > 0)

    assert [each["pid"] for each in first["oom"]["killed"]] == [5256]
    assert later["oom"]["moves"][-1]["count"] == 2


@pytest.mark.parametrize(
    ("cgroup", "folder", "files"),
    [
        (
            "9:cpu:/\n4:memory:/docker/x\n0::/docker/x\n",
            "sys/fs/cgroup/memory/docker/x",
            {"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
             "memory.usage_in_bytes": "5\n", "memory.limit_in_bytes": "64\n"},
        ),
        (
            "0::/system.slice/docker-x.scope\n",
            "sys/fs/cgroup/system.slice/docker-x.scope",
            {"memory.events": "low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\n",
             "memory.current": "5\n", "memory.max": "64\n"},
        ),
    ],
    ids=["v1", "v2"],
)  # fmt: skip
def test_a_cgroup_tells_while_it_lives(
    tmp_path: Path, cgroup: str, folder: str, files: dict[str, str]
) -> None:
    kernel = Kernel(root=tmp_path)
    proc.write(tmp_path, "proc/77/cgroup", cgroup)
    assert read_memory(kernel, 77) is None
    for name, text in (files | {"cgroup.procs": "77\n78\n"}).items():
        proc.write(tmp_path, f"{folder}/{name}", text)

    assert read_memory(kernel, 77) == CgroupMemory(
        kills=2, held=5, limit=64, pids=frozenset({77, 78})
    )
    for no_limit in ("max", str(2**63 - 4096)):
        name = next(each for each in files if each in ("memory.max", "memory.limit_in_bytes"))
        proc.write(tmp_path, f"{folder}/{name}", no_limit)
        found = read_memory(kernel, 77)
        assert found
        assert found.limit is None
    assert read_memory(kernel, 78) is None, "it is gone"


KILLED = Oom(
    source="kernel", at=7.0, name="python3", pid=5256, held=20 * GIB, is_limit=False,
    others=(("node", GIB),), said="Out of memory: Killed process 5256 (python3)",
)  # fmt: skip
LIKELY = Oom(source="counter", at=7.0)


@pytest.mark.parametrize(
    ("killed", "words"),
    [
        (KILLED, ["killed python3 (process 5256)", "the box had no", "had 20.0 GiB", "node 1.0"]),
        (Oom(source="cgroup", at=7.0, held=60 << 20, limit=64 << 20), ["had 60 MiB", "use 64 MiB"]),
        (LIKELY, ["It is likely that the kernel killed it"]),
    ],
)
def test_it_is_the_cause_whatever_docker_says(killed: Oom, words: list[str]) -> None:
    lines = [(1, "INFO Starting to load model"), (2, "(APIServer) Application startup complete.")]
    for was_ready in (False, True):
        ending = Ending(lines=lines, exit_code=137, oom=killed, was_ready=was_ready)
        found = diagnose(ending)

        assert (found.outcome, found.cause) == ("failed", evidence.CAUSE)
        assert [each for each in words if each not in found.summary] == []
    said = [each.text for each in found.evidence if each.line == 0]
    assert said == ([killed.said] if killed.said else [])
    assert Oom.from_json(killed.to_json()) == killed


def test_what_the_log_knows_of_its_own_end_counts_for_more() -> None:
    text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."

    assert diagnose(Ending(lines=[(1, text)], exit_code=1, oom=LIKELY)).cause == "cuda-oom"


def test_a_rise_of_the_counter_is_only_whose_end_it_fits() -> None:
    move = {"t": 100.0, "count": 1}
    theirs = {"t": 99.0, "container": "another"}

    assert evidence.may_explain(100.0, 101.0)
    assert evidence.may_explain(102.0, 101.0)
    assert not evidence.may_explain(100.0, 100.0 + evidence.NOTICES + 1)
    assert not evidence.may_explain(100.0, 50.0)
    assert evidence.is_anothers([theirs], "mine", move)
    assert not evidence.is_anothers([theirs], "mine", move | {"count": 2})
    assert not evidence.is_anothers([], "mine", move)
