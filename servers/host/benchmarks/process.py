"""Processes that send requests to an engine, the load generator first: begun, told what to do, ended."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from servers.host.benchmarks.generator import LoadLimitError, PointPlan, PointTimings, Report
from servers.host.benchmarks.orders import TIME_IS_UP, LoadLimits
from servers.host.benchmarks.requests import BenchmarkTarget
from servers.host.benchmarks.timings import RequestTiming

_CHECKOUT = Path(__file__).resolve().parents[3]
_ENDS_WITHIN = 5.0  # seconds


class GeneratorError(Exception):
    """The process ended before its point did; the text says so to a person."""


class RequestProcess:
    """Use as a context manager. stop() may be called from any thread."""

    def __init__(self, target: BenchmarkTarget, limits: LoadLimits, module: str) -> None:
        self._target, self._limits, self._module = target, limits, module

    def __enter__(self) -> Self:
        # The target has the engine's key: by a pipe, since anybody on the box can list commands.
        self._process = subprocess.Popen(
            [sys.executable, "-m", self._module],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_CHECKOUT,
            start_new_session=True,
        )  # fmt: skip
        target = {**dataclasses.asdict(self._target), "headers": dict(self._target.headers)}
        self._write({"target": target, "limits": dataclasses.asdict(self._limits)})
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.stop()
        try:
            self._process.wait(_ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # it had not read all that it was told
                if pipe is not None:
                    pipe.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        """End it, and with it every request that is on its way."""
        self._process.terminate()

    def _explain_end(self) -> Exception:
        with suppress(subprocess.TimeoutExpired):
            if self._process.wait(_ENDS_WITHIN) == TIME_IS_UP:
                return LoadLimitError("Its time is up.")
        return GeneratorError("The program that sends the requests has ended.")

    def _write(self, value: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(value) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise self._explain_end() from error

    def _read(self) -> Iterator[dict[str, Any]]:
        """What it says, line by line. Raises GeneratorError or LoadLimitError at its end."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            yield json.loads(line)
        raise self._explain_end()


class LoadGenerator(RequestProcess):
    def __init__(self, target: BenchmarkTarget, limits: LoadLimits) -> None:
        super().__init__(target, limits, "servers.host.benchmarks.generator")
        self.most_in_flight = 0  # in the open loop that is measured

    def measure(self, plan: PointPlan, report: Report) -> PointTimings:
        """Return when the point has ended. `report` hears of each request as it ends.

        Raises GeneratorError where the process ends before, as after stop(), and LoadLimitError
        where one of its limits is reached before.
        """
        self.most_in_flight = 0
        self._write(dataclasses.asdict(plan))
        found: list[RequestTiming] = []
        for said in self._read():
            if "limit" in said:
                raise LoadLimitError(said["limit"])
            if "in_flight" in said:
                self.most_in_flight = max(self.most_in_flight, said["in_flight"])
                continue
            if "lag" in said:
                return PointTimings(requests=tuple(found), lag=said["lag"])
            timing = _read_timing(said["request"])
            found.append(timing)
            report(timing)
        raise AssertionError("It reads until it raises.")


def _read_timing(said: dict[str, Any]) -> RequestTiming:
    return RequestTiming(**{**said, "stamps": tuple(said["stamps"])})
