"""Kills for want of memory: the kernel's words, its counter, and what a run's page says of one."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from servers.host.kernel import Kernel
from servers.host.oom import Kill, OomCounter, OomLog, Task
from servers.judge.oom import oom_kill
from tests import factories, samples
from tests.test_failed_runs import failing, looked

CONTAINER = "5c46203e0864febd586b15142a99fc4953b472fcbdfe16639fdbf13b300ce5a4"
# Linux 6.18, of a container with a limit of 64 MiB; the second of a machine that was full.
LIMIT = f"""\
Tasks state (memory values in pages):
[  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents oom_score_adj name
[  26099]     0 26099      255      131        0      131         0    40960        0             0 docker-init
[  26175]     0 26175    41933    18493    16121     2372         0   208896        0             0 python3
oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset={CONTAINER},mems_allowed=0,oom_memcg=/docker/{CONTAINER},task_memcg=/docker/{CONTAINER},task=python3,pid=26175,uid=0
Memory cgroup out of memory: Killed process 26175 (python3) total-vm:167732kB, anon-rss:64484kB, file-rss:9488kB, shmem-rss:0kB, UID:0 pgtables:204kB oom_score_adj:0
"""
MACHINE = f"""\
[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name
[    812]   999   812   900000   524288      40960        0          -900 postgres: writer
[   5256]     0  5256  9000000  5242880   45096960        0             0 python3
oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=docker-{CONTAINER}.scope,mems_allowed=0,global_oom,task_memcg=/system.slice/docker-{CONTAINER}.scope,task=python3,pid=5256,uid=0
Out of memory: Killed process 5256 (python3) total-vm:36000000kB, anon-rss:20971520kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:44040kB oom_score_adj:0
"""


def heard(text: str, t: float = 1000.0) -> list[Kill]:
    log = OomLog()
    for line in text.splitlines():
        log.hear(line, t)
    return log.kills


def test_the_kernels_words_are_read() -> None:
    (limit,), (machine,) = heard(LIMIT), heard(MACHINE)

    assert limit == Kill(
        t=1000.0, pid=26175, name="python3", rss=(64484 + 9488) * 1024,
        cgroup=f"/docker/{CONTAINER}", is_limit=True,
        others=(Task(name="docker-init", rss=131 * 4096),),
    )  # fmt: skip
    assert (machine.is_limit, machine.rss) == (False, 20 * 2**30)
    assert machine.others == (Task(name="postgres: writer", rss=2 * 2**30),)


def test_lines_that_are_lost_or_of_others_do_no_harm() -> None:
    kept = LIMIT.splitlines()
    for number in range(len(kept)):
        heard("\n".join(kept[:number] + kept[number + 1 :]))
    (alone,) = heard(kept[-1])
    assert (alone.pid, alone.cgroup, alone.others) == (26175, "", ())
    # The words of another victim are not this one's.
    (other,) = heard(LIMIT.replace("pid=26175,uid", "pid=1,uid"))
    assert other.cgroup == ""


def test_the_counter_tells_when_it_rose() -> None:
    counter = OomCounter()
    for t, count in enumerate([None, 4, 4, 5, 5, 7]):
        counter.note(count, float(t))
    assert counter.rises == [3.0, 5.0]
    assert Kernel().oom_kills() is not None


def told(kills: list[dict[str, Any]] | None = None, rises: tuple[float, ...] = ()) -> Any:
    return {"oom": {"kills": kills or [], "rises": list(rises)}}


def killed(t: float, **values: Any) -> dict[str, Any]:
    said = {"t": t, "pid": 5256, "name": "python3", "rss": 20 * 2**30, "is_limit": False}
    others = [{"name": "postgres", "rss": 2**31}, {"name": "sh", "rss": 4096}]
    return said | {"cgroup": f"/docker/{CONTAINER}", "others": others} | values


def test_whose_kill_it_was() -> None:
    def judged(sample: Any, **values: Any) -> tuple[bool, str] | None:
        asked: dict[str, Any] = {
            "container": CONTAINER,
            "ended_at": 1001.0,
            "exit_code": 137,
        } | values
        found = oom_kill(sample, **asked)
        return (found.is_likely, found.says) if found else None

    sure = judged(told([killed(1000.0)]))
    assert sure == (
        False,
        "The kernel killed python3 (pid 5256) because main memory ran out; it had 20.0 GiB. "
        "Also large then: postgres 2.0 GiB.",
    )
    limit = judged(told([killed(1000.0, is_limit=True)]))
    assert limit is not None
    assert "limit of memory was reached" in limit[1]
    likely = judged(told(rises=(1001.2,)))
    assert likely is not None
    assert likely[0]
    assert likely[1].startswith("Likely the kernel killed it")
    for sample, values in (
        (told([killed(900.0)]), {}),
        (told([killed(1000.0, cgroup="/docker/other")]), {}),
        (told(rises=(1001.2,)), {"exit_code": 1}),
        (told(rises=(900.0,)), {}),
        ({}, {}),
        (None, {}),
    ):
        assert judged(sample, **values) is None, (sample, values)


@pytest.mark.django_db
@pytest.mark.usefixtures("own_redis")
def test_the_page_of_a_run_says_what_the_kernel_says_though_docker_says_nothing() -> None:
    server = factories.server(factories.box(), engine="vllm", image="vllm/vllm-openai:v0.20.2")
    ended = timezone.now() - timedelta(seconds=10)
    newest = samples.sample([samples.card(0, [])], [])
    newest |= told([killed(ended.timestamp() - 0.5)])
    factories.tell(server.box, newest)

    run = looked(
        failing(server, "INFO Starting to load model", exit_code=137, container_id=CONTAINER,
                ended_at=ended)
    )  # fmt: skip

    assert run.cause == "docker-oomkilled"
    assert "The kernel killed python3 (pid 5256) because main memory ran out" in run.why
    assert not run.oom_killed


@pytest.mark.django_db
@pytest.mark.usefixtures("own_redis")
def test_nothing_is_judged_before_the_kernels_words_may_have_come() -> None:
    server = factories.server(factories.box(), engine="vllm", image="vllm/vllm-openai:v0.20.2")

    run = looked(failing(server, exit_code=137, ended_at=timezone.now()))

    assert run.diagnosis == {}
