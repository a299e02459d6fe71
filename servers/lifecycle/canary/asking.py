"""The job of a canary: item by item, what the server answers written down, then judged."""

import dataclasses
import time
import uuid
from statistics import median

from django.utils import timezone

from servers import events
from servers.host.benchmarks.generator import LoadLimitError
from servers.host.benchmarks.orders import LoadLimits
from servers.host.benchmarks.process import GeneratorError
from servers.host.canary.asker import CanaryAsker
from servers.host.canary.replies import CanaryReply
from servers.judge.canary.items import LETTERS, CanaryItem, list_items, load_sets
from servers.judge.canary.scores import score_replies
from servers.judge.canary.verdicts import Try, build_answer, judge_items, needs_try, sum_up
from servers.lifecycle.benchmarks import in_flight
from servers.lifecycle.benchmarks.giving_way import CheckupPauses, has_gateway_requests
from servers.lifecycle.benchmarks.outcomes import note_end
from servers.lifecycle.benchmarks.subject import (
    BenchmarkSubject,
    describe,
    explain_end,
    find_run,
    require_subject,
)
from servers.lifecycle.canary import results
from servers.lifecycle.jobs.runner import GivenUpError, JobError, JobWork
from servers.models import Canary, CanaryJob
from servers.models.benchmarks import BenchmarkOutcome

REASONING = {"quick": 512, "full": 4096}  # tokens more, where reasoning cannot be switched off
_RATED = 32  # tokens of an answer that tells a speed
_REQUESTS = 1000  # at most, whatever the engine answers
_STOPPED = "It was stopped. What was answered until then is kept."


def check_answers(work: JobWork[CanaryJob]) -> str:
    """What came of it, in a sentence. Raises JobError, GivenUpError."""
    job = work.job
    run, canary = find_run(job.run), Canary.objects.filter(job=job).first()
    if run is None or canary is None or job.canary_set not in load_sets():
        raise JobError("What was to be checked is not there any more.")

    def keep(outcome: BenchmarkOutcome, said: str) -> None:
        _end(canary, outcome, said)

    with note_end(keep, stopped=_STOPPED) as end:
        subject = require_subject(run)
        canary.begun_at = timezone.now()
        canary.measured_on = describe(run, work.runner.read_sample())
        canary.save(update_fields=["begun_at", "measured_on"])
        _Asking(work, canary, subject).ask_all()
        end.outcome = BenchmarkOutcome.WHOLE
    return f"Its verdict: {canary.verdict}."


def _end(canary: Canary, outcome: BenchmarkOutcome, said: str) -> None:
    canary.outcome, canary.said, canary.ended_at = outcome, said, timezone.now()
    if outcome == BenchmarkOutcome.WHOLE:
        canary.compared_with = results.find_last_good(canary)
        before = results.read_items(canary.compared_with) if canary.compared_with else None
        verdicts = judge_items(results.read_items(canary), before)
        canary.verdicts = [dataclasses.asdict(each) for each in verdicts]
        canary.verdict = sum_up(verdicts)
    names = ["outcome", "said", "ended_at", "compared_with", "verdicts", "verdict"]
    canary.save(update_fields=names)
    events.publish_change("benchmarks")


class _TimeUpError(Exception):
    """The set has no time for more."""


