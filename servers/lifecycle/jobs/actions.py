"""Kinds of jobs: how each is asked for, what does it, how many go on at once, what is said of a cut.

Most are actions on a box: on what is left behind there, others' engines, models on its disks.
Before it does anything the watcher looks again, and does only what it finds itself: whoever can
write rows still cannot have a process ended that no engine has left behind.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from hashlib import sha256
from typing import Any

from django.conf import settings
from django.utils import timezone

from servers.events import Topic
from servers.host.kernel import processes, resources
from servers.host.kernel.processes import EndingError
from servers.host.kernel.resources import SharedSegment, ShmError
from servers.host.weights.deletion import DiscardError
from servers.judge.external.engines import DiscoveredEngine
from servers.judge.memory.orphans import Orphan
from servers.launch.numbers import GIB, gib
from servers.lifecycle import memory
from servers.lifecycle.benchmarks import engine_bench, measuring
from servers.lifecycle.canary import asking
from servers.lifecycle.external import monitoring, takeover
from servers.lifecycle.images import arrivals
from servers.lifecycle.images import work as images_work
from servers.lifecycle.jobs import commands
from servers.lifecycle.jobs.runner import JobError, JobRules, JobWork
from servers.lifecycle.runs import creation, out_of_band
from servers.lifecycle.weights import deletion, fetch
from servers.models import (
    BenchmarkJob,
    Box,
    CanaryJob,
    Download,
    ImageJob,
    Job,
    ModelInventory,
    Run,
    StoredCheckpoint,
    User,
)
from servers.models.jobs import JobKind, JobState

GONE = "It is not left behind any more: it has ended, or somebody was faster. Nothing was done."

type ActionWork = JobWork[Job]


def ask(box: Box, kind: JobKind, *, by: User, left: Orphan) -> bool:
    """Note a wish about what was left behind; False where somebody wants the same already."""
    return _ask(box, kind, by, target=left.key, what=left.what, params={"left": left.to_json()})


def ask_to_reclaim(box: Box, level: int, *, by: User) -> bool:
    return _ask(box, JobKind.RECLAIM, by, what=f"memory of {box}", params={"level": level})


def ask_to_watch(box: Box, found: DiscoveredEngine, *, by: User) -> bool:
    params = {"container": found.container}
    return _ask(box, JobKind.WATCH, by, target=found.key, what=found.name, params=params)


def ask_for_profile(box: Box, found: DiscoveredEngine, *, by: User) -> bool:
    params = {"container": found.container}
    return _ask(box, JobKind.PROFILE, by, target=found.key, what=found.name, params=params)


def ask_to_take_over(box: Box, found: DiscoveredEngine, *, by: User) -> bool:
    params = {"container": found.container, "started_at": found.started_at}
    return _ask(box, JobKind.TAKE_OVER, by, target=found.key, what=found.name, params=params)


def ask_to_delete(stored: StoredCheckpoint, *, by: User) -> bool:
    key = sha256(stored.path.encode()).hexdigest()[:16]
    params = {"path": stored.path}
    return _ask(stored.box, JobKind.DELETE, by, target=key, what=stored.name, params=params)


def _ask(
    box: Box, kind: JobKind, by: User, *, what: str, params: dict[str, Any], target: str = ""
) -> bool:
    made = commands.ask(Job, box, kind, by=by, what=what, target=target, params=params)
    return made is not None


def take_over(work: ActionWork) -> str:
    """An engine takes its time to end, and to give memory back."""
    return takeover.take_over(work.box, work.job, tell=lambda said: work.note(said=said))


def delete(work: ActionWork) -> str:
    """Some file systems take minutes to forget what is large."""
    try:
        return deletion.delete(work.box, work.job)
    except DiscardError as error:
        raise JobError(str(error)) from error
    finally:
        wanted = {"wanted_at": timezone.now()}
        ModelInventory.objects.update_or_create(box=work.box, defaults=wanted)


def import_profile(work: ActionWork) -> str:
    job = work.job
    found = monitoring.make_profile(work.box, str(job.params.get("container")), by=job.asked_by)
    work.note(profile=found.slug)
    return f"{found} is the profile of {job.what}. Nothing of it was touched."


def start_monitoring(work: ActionWork) -> str:
    job = work.job
    run = monitoring.watch(work.box, str(job.params.get("container")), by=job.asked_by)
    work.note(server=run.server.slug)
    return f"{job.what} is monitored as {run.server}. Nothing of it was touched."


def reclaim_memory(work: ActionWork) -> str:
    level = int(work.job.params.get("level") or 0)
    said = memory.reclaim(work.box, work.runner.read_sample(), level)
    work.runner.tell({"type": "reclaim", "level": level})
    return said


def end_orphan(work: ActionWork) -> str:
    """Whatever it is that was left behind."""
    job = work.job
    found = {
        each.key: each for each in memory.look_for_orphans(work.box, work.runner.read_sample())
    }
    left = found.get(job.target)
    if left is None:
        raise JobError(GONE)
    if job.kind not in left.actions:
        raise JobError(f"{left.why} Nothing was done.", left.command)
    try:
        return _VERBS[JobKind(job.kind)](work, left)
    except (EndingError, ShmError) as error:
        by_hand = f"sudo kill {left.pid}" if job.kind == JobKind.KILL and left.pid else ""
        raise JobError(str(error), by_hand) from error


def _kill(work: ActionWork, left: Orphan) -> str:
    ended = processes.end_process(
        left.pid, start=left.start, container=left.container or None, root=settings.KERNEL_ROOT
    )
    if not ended.by:
        return f"{_capital(left.what)} had ended by itself."
    size = left.size or 0
    held = f" It held {gib(size)} of {left.size_of}." if size > GIB / 10 else ""
    how = "after SIGTERM" if ended.by == "SIGTERM" else "by SIGKILL, as it did not obey SIGTERM"
    return f"{_capital(left.what)} has ended {how}, within {ended.seconds:.1f} s.{held}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _unlink(work: ActionWork, left: Orphan) -> str:
    wanted = [
        SharedSegment(path=path, bytes=0, mapped=False, inode=inode) for path, inode in left.files
    ]
    count, size = resources.delete(wanted, settings.HOST_ROOT)
    if not count:
        raise JobError(GONE)
    files = "1 file" if count == 1 else f"{count} files"
    return f"Deleted {files}: {gib(size)} of shared memory are free again."


def _adopt(work: ActionWork, left: Orphan) -> str:
    run = out_of_band.adopt(work.box, left.container, by=work.job.asked_by)
    return (
        f"The container is the run of {run.server} again; inferdash asks its engine whether "
        "it is ready."
    )


def _remove(work: ActionWork, left: Orphan) -> str:
    creation.docker().remove(left.container)
    Run.objects.filter(container_id=left.container).update(
        container_id="", container_was=left.container
    )
    return f"{_capital(left.what)} is removed."


_VERBS: dict[JobKind, Callable[[ActionWork, Orphan], str]] = {
    JobKind.KILL: _kill,
    JobKind.UNLINK: _unlink,
    JobKind.ADOPT: _adopt,
    JobKind.REMOVE: _remove,
}


_CUT = "inferdash was ended in the middle of it."


def _cut_benchmark() -> str:
    engine_bench.drop_leftovers()
    return f"{_CUT} The points that were whole are kept."


# Process ids are used again: what nobody has done by then is not done any more.
GOOD_FOR = timedelta(seconds=60)

_action = partial(
    JobRules,
    model=Job,
    good_for=GOOD_FOR,
    bad_end=JobState.REFUSED,
    cut=lambda: f"{_CUT} Look whether it is done.",
    broken="inferdash itself failed in the middle of it; its log says how. Look whether it is done.",
)
# Short, and done in the order in which they were asked for.
_in_turn = partial(_action, lane="actions", at_once=1)


def _of_image(
    do: Callable[[JobWork[Any]], str], what: Callable[[], str], wakes: tuple[Topic, ...] = ()
) -> JobRules:
    """`what` is said of one that was cut off, or cancelled while it was done."""
    return JobRules(
        model=ImageJob,
        do=do,
        lane="images",
        at_once=3,  # Docker shares its bandwidth among all: more make each of them slower
        cut=lambda: f"{_CUT} {what()}",
        stays=lambda work: what(),
        changes=("images",),
        wakes=wakes,
    )


KINDS: Mapping[JobKind, JobRules] = {
    JobKind.KILL: _in_turn(do=end_orphan),
    JobKind.UNLINK: _in_turn(do=end_orphan),
    JobKind.ADOPT: _in_turn(do=end_orphan),
    JobKind.REMOVE: _in_turn(do=end_orphan),
    JobKind.RECLAIM: _in_turn(do=reclaim_memory),
    JobKind.WATCH: _in_turn(do=start_monitoring),
    JobKind.PROFILE: _in_turn(do=import_profile),
    JobKind.TAKE_OVER: _action(do=take_over, lane="aside"),
    JobKind.DELETE: _action(do=delete, lane="aside", changes=("models",), wakes=(Topic.MODELS,)),
    JobKind.PULL: _of_image(arrivals.pull, arrivals.what_stays, wakes=(Topic.RUNS,)),
    JobKind.BUILD: _of_image(arrivals.build, lambda: arrivals.STAYS),
    JobKind.MOVE: _of_image(images_work.move_tag, lambda: "Look which image the tag means now."),
    JobKind.PRUNE: _of_image(images_work.prune, lambda: "The list shows what is still there."),
    JobKind.BENCHMARK: JobRules(
        model=BenchmarkJob,
        do=measuring.measure,
        lane="benchmarks",  # as many as were let in: one, unless an editor insisted
        good_for=timedelta(minutes=5),
        cut=_cut_benchmark,
    ),
    JobKind.CANARY: JobRules(
        model=CanaryJob,
        do=asking.check_answers,
        lane="benchmarks",
        at_once=1,
        good_for=timedelta(minutes=5),
        cut=lambda: f"{_CUT} Check its answers again.",
    ),
    JobKind.DOWNLOAD: JobRules(
        model=Download,
        do=fetch.fetch,
        lane="downloads",
        at_once=2,  # more share the line, and the disk
        state=JobState.CHECKING,
        stays=fetch.describe_rest,
        changes=("models",),
        wakes=(Topic.CHECKPOINTS, Topic.MODELS),
    ),
}
