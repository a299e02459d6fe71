"""Giving way: a check-up waits between its rounds while other people's requests are in flight."""

from collections.abc import Callable
from datetime import UTC, datetime

from servers.host.runs import probes
from servers.launch.engines import ENGINES
from servers.lifecycle.benchmarks import in_flight
from servers.lifecycle.benchmarks.subject import BenchmarkSubject
from servers.lifecycle.jobs.runner import JobWork
from servers.models import BenchmarkJob, CanaryJob, Request

EVERY = 1.0  # seconds between two looks
CALM_LOOKS = 3  # in a row without a request, until it goes on: people pause between two questions


def count_requests(subject: BenchmarkSubject) -> int | None:
    """Those that the engine runs or has waiting; None where it does not tell."""
    engine = ENGINES[subject.run.version.launch.engine]
    names = {engine.running_metric, engine.waiting_metric} - {""}
    if engine.metrics_path and names:
        told = probes.metrics(subject.endpoint, names, engine.metrics_path)
        if engine.running_metric in told:
            return int(sum(told.values()))
    return probes.busy_slots(subject.endpoint, engine.slots_path) if engine.slots_path else None


def has_gateway_requests(subject: BenchmarkSubject, since: float) -> bool:
    """Whether the gateway has written down requests that came after this moment (unix seconds)."""
    server = subject.run.server.slug
    return Request.objects.filter(
        server=server, at__gte=datetime.fromtimestamp(since, UTC)
    ).exists()


def wait_for_calm(
    subject: BenchmarkSubject, wait: Callable[[float], None], *, was_disturbed: bool
) -> None:
    """Return at once where nobody is known to ask. `wait` may raise, and so end it.

    `was_disturbed`: others asked just now, so that whatever the engine tells of is theirs. Else
    it may still tell of the check-up's own last round.
    """
    settles = ENGINES[subject.run.version.launch.engine].settles
    calm = 0 if was_disturbed else CALM_LOOKS
    while True:
        ours = 0 if was_disturbed else in_flight.count(subject.run.pk, settles)
        if (count_requests(subject) or 0) > ours:
            calm = 0
        elif calm >= CALM_LOOKS:
            return
        else:
            calm += 1
        wait(EVERY)


class CheckupPauses:
    """Those of a check-up, as its page tells of them. `check` is called while it waits: it may
    raise, and so end it."""

    def __init__(
        self,
        work: JobWork[BenchmarkJob] | JobWork[CanaryJob],
        subject: BenchmarkSubject,
        check: Callable[[], None],
    ) -> None:
        self.work, self.subject, self.check = work, subject, check
        self.waited = 0.0  # seconds

    def give_way(self, *, was_disturbed: bool = False) -> None:
        """Wait while others use the server, where it gives way to them."""
        if not self.work.job.gives_way:
            return

        def wait(seconds: float) -> None:
            self.check()
            self.work.note(is_paused=True, left=None)
            self.work.wait(seconds)
            self.waited += seconds

        wait_for_calm(self.subject, wait, was_disturbed=was_disturbed)
        self.work.note(is_paused=False)

    def __str__(self) -> str:
        """In a sentence; "" where it never had to."""
        return f"It waited {self.waited:.0f} s for people’s requests." if self.waited else ""
