"""Synthetic probes of ready engines, kept out of their metrics."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from django.utils import timezone

from servers.host.runs import questions
from servers.host.runs.probes import Endpoint
from servers.host.runs.questions import CompletionResult
from servers.judge.runs.smoke_test import QUESTION
from servers.launch.engines.engine import Engine
from servers.models import Run
from servers.watcher.runs.probe_queue import Questions

# Tokens, and seconds to them. A first request may compile kernels on its way.
FIRST_TOKENS, FIRST_LIMIT = 64, 120.0
ONE_TOKEN_LIMIT = 30.0
PING = "Hi"

type Kind = Literal["first", "again", "token"]


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """`alone`: as far as the engine tells, nobody else had a request meanwhile."""

    run: Run
    kind: Kind
    answer: CompletionResult
    asked_at: datetime
    alone: bool = True


class SyntheticProbes:
    def __init__(self) -> None:
        self._questions: Questions[ProbeResult] = Questions("question")
        self._ended: dict[int, float] = {}
        self._company: set[int] = set()  # runs that others ask meanwhile
        self._had_first: set[int] = set()

    def first(self, run: Run, endpoint: Endpoint) -> None:
        """Ask, once, for the answer that tells whether it is language, and how fast it comes."""
        if run.pk in self._had_first:
            return
        self._had_first.add(run.pk)
        self._ask(run, endpoint, "first", QUESTION, FIRST_TOKENS, FIRST_LIMIT)

    def repeat(self, run: Run, endpoint: Endpoint) -> None:
        """The same question another time, when everything is compiled."""
        self._ask(run, endpoint, "again", QUESTION, FIRST_TOKENS, FIRST_LIMIT)

    def token(self, run: Run, endpoint: Endpoint) -> None:
        """Ask for one token, as a sign of life."""
        self._ask(run, endpoint, "token", PING, 1, ONE_TOKEN_LIMIT)

    def _ask(
        self, run: Run, endpoint: Endpoint, kind: Kind, text: str, most: int, limit: float
    ) -> None:
        if self._questions.is_open(run.pk):
            return
        name, asked_at = run.served_name, timezone.now()
        self._company.discard(run.pk)

        def question() -> ProbeResult:
            answer = questions.ask(endpoint, name, text, most=most, limit=limit)
            return ProbeResult(run=run, kind=kind, answer=answer, asked_at=asked_at)

        self._questions.ask(run.pk, question)

    def answers(self) -> Iterator[ProbeResult]:
        """What has arrived."""
        for run_id, said in self._questions.answers(until=time.monotonic()):
            self._ended[run_id] = time.monotonic()
            alone = run_id not in self._company
            yield ProbeResult(
                run=said.run,
                kind=said.kind,
                answer=said.answer,
                asked_at=said.asked_at,
                alone=alone,
            )

    def others(self, run: Run, requests: int | None, engine: Engine) -> int | None:
        """How many of its requests are not ours; None where it does not count them."""
        if requests is None:
            return None
        others = max(0, requests - 1) if self.is_ours(run, engine) else requests
        if others and self._questions.is_open(run.pk):
            self._company.add(run.pk)
        return others

    def is_ours(self, run: Run, engine: Engine) -> bool:
        """Whether its figures may tell of a question of ours, which is open or just answered."""
        if self._questions.is_open(run.pk):
            return True
        ended = self._ended.get(run.pk)
        return ended is not None and time.monotonic() - ended < engine.settles
