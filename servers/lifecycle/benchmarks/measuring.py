"""The job of a check-up: point by point, round by round, what was measured written down."""

import dataclasses
import random
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from statistics import median

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
from servers.judge.benchmarks import engine_bench
from servers.judge.benchmarks.capacity import CapacityLimits, choose_next, list_steps
from servers.judge.benchmarks.comparison import MeasuredPoint
from servers.judge.benchmarks.points import summarise
from servers.judge.benchmarks.presets import (
    BenchmarkPreset,
    PresetPoint,
    is_saturated,
    write_prompts,
)
from servers.judge.benchmarks.replay import ReplayWriter, cut_replay
from servers.lifecycle.benchmarks import in_flight
from servers.lifecycle.benchmarks.conditions import CacheHits, ConditionWatch
from servers.lifecycle.benchmarks.engine_bench import EngineMeasurement
from servers.lifecycle.benchmarks.giving_way import CheckupPauses, has_gateway_requests
from servers.lifecycle.benchmarks.outcomes import note_end
from servers.lifecycle.benchmarks.plans import find_preset
from servers.lifecycle.benchmarks.results import read_points
from servers.lifecycle.benchmarks.rounds import TakenRound, keep_point
from servers.lifecycle.benchmarks.subject import (
    BenchmarkSubject,
    describe,
    explain_end,
    find_run,
    require_subject,
)
from servers.lifecycle.jobs.runner import GivenUpError, JobError, JobWork
from servers.models import Benchmark, BenchmarkJob, BenchmarkPoint, Request
from servers.models.benchmarks import BenchmarkOutcome

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
    preset, run = find_preset(job), find_run(job.run)
    benchmark = Benchmark.objects.filter(job=job).first()
    if preset is None or run is None or benchmark is None:
        raise JobError("What was to be measured is not there any more.")

    def keep(outcome: BenchmarkOutcome, said: str) -> None:
        _end(benchmark, outcome, said)

    with note_end(keep, stopped=_STOPPED) as end:
        subject = require_subject(run)
        sample = work.runner.read_sample()
        found = Benchmark.objects.filter(pk=benchmark.pk)
        found.update(begun_at=timezone.now(), measured_on=describe(run, sample))
        measurement: _Measurement | EngineMeasurement
        if preset.key == engine_bench.KEY:
            benchmark.refresh_from_db()
            measurement = EngineMeasurement(work, benchmark, subject)
        else:
            measurement = _Measurement(work, benchmark, subject, preset)
        try:
            measurement.measure_all()
            end.outcome, end.said = BenchmarkOutcome.WHOLE, measurement.describe_pauses()
        except LimitError as error:
            end.outcome = BenchmarkOutcome.LIMIT
            end.said = f"{error} {measurement.describe_pauses()}".strip()
        except GeneratorError as error:
            if work.is_given_up:
                raise GivenUpError(_STOPPED) from error
            raise JobError(str(error)) from error
    return end.said or "Measured."


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
        longest = subject.longest
        self.points = [
            cut_replay(point, longest)
            for point in preset.points
            if longest is None or point.longest < longest
        ]
        self.place = self.done = 0
        self.planned, self.spent = 0.0, 0.0  # seconds, of the rounds that are over
        self.dropped = 0
        self.pauses = CheckupPauses(work, subject, self._check_limits)
        self.was_disturbed = False

    def measure_all(self) -> None:
        limits = LoadLimits(
            seconds=self.preset.limit_seconds + _GRACE, requests=self.preset.limit_requests
        )
        run = self.subject.run.pk
        with in_flight.note_run(run), LoadGenerator(self.subject.target, limits) as generator:
            self.generator = generator
            self.work.follow(generator.stop)
            if not self.points:
                raise JobError(f"It takes {self.subject.longest} tokens, and every point has more.")
            self._give_way()
            in_flight.note_most(run, 1)
            self._calibrate()
            self.writer = ReplayWriter(letters=self.letters, chance=self.chance)
            # By name: rates of those that stop once they are saturated, and names that are over.
            rates: dict[str, list[float | None]] = {}
            over: set[str] = set()
            for point in self.points:
                if point.name in over:
                    self.done += point.rounds
                    continue
                rounds = self._measure_point(point)
                rates.setdefault(point.name, []).append(_mean_rate(rounds))
                has_failed = all(each.has_failed for each in rounds)
                if has_failed and (said := explain_end(self.subject)):
                    raise JobError(said)
                if has_failed or (point.saturates and is_saturated(rates[point.name])):
                    over.add(point.name)
            self._search_edge()
            if not self.place:
                raise JobError(f"Nothing was measured. {self.describe_pauses()}".strip())

    def _search_edge(self) -> None:
        """Measure how many people at once keep the usual limits, where sizes lie far apart."""
        searched = next((point for point in self.points if point.searches), None)
        while searched is not None:
            steps = list_steps(read_points(self.benchmark))
            if (size := choose_next(steps, CapacityLimits())) is None:
                return
            self.points.append(dataclasses.replace(searched, concurrency=size))
            self._measure_point(self.points[-1])

    def _calibrate(self) -> None:
        """How many letters a token has here, and how long one token takes at the least."""
        point = PresetPoint(
            name="", text="", prompt_tokens=_SAMPLE_TOKENS, output_tokens=1, concurrency=1,
            rounds=1, requests=1, seconds=30, saturates=False,
        )  # fmt: skip
        [prompt] = write_prompts(point, 1, letters=_LETTERS, chance=self.chance)
        counted = self._send(self._plan(point, (prompt,), warmups=1)).requests
        if counted and (tokens := counted[0].prompt_tokens):
            self.letters = len(prompt) / tokens
        if counted and counted[0].error:
            raise JobError(f"It does not answer: {counted[0].error}")
        short = dataclasses.replace(point, text="Hi", requests=_BASES)
        prompts = write_prompts(short, _BASES, letters=self.letters, chance=self.chance)
        timings = self._send(self._plan(short, prompts))
        times = [each.ttft for each in timings.requests if each.ttft is not None]
        self.base = median(times) if times else 0.0

    def _measure_point(self, point: PresetPoint) -> list[TakenRound]:
        """Its rounds; of conversations those of the first turn."""
        turns: list[list[TakenRound]] = [[] for _turn in range(point.turns)]
        number = 0
        while number < point.rounds:
            self._give_way()
            self._check_limits()
            self._tell(point, number)
            taken = self._take_round(point, number)
            is_dropped = self._drops(taken)
            if is_dropped and not point.replay:
                continue
            number += 1  # of a replay the moment has passed
            self.done += 1
            if is_dropped or len(taken) < point.turns:
                continue
            for rounds, one in zip(turns, taken, strict=True):
                rounds.append(one)
            if any(each.has_failed for each in taken):
                break
        for turn, rounds in enumerate(turns):
            if rounds:
                keep_point(self.benchmark, self.place, point, turn, rounds)
                self.place += 1
        events.publish_change("benchmarks")
        return turns[0]

    def _take_round(self, point: PresetPoint, number: int) -> list[TakenRound]:
        """One; of conversations one a turn. All of these begin at once, and wait for each other."""
        begun = time.monotonic()
        found: list[TakenRound] = []
        for turn in range(point.turns):
            plan = self._plan_round(point, number, turn)
            watch = ConditionWatch(
                self.subject, lambda: self._count_ours(point), self.work.runner.read_sample
            )
            hits = CacheHits(self.subject) if point.turns > 1 else None
            at = time.time()
            timings = self._send(plan, watch=watch)
            if not timings.requests:
                break  # nothing has arrived in so short a time
            figures = summarise(timings.requests, concurrency=point.concurrency, base=self.base)
            if hits is not None and figures.cached_share is None:
                figures = dataclasses.replace(figures, cached_share=hits.measure_share())
            if plan.is_open_loop:  # a first token there has waited for others
                figures = dataclasses.replace(figures, prefill_rate=None)
            found.append(
                TakenRound(
                    at=at,
                    figures=figures,
                    conditions=watch.conclude(timings.lag),
                    requests=timings.requests,
                )
            )
        in_flight.note_most(self.subject.run.pk, 0)
        self.planned += point.seconds
        self.spent += time.monotonic() - begun
        return found

    def _count_ours(self, point: PresetPoint) -> int:
        """At the most, of the requests that the engine has now."""
        most = max(point.concurrency, self.generator.most_in_flight)
        in_flight.note_most(self.subject.run.pk, most)
        return most

    def _plan_round(self, point: PresetPoint, number: int, turn: int) -> PointPlan:
        in_flight.note_most(self.subject.run.pk, point.concurrency)
        if point.replay:
            part = point.replay[number]
            plan = self._plan(point, tuple(self.writer.write(each) for each in part))
            return dataclasses.replace(
                plan,
                requests=len(part),
                arrivals=tuple(each.at for each in part),
                outputs=tuple(each.output_tokens for each in part),
            )
        asked = point if not turn else dataclasses.replace(point, prompt_tokens=point.follow_tokens)
        prompts = write_prompts(asked, point.requests, letters=self.letters, chance=self.chance)
        # A shape is warmed up once: graphs and kernels are made by the batch's size.
        plan = self._plan(point, prompts, warmups=0 if number or turn else point.concurrency)
        if point.rate is not None:
            return dataclasses.replace(plan, rate=point.rate, seed=number)
        if point.turns > 1:
            return dataclasses.replace(plan, talk="goes on" if turn else "begins")
        return plan

    def _give_way(self) -> None:
        """Wait while others use the server. Raises GivenUpError, LimitError."""
        self.pauses.give_way(was_disturbed=self.was_disturbed)
        self.was_disturbed = False

    def _drops(self, taken: Sequence[TakenRound]) -> bool:
        """Whether others asked meanwhile: it is measured once more, when they do not."""
        if not self.work.job.gives_way or not taken:
            return False
        self.was_disturbed = any(
            each.conditions.requests_of_others for each in taken
        ) or has_gateway_requests(self.subject, taken[0].at)
        self.dropped += self.was_disturbed
        return self.was_disturbed

    def describe_pauses(self) -> str:
        """How it gave way, in a sentence; "" where it never had to."""
        if not self.dropped:
            return str(self.pauses)
        rounds = "1 round" if self.dropped == 1 else f"{self.dropped} rounds"
        return (
            f"It waited {self.pauses.waited:.0f} s for people’s requests, and {rounds} with such requests "
            "did not count."
        )

    def _plan(self, point: PresetPoint, prompts: tuple[str, ...], *, warmups: int = 0) -> PointPlan:
        return PointPlan(
            concurrency=point.concurrency,
            requests=point.requests,
            seconds=min(point.seconds, self._seconds_left()),
            output_tokens=point.output_tokens,
            prompts=prompts,
            warmups=warmups,
        )

    def _send(self, plan: PointPlan, watch: ConditionWatch | None = None) -> PointTimings:
        def look() -> None:
            self.work.check()
            if watch is not None:
                watch.look()

        self.sent += plan.warmups
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
        # As long as the rounds so far, of which many end before their time.
        pace = min(1.0, self.spent / self.planned) if self.planned else 1.0
        left = pace * sum(each.seconds for each in rounds[self.done :])
        self.work.note(
            point=f"{shown}, round {number + 1} of {point.rounds}",
            done=self.done,
            total=len(rounds),
            left=min(left, max(0.0, self._seconds_left())),
            dropped=self.dropped,
        )


def _mean_rate(rounds: Sequence[TakenRound]) -> float | None:
    told = [each.figures.output_rate for each in rounds]
    rates = [rate for rate in told if rate is not None]
    return sum(rates) / len(rates) if rates else None
