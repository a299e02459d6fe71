"""The job of a check-up: point by point, round by round, what was measured written down."""

import dataclasses
import random
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from statistics import median
from typing import Any

from django.db.models import Q
from django.utils import timezone

from servers import events
from servers.host.benchmarks.generator import (
    LoadLimitError,
    PointPlan,
    PointTimings,
)
from servers.host.benchmarks.orders import LoadLimits
from servers.host.benchmarks.process import GeneratorError, LoadGenerator
from servers.host.benchmarks.timings import RequestTiming
from servers.judge.benchmarks.comparison import MeasuredPoint
from servers.judge.benchmarks.points import (
    PointConditions,
    PointFigures,
    list_point_taints,
    summarise,
)
from servers.judge.benchmarks.presets import (
    BenchmarkPreset,
    PresetPoint,
    is_saturated,
    load_presets,
    write_prompts,
)
from servers.lifecycle.benchmarks import in_flight
from servers.lifecycle.benchmarks.conditions import ConditionWatch
from servers.lifecycle.benchmarks.giving_way import has_gateway_requests, wait_for_calm
from servers.lifecycle.benchmarks.subject import BenchmarkSubject, describe, find_subject, refuse
from servers.lifecycle.jobs.runner import GivenUpError, JobError, JobWork
from servers.models import Benchmark, BenchmarkJob, BenchmarkPoint, Request, Run
from servers.models.benchmarks import BenchmarkOutcome
from servers.models.runs.run import PARTS

_LETTERS = 4.5  # a token, in English, before the server has counted
_SAMPLE_TOKENS = 400  # of the prompt by which it counts
_BASES = 3  # requests for one token
_GRACE = 30.0  # seconds for answers that are on their way when the time is up
_STOPPED = "It was stopped. The points that were whole are kept."


class LimitError(Exception):
    """The check-up has reached a limit of its preset; the text says which."""


def measure(work: JobWork[BenchmarkJob]) -> str:
    """What came of it, in a sentence. Raises JobError, GivenUpError."""
    job = work.job
    preset = load_presets().get(job.preset)
    runs = Run.objects.select_related("server__box", "version__profile", *PARTS)
    run = runs.filter(pk=job.run).first()
    benchmark = Benchmark.objects.filter(job=job).first()
    if preset is None or run is None or benchmark is None:
        raise JobError("What was to be measured is not there any more.")
    outcome, said = BenchmarkOutcome.FAILED, ""
    try:
        if said := refuse(run):
            raise JobError(said)
        subject = find_subject(run)
        if subject is None:
            raise JobError("Its engine has no address.")
        sample = work.runner.read_sample()
        found = Benchmark.objects.filter(pk=benchmark.pk)
        found.update(begun_at=timezone.now(), measured_on=describe(run, sample))
        measurement = _Measurement(work, benchmark, subject, preset)
        try:
            measurement.measure_all()
        except LimitError as error:
            raise LimitError(f"{error} {measurement.describe_pauses()}".strip()) from error
        outcome, said = BenchmarkOutcome.WHOLE, measurement.describe_pauses()
    except LimitError as error:
        outcome, said = BenchmarkOutcome.LIMIT, str(error)
    except GeneratorError as error:
        if work.is_given_up:
            outcome, said = BenchmarkOutcome.STOPPED, _STOPPED
            raise GivenUpError(said) from error
        said = str(error)
        raise JobError(said) from error
    except GivenUpError:
        outcome, said = BenchmarkOutcome.STOPPED, _STOPPED
        raise
    except JobError as error:
        said = str(error)
        raise
    finally:
        _end(benchmark, outcome, said)
    return said or "Measured."


def _end(benchmark: Benchmark, outcome: BenchmarkOutcome, said: str) -> None:
    points = list(benchmark.points.defer("requests"))
    for point in points:
        _note_gateway(benchmark, point)
    Benchmark.objects.filter(pk=benchmark.pk).update(
        outcome=outcome,
        said=said,
        ended_at=timezone.now(),
        is_clean=not any(point.taints for point in points) if points else None,
    )


def _note_gateway(benchmark: Benchmark, point: BenchmarkPoint) -> None:
    """Requests that came and went between two looks at the engine, as the gateway wrote them down."""
    code = "benchmarks.others"
    if code in point.taints or not point.rounds:
        return
    in_a_round = Q()
    for each in point.rounds:
        ends = each["at"], each["at"] + each["figures"]["seconds"]
        in_a_round |= Q(at__range=[datetime.fromtimestamp(end, UTC) for end in ends])
    if Request.objects.filter(in_a_round, server=benchmark.server_name).exists():
        point.taints = sorted([*point.taints, code])
        point.save(update_fields=["taints"])


