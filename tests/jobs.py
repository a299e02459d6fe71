"""Jobs, done as the watcher does them."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from servers.lifecycle.jobs.actions import KINDS
from servers.lifecycle.jobs.runner import JobRunner
from servers.models import Box
from servers.models.jobs import JobKind

type Tell = Callable[[Mapping[str, Any]], None]


def runner(
    box: Box, sample: Mapping[str, Any] | None = None, tell: Tell = lambda _event: None
) -> JobRunner:
    return JobRunner(box, KINDS, read_sample=lambda: sample, tell=tell)


def obey(
    box: Box,
    sample: Mapping[str, Any] | None = None,
    tell: Tell = lambda _event: None,
    skip: Collection[JobKind] = (),
) -> None:
    """Whatever is asked for, one after the other, until it has ended."""
    made = runner(box, sample, tell)
    while True:
        made.step(skip)
        if not made.is_busy:
            return
        made.wait()
