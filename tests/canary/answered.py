"""What models of tests.canary.engine answer, without an engine between; and rows of canaries of it."""

import dataclasses
import json
from datetime import timedelta
from typing import Any

from django.utils import timezone

from servers.host.canary.replies import CanaryReply, read_completion
from servers.judge.canary.items import CanaryItem, get_version, list_items
from servers.judge.canary.scores import score_replies
from servers.judge.canary.verdicts import (
    AnsweredItem,
    Try,
    build_answer,
    judge_items,
    needs_try,
    sum_up,
)
from servers.lifecycle.canary import results
from servers.models import Canary, Server
from servers.models.benchmarks import BenchmarkOutcome
from tests.canary.engine import CanaryModel
from tests.measurements import MEASURED_ON


def answer(model: CanaryModel) -> list[AnsweredItem]:
    """What this model says to the quick set."""
    return [_answer(model, item) for item in list_items("quick", longest=32768, letters=4.0)]


def _answer(model: CanaryModel, item: CanaryItem) -> AnsweredItem:
    tries: list[Try] = []
    while needs_try(item, tries):
        replies: list[CanaryReply] = []
        for _turn in item.turns:
            body = item.build_question([each.text for each in replies]).build_body("m")
            if not model.has_logprobs:
                body.pop("logprobs", None)
            said = model.plan(json.loads(json.dumps(body))).error
            replies.append(read_completion(said, 0.1))
        tries.append((score_replies(item, replies), replies[-1]))
    return build_answer(item, tries)


def canary(of: Server, model: CanaryModel | None = None, **values: Any) -> Canary:
    """A whole one of the quick set, compared with the last good one of the server."""
    now, items = timezone.now(), answer(model or CanaryModel())
    before = Canary.objects.good().filter(server=of).first()
    verdicts = judge_items(items, results.read_items(before) if before else None)
    usual = {
        "begun_at": now - timedelta(seconds=40), "ended_at": now, "measured_on": MEASURED_ON,
        "outcome": BenchmarkOutcome.WHOLE, "rate": 120.0, "compared_with": before,
        "set_key": "quick", "set_version": get_version(), "verdict": sum_up(verdicts),
    }  # fmt: skip
    return Canary.objects.create(
        box=of.box, server=of, server_name=of.slug, run=of.run, version=of.profile.current,
        model=of.profile.launch.checkpoint, items=[results.pack_item(each) for each in items],
        verdicts=[dataclasses.asdict(each) for each in verdicts], **{**usual, **values},
    )  # fmt: skip
