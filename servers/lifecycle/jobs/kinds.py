"""The kinds of jobs: what does each, how many at once, what is said of one that was cut off."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from servers.events import Topic
from servers.lifecycle.benchmarks import measuring
from servers.lifecycle.images import building, pulls, work
from servers.lifecycle.jobs import actions
from servers.lifecycle.jobs.runner import JobRules, JobWork
from servers.lifecycle.weights import fetch
from servers.models import BenchmarkJob, Download, ImageJob, Job
from servers.models.jobs.job import JobKind, JobState

_CUT = "inferdash was ended in the middle of it."
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
    JobKind.KILL: _in_turn(do=actions.end_orphan),
    JobKind.UNLINK: _in_turn(do=actions.end_orphan),
    JobKind.ADOPT: _in_turn(do=actions.end_orphan),
    JobKind.REMOVE: _in_turn(do=actions.end_orphan),
    JobKind.RECLAIM: _in_turn(do=actions.reclaim_memory),
    JobKind.WATCH: _in_turn(do=actions.start_monitoring),
    JobKind.PROFILE: _in_turn(do=actions.import_profile),
    JobKind.TAKE_OVER: _action(do=actions.take_over, lane="aside"),
    JobKind.DELETE: _action(
        do=actions.delete, lane="aside", changes=("models",), wakes=(Topic.MODELS,)
    ),
    JobKind.PULL: _of_image(pulls.pull, pulls.what_stays, wakes=(Topic.RUNS,)),
    JobKind.BUILD: _of_image(building.build, lambda: building.STAYS),
    JobKind.MOVE: _of_image(work.move_tag, lambda: "Look which image the tag means now."),
    JobKind.PRUNE: _of_image(work.prune, lambda: "The list shows what is still there."),
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
    JobKind.BENCHMARK: JobRules(
        model=BenchmarkJob,
        do=measuring.measure,
        lane="benchmarks",
        at_once=1,
        good_for=timedelta(minutes=5),
        cut=lambda: f"{_CUT} The points that were whole are kept.",
    ),
}
