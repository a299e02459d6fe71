"""Outcomes of check-ups: how one ended is written down, whatever ended it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from servers.lifecycle.jobs.runner import GivenUpError, JobError
from servers.models.benchmarks import BenchmarkOutcome


@dataclass
class CheckupEnd:
    outcome: BenchmarkOutcome = BenchmarkOutcome.FAILED
    said: str = ""


@contextmanager
def note_end(
    keep: Callable[[BenchmarkOutcome, str], None], *, stopped: str
) -> Iterator[CheckupEnd]:
    """Call `keep` at the end. `stopped`: what is said of one that somebody has ended."""
    end = CheckupEnd()
    try:
        yield end
    except GivenUpError:
        end.outcome, end.said = BenchmarkOutcome.STOPPED, stopped
        raise
    except JobError as error:
        end.said = str(error)
        raise
    finally:
        keep(end.outcome, end.said)