class _Asking:
    def __init__(self, work: JobWork[CanaryJob], canary: Canary, subject: BenchmarkSubject) -> None:
        self.work, self.canary, self.subject = work, canary, subject
        self.set = load_sets()[canary.set_key]
        self.began = time.monotonic()
        # For people: such seconds do not count.
        self.pauses = CheckupPauses(work, subject, self._check_waiting)
        self.looked_at = time.time()  # whether people ask
        self.rates: list[float] = []
        self.read_rates: list[float] = []
        self.reasoning = 0  # tokens more of each answer
        self.letters = LETTERS
        # Caches must not answer what a long prompt is asked for.
        self.nonce = f"{uuid.uuid4().hex[:10]}. "

    def ask_all(self) -> None:
        run = self.subject.run.pk
        # Waiting for people takes as long as asking, at most.
        limits = LoadLimits(seconds=2 * self.set.limit_seconds + 60, requests=_REQUESTS)
        with in_flight.note_run(run), CanaryAsker(self.subject.target, limits) as self.asker:
            in_flight.note_most(run, 1)
            self.work.follow(self.asker.stop)
            items = self._list_items()
            left, place = len(items), 0
            try:
                while place < len(items):
                    item = items[place]
                    if self._expect_seconds(item) <= self._seconds_left():
                        self._answer(item, place, len(items))
                        left -= 1
                        if item.kind == "needle":  # it has told how long a token is
                            items = self._list_items()
                    place += 1
            except _TimeUpError:
                pass
            self.canary.left_out = left
            self.canary.rate = median(self.rates) if self.rates else None
            self.canary.save(update_fields=["left_out", "rate", "items"])
            if not self.canary.items:
                raise JobError("It answered nothing in time.")

    def _list_items(self) -> list[CanaryItem]:
        return list_items(
            self.set.key, longest=self.subject.longest, letters=self.letters, nonce=self.nonce
        )

    def _answer(self, item: CanaryItem, place: int, count: int) -> None:
        self._give_way()
        left = max(0.0, self._seconds_left())
        self.work.note(item=item.title[:100], done=place, total=count, left=left)
        tries: list[Try] = []
        while needs_try(item, tries):
            tries.append(self._try(item))
        answered = build_answer(item, tries)
        self.canary.items = [*self.canary.items, results.pack_item(answered)]
        self.canary.save(update_fields=["items"])

    def _try(self, item: CanaryItem) -> Try:
        replies: list[CanaryReply] = []
        for _turn in item.turns:
            replies.append(self._ask(item, [each.text for each in replies]))
            if replies[-1].error:
                if why := explain_end(self.subject):
                    raise JobError(why)
                break
        return score_replies(item, replies), replies[-1]

    def _ask(self, item: CanaryItem, said: list[str]) -> CanaryReply:
        reply = self._send(item, said)
        if item.kind == "needle" and reply.prompt_tokens:
            # To a tenth: the same text for the same model, whatever number it begins with.
            self.letters = round(len(item.turns[0]) / reply.prompt_tokens, 1)
        is_cut = reply.reasoning and not reply.text and reply.finish == "length"
        if is_cut and not self.reasoning and item.kind != "fingerprint":
            self.reasoning = REASONING[self.set.key]
            reply = self._send(item, said)
        return reply

    def _send(self, item: CanaryItem, said: list[str]) -> CanaryReply:
        more = 0 if item.kind == "fingerprint" else self.reasoning
        question = dataclasses.replace(item, tokens=item.tokens + more).build_question(said)

        def look() -> None:
            self.work.check()
            if self._seconds_left() <= 0:
                self.asker.stop()  # an answer that does not end

        with self.work.report_progress(look):
            try:
                reply = self.asker.ask(question)
            except (GeneratorError, LoadLimitError) as error:
                if self.work.is_given_up:
                    raise GivenUpError(_STOPPED) from error
                if self._seconds_left() <= 0:
                    raise _TimeUpError from error
                raise JobError(str(error)) from error
        self._note_speed(reply)
        return reply

    def _note_speed(self, reply: CanaryReply) -> None:
        if reply.error or not reply.seconds:
            return
        if (reply.output_tokens or 0) >= _RATED and (reply.prompt_tokens or 0) < 500:
            self.rates.append((reply.output_tokens or 0) / reply.seconds)
        if (reply.prompt_tokens or 0) >= 1000:
            self.read_rates.append((reply.prompt_tokens or 0) / reply.seconds)

    def _expect_seconds(self, item: CanaryItem) -> float:
        """By the speeds that were measured until now; 0 before."""
        tokens = (item.tokens + self.reasoning) * len(item.turns) * item.repeats
        writing = tokens / median(self.rates) if self.rates else 0.0
        reading = item.prompt_tokens / median(self.read_rates) if self.read_rates else 0.0
        return writing + reading

    def _seconds_left(self) -> float:
        return self.set.limit_seconds - (time.monotonic() - self.began - self.pauses.waited)

    def _give_way(self) -> None:
        """Wait while others use the server."""
        self._check()
        disturbed = has_gateway_requests(self.subject, self.looked_at)
        self.pauses.give_way(was_disturbed=disturbed)
        self.looked_at = time.time()

    def _check(self) -> None:
        self.work.check()
        if self.work.is_given_up:
            raise GivenUpError(_STOPPED)

    def _check_waiting(self) -> None:
        self._check()
        if self.pauses.waited > self.set.limit_seconds:
            raise JobError("People used the server all the time, and it gives way to them.")