class _Measurement:
    def __init__(
        self,
        work: JobWork[BenchmarkJob],
        benchmark: Benchmark,
        subject: BenchmarkSubject,
        preset: BenchmarkPreset,
    ) -> None:
        self.work, self.benchmark, self.subject, self.preset = work, benchmark, subject, preset
        # Another seed each time: the same prompts twice would be read from the cache.
        self.chance = random.Random()  # noqa: S311 - prompts, no secrets
        self.letters, self.base = _LETTERS, 0.0
        self.sent = 0
        self.began = time.monotonic()
        self.points = [point for point in preset.points if self._fits(point)]
        self.done = 0
        self.dropped, self.waited = 0, 0.0
        self.was_disturbed = False

    def _fits(self, point: PresetPoint) -> bool:
        longest = self.subject.longest
        return longest is None or 1.05 * point.prompt_tokens + point.output_tokens < longest

    def measure_all(self) -> None:
        limits = LoadLimits(
            seconds=self.preset.limit_seconds + _GRACE, requests=self.preset.limit_requests
        )
        run = self.subject.run.pk
        with in_flight.note_run(run), LoadGenerator(self.subject.target, limits) as generator:
            self.generator = generator
            self.work.follow(generator.stop)
            self._give_way()
            in_flight.note_most(run, 1)
            self._calibrate()
            # By name: rates of those that stop once they are saturated, and names that are over.
            rates: dict[str, list[float | None]] = {}
            over: set[str] = set()
            for place, point in enumerate(self.points):
                if point.name in over:
                    self.done += point.rounds
                    continue
                rounds = self._measure_point(place, point)
                rates.setdefault(point.name, []).append(_mean_rate(rounds))
                has_failed = all(each.requests == each.failed for each in rounds)
                if has_failed and (said := self._look_for_end()):
                    raise JobError(said)
                if has_failed or (point.saturates and is_saturated(rates[point.name])):
                    over.add(point.name)

    def _look_for_end(self) -> str:
        """Why it can be measured no more; "" where it still serves."""
        run = Run.objects.select_related("version", "plan").get(pk=self.subject.run.pk)
        return f"It stopped meanwhile. {said}" if (said := refuse(run)) else ""

    def _calibrate(self) -> None:
        """How many letters a token has here, and how long one token takes at the least."""
        point = PresetPoint(
            name="", text="", prompt_tokens=_SAMPLE_TOKENS, output_tokens=1, concurrency=1,
            rounds=1, requests=1, seconds=30, saturates=False,
        )  # fmt: skip
        [prompt] = write_prompts(point, 1, letters=_LETTERS, chance=self.chance)
        counted = self._send(point, (prompt,), warmups=1).requests
        if counted and (tokens := counted[0].prompt_tokens):
            self.letters = len(prompt) / tokens
        if counted and counted[0].error:
            raise JobError(f"It does not answer: {counted[0].error}")
        short = dataclasses.replace(point, text="Hi", requests=_BASES)
        prompts = write_prompts(short, _BASES, letters=self.letters, chance=self.chance)
        times = [each.ttft for each in self._send(short, prompts).requests if each.ttft is not None]
        self.base = median(times) if times else 0.0

    def _measure_point(self, place: int, point: PresetPoint) -> list[PointFigures]:
        run = self.subject.run.pk
        found: list[tuple[PointFigures, PointConditions]] = []
        rows: list[dict[str, Any]] = []
        requests: list[list[dict[str, Any]]] = []
        number = 0
        while number < point.rounds:
            self._give_way()
            self._check_limits()
            self._tell(point, number)
            in_flight.note_most(run, point.concurrency)
            watch = ConditionWatch(self.subject, point.concurrency, self.work.runner.read_sample)
            prompts = write_prompts(point, point.requests, letters=self.letters, chance=self.chance)
            at = time.time()
            # A shape is warmed up once: graphs and kernels are made by the batch's size.
            warmups = 0 if number else point.concurrency
            timings = self._send(point, prompts, warmups=warmups, watch=watch)
            in_flight.note_most(run, 0)
            conditions = watch.conclude(timings.lag)
            if self._drops(conditions, at):
                continue
            number += 1
            figures = summarise(timings.requests, concurrency=point.concurrency, base=self.base)
            found.append((figures, conditions))
            rows.append(
                {
                    "at": at,
                    "figures": dataclasses.asdict(figures),
                    "conditions": dataclasses.asdict(found[-1][1]),
                }
            )
            requests.append(_pack_requests(timings.requests))
            self.done += 1
            if figures.failed == figures.requests:
                break
        BenchmarkPoint.objects.create(
            benchmark=self.benchmark,
            place=place,
            name=point.name,
            concurrency=point.concurrency,
            prompt_tokens=point.prompt_tokens,
            output_tokens=point.output_tokens,
            rounds=rows,
            requests=requests,
            taints=list_point_taints(found),
        )
        events.publish_change("benchmarks")
        return [figures for figures, _conditions in found]

    def _give_way(self) -> None:
        """Wait while others use the server. Raises GivenUpError, LimitError."""
        if not self.work.job.gives_way:
            return

        def wait(seconds: float) -> None:
            self._check_limits()
            self.work.note(is_paused=True, left=None)
            self.work.wait(seconds)
            self.waited += seconds

        wait_for_calm(self.subject, wait, was_disturbed=self.was_disturbed)
        self.was_disturbed = False
        self.work.note(is_paused=False)

    def _drops(self, conditions: PointConditions, at: float) -> bool:
        """Whether others asked meanwhile: it is measured once more, when they do not."""
        if not self.work.job.gives_way:
            return False
        self.was_disturbed = bool(conditions.requests_of_others) or has_gateway_requests(
            self.subject, at
        )
        self.dropped += self.was_disturbed
        return self.was_disturbed

    def describe_pauses(self) -> str:
        """How it gave way, in a sentence; "" where it never had to."""
        if not self.dropped:
            return f"It waited {self.waited:.0f} s for people’s requests." if self.waited else ""
        rounds = "1 round" if self.dropped == 1 else f"{self.dropped} rounds"
        return (
            f"It waited {self.waited:.0f} s for people’s requests, and {rounds} with such requests "
            "did not count."
        )

    def _send(
        self,
        point: PresetPoint,
        prompts: tuple[str, ...],
        *,
        warmups: int = 0,
        watch: ConditionWatch | None = None,
    ) -> PointTimings:
        plan = PointPlan(
            concurrency=point.concurrency,
            requests=point.requests,
            seconds=min(point.seconds, self._seconds_left()),
            output_tokens=point.output_tokens,
            prompts=prompts,
            warmups=warmups,
        )

        def look() -> None:
            self.work.check()
            if watch is not None:
                watch.look()

        self.sent += warmups
        with self.work.report_progress(look):
            try:
                return self.generator.measure(plan, self._note_request)
            except LoadLimitError as error:
                self._check_time()
                most = self.preset.limit_requests
                raise LimitError(f"It reached its limit of {most} requests.") from error

    def _note_request(self, _timing: RequestTiming) -> None:
        self.sent += 1

    def _seconds_left(self) -> float:
        return self.preset.limit_seconds - (time.monotonic() - self.began)

    def _check_limits(self) -> None:
        """Raises GivenUpError, LimitError."""
        if self.work.is_given_up:
            raise GivenUpError(_STOPPED)
        self._check_time()
        if self.sent >= self.preset.limit_requests:
            raise LimitError(f"It reached its limit of {self.preset.limit_requests} requests.")

    def _check_time(self) -> None:
        """Raises LimitError."""
        if self._seconds_left() <= 0:
            raise LimitError(f"It reached its limit of {self.preset.limit_seconds:.0f} s.")

    def _tell(self, point: PresetPoint, number: int) -> None:
        shown = MeasuredPoint(
            name=point.name, concurrency=point.concurrency, prompt_tokens=point.prompt_tokens,
            output_tokens=point.output_tokens, rounds=(), taints=(),
        ).label  # fmt: skip
        rounds = [each for each in self.points for _round in range(each.rounds)]
        left = sum(each.seconds for each in rounds[self.done :])
        self.work.note(
            point=f"{shown}, round {number + 1} of {point.rounds}",
            done=self.done,
            total=len(rounds),
            left=min(left, max(0.0, self._seconds_left())),
            dropped=self.dropped,
        )


def _mean_rate(rounds: Sequence[PointFigures]) -> float | None:
    rates = [each.output_rate for each in rounds if each.output_rate is not None]
    return sum(rates) / len(rates) if rates else None


def _pack_requests(timings: Sequence[RequestTiming]) -> list[dict[str, Any]]:
    """Without the moment of each event: some hundred requests of some hundred tokens are megabytes."""
    begin = min((each.sent for each in timings), default=0.0)
    return [
        {
            "sent": round(each.sent - begin, 6),
            "ttft": each.ttft,
            "e2el": each.e2el,
            "events": len(each.stamps),
            "prompt_tokens": each.prompt_tokens,
            "output_tokens": each.output_tokens,
            "cached_tokens": each.cached_tokens,
            "error": each.error,
        }
        for each in timings
    ]
