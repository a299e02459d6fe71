"""Check-ups beside the usual ones: conversations, points of one's own, the past once more."""

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from django.utils import timezone

from servers.judge.benchmarks import points
from servers.judge.benchmarks.custom import CustomPoints, build_custom
from servers.judge.benchmarks.plots import list_charts
from servers.judge.benchmarks.presets import BenchmarkPreset, load_presets
from servers.judge.benchmarks.replay import PastRequest, ReplayWriter, build_replay
from servers.lifecycle.benchmarks import commands
from servers.lifecycle.benchmarks.commands import BenchmarkRequestError
from servers.lifecycle.benchmarks.results import read_points
from servers.models import Benchmark, Request, Role
from servers.models.runs.run import ManagedServer
from tests import factories
from tests.cases import Cases
from tests.jobs import obey
from tests.scripted_engine import EngineScript, ScriptedEngine

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_redis")]

PRESETS = cast(dict[str, BenchmarkPreset], load_presets())
AT = 1_700_000_000.0


class CachingEngine:
    """It tells how much of each conversation it has read before: all that was said until then."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def answer(self, body: dict[str, Any]) -> EngineScript:
        self.asked.append(body)
        letters = [len(each["content"]) // 4 for each in body["messages"]]
        used = {
            "prompt_tokens": sum(letters),
            "prompt_tokens_details": {"cached_tokens": sum(letters[:-1])},
        }
        words = [{"content": "word "}] * body["max_tokens"]
        return EngineScript(deltas=words, used=used)


@pytest.fixture
def caching() -> CachingEngine:
    return CachingEngine()


@pytest.fixture
def server(caching: CachingEngine, monkeypatch: pytest.MonkeyPatch) -> Iterator[ManagedServer]:
    monkeypatch.setattr(points, "LATE", 60.0)
    with ScriptedEngine(plan=caching.answer) as engine:
        engine.answers["/metrics"] = (200, "")
        made = factories.server(factories.box("rtx8"))
        factories.run(made, port=engine.port, address=engine.host)
        yield made


def finish(made: Benchmark) -> Benchmark:
    assert made.box is not None
    obey(made.box)
    found = Benchmark.objects.with_details().get(pk=made.pk)
    assert found.state == "done", found.why
    return found


def test_conversations_tell_how_much_of_each_turn_came_from_the_cache(
    server: ManagedServer, caching: CachingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    [whole] = PRESETS["turns"].points
    fewer = replace(whole, requests=4, concurrency=2, turns=3, rounds=2, output_tokens=8)
    monkeypatch.setitem(PRESETS, "turns", replace(PRESETS["turns"], points=(fewer,)))

    found = finish(commands.ask(server, "turns", by=factories.person()))

    turns = read_points(found)
    assert [each.label for each in turns] == ["Turn 1", "Turn 2", "Turn 3"]
    shares = [each.rounds[0].cached_share for each in turns]
    assert shares[0] == 0.0, "the first turns differ"
    assert 0.5 < (shares[1] or 0) < (shares[2] or 0) < 1.0
    titles = [chart.title for chart in list_charts([("", turns)])]
    assert titles == ["From cache, by turn", "Wait for the first token, by turn"]
    firsts = [body["messages"][0]["content"] for body in caching.asked]
    assert len({text[:12] for text in firsts}) == len({*firsts})
    answers = [each["content"] for each in caching.asked[-1]["messages"] if each["role"] != "user"]
    assert answers == ["word " * 8] * 2


def test_an_editor_measures_points_of_their_own(
    server: ManagedServer, caching: CachingEngine
) -> None:
    wanted = CustomPoints(prompts=(64,), output=4, people=(2,), rounds=2, seconds=0.3)
    operator = factories.person("olaf", Role.OPERATOR)
    with pytest.raises(BenchmarkRequestError, match="Only an editor"):
        commands.ask_custom(server, wanted, by=operator)

    closed = finish(commands.ask_custom(server, wanted, by=factories.person()))
    open_loop = replace(wanted, people=(), rates=(20.0,))
    arriving = finish(commands.ask_custom(server, open_loop, by=factories.person()))

    assert [each.label for each in read_points(closed)] == ["64 tokens, 2 people"]
    [found] = read_points(arriving)
    assert found.label == "64 tokens, 20 a second"
    assert len(found.rounds) == 2
    assert found.rounds[0].prefill_rate is None
    assert all(body["max_tokens"] == 4 for body in caching.asked[-3:])
    preset = build_custom(open_loop)
    assert preset.limit_requests > 2 * 20 * 0.3
    assert preset.limit_seconds > open_loop.planned


def seeded() -> random.Random:
    return random.Random(1)  # noqa: S311 - moments and prompts, no secrets


def past(after: float, prompt: int, output: int = 10, **more: Any) -> PastRequest:
    usual = {"asker": (1, 1)}
    return PastRequest(
        at=AT + after, prompt_tokens=prompt, output_tokens=output, **{**usual, **more}
    )


def test_a_replay_keeps_lengths_times_and_chains() -> None:
    hour = [
        past(0, 100),
        past(20, 130),  # goes on
        past(70, 100, asker=(2, 2)),  # somebody else
        past(80, 200, cached_tokens=0),  # read anew
        past(130, 190, cached_tokens=120),  # goes on with the second
    ]

    found = build_replay(hour, pace=2.0, is_random=False, chance=seeded())
    shuffled = build_replay(hour, pace=2.0, is_random=True, chance=seeded())

    assert found
    assert shuffled
    [point] = found.points
    assert [[each.at for each in part] for part in point.replay] == [[0, 10, 35, 40], [5]]
    flat = [each for part in point.replay for each in part]
    assert [each.prompt_tokens for each in flat] == [100, 130, 100, 200, 190]
    assert [each.talk for each in flat] == [0, 0, 1, 2, 0]
    writer = ReplayWriter(letters=4.0, chance=seeded())
    texts = [writer.write(each) for each in flat]
    assert texts[1].startswith(texts[0])
    assert texts[4].startswith(texts[1])
    assert not texts[2].startswith(texts[0][:8])
    assert len(texts[3]) == pytest.approx(800, abs=16)
    moments = [each.at for part in shuffled.points[0].replay for each in part]
    assert moments != [each.at for each in flat]
    assert build_replay([], pace=1.0, is_random=False, chance=seeded()) is None


def test_a_replay_asks_what_the_gateway_once_did_and_counts_as_nothing(
    server: ManagedServer, caching: CachingEngine
) -> None:
    hour = datetime.fromtimestamp(math.floor(AT / 3600) * 3600, UTC)
    for after, prompt, output in [(5.0, 300, 7), (5.2, 60, 3), (5.3, 320, 5), (4000.0, 10, 9)]:
        Request.objects.create(
            at=hour + timedelta(seconds=after), person=factories.person(), run=server.run,
            server=server.slug, model="m", path="/v1/chat/completions", status=200, duration=1.0,
            prompt_tokens=prompt, completion_tokens=output,
        )  # fmt: skip
    with pytest.raises(BenchmarkRequestError, match="no request"):
        commands.ask_replay(
            server, timezone.now(), pace=1.0, is_random=False, by=factories.person()
        )

    found = finish(
        commands.ask_replay(server, hour, pace=1.0, is_random=False, by=factories.person())
    )

    [point] = read_points(found)
    with Cases() as cases:
        with cases.named("lengths"):
            assert [body["max_tokens"] for body in caching.asked[-3:]] == [7, 3, 5]
        with cases.named("chains"):
            first, _other, after = (body["messages"][0]["content"] for body in caching.asked[-3:])
            assert after.startswith(first)
        with cases.named("title"):
            assert found.title.startswith("Replay of 14 Nov")
        with cases.named("figures"):
            assert point.rounds[0].requests == 3
            assert point.rounds[0].failed == 0
        with cases.named("counted nowhere"):
            assert Request.objects.count() == 4
