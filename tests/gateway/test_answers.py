"""Answers that go on in the server when the page that asked is gone."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
import pytest_asyncio
import redis as redis_client

from servers.gateway import answers
from servers.gateway.answers import Name
from tests.waiting import wait_until_async

NAME = Name(7, "talk00", "answer")


class WritingEngine:
    """Says what it is told to, and knows whether somebody still reads."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[bytes] = asyncio.Queue()
        self.is_closed = False

    def says(self, *words: str) -> None:
        for each in words:
            self.queue.put_nowait(f"data: {each}\n\n".encode())

    def ends(self) -> None:
        self.queue.put_nowait(b"")

    async def pieces(self) -> AsyncGenerator[bytes]:
        try:
            while piece := await self.queue.get():
                yield piece
        finally:
            self.is_closed = True


@pytest.fixture
def engine(own_redis: redis_client.Redis) -> WritingEngine:
    return WritingEngine()


@pytest_asyncio.fixture
async def _nothing_left() -> AsyncIterator[None]:
    yield
    for each in [*answers._arriving.values()]:
        each.stop()
        await each.finish()


pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("_nothing_left")]


async def heard(events: AsyncGenerator[bytes], until: str = "") -> str:
    """All of it, or up to a word in it."""
    text = ""
    async with aclosing(events):
        async for piece in events:
            text += piece.decode()
            if until and until in text:
                break
    return text


def hold_redis(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Redis hears of no answer before this is set."""
    may_enter = asyncio.Event()
    enter = answers.StreamingAnswer._enter

    async def enter_late(self: answers.StreamingAnswer, client: redis_client.asyncio.Redis) -> None:
        await may_enter.wait()
        await enter(self, client)

    monkeypatch.setattr(answers.StreamingAnswer, "_enter", enter_late)
    return may_enter


async def gone(engine: WritingEngine, name: Name = NAME) -> None:
    """A page asks, hears the first words and goes."""
    engine.says("one")
    assert "one" in await heard(answers.begin(name, engine.pieces()), until="one")


def words(text: str) -> list[str]:
    return [line.removeprefix("data: ") for line in text.splitlines() if line in _WORDS]


_WORDS = {f"data: {word}" for word in ("one", "two", "three")}


async def test_an_answer_goes_on_without_its_page_and_is_had_whole(engine: WritingEngine) -> None:
    await gone(engine)
    assert not engine.is_closed

    engine.says("two")
    following = answers.follow(NAME)
    assert "two" in await heard(following, until="two")
    engine.says("three")
    engine.ends()
    text = await heard(answers.follow(NAME))

    assert words(text) == ["one", "two", "three"]
    assert text.endswith("event: end\ndata: {}\n\n")
    again = await heard(answers.follow(NAME))
    assert words(again) == ["one", "two", "three"]


async def test_what_had_come_is_parted_from_what_comes(
    engine: WritingEngine, own_redis: redis_client.Redis
) -> None:
    await gone(engine)
    await wait_until_async(lambda: own_redis.exists(NAME.stream), "it is written")
    following = answers.follow(NAME)

    text = ""
    async for piece in following:
        text += piece.decode()
        if "event: now" in text and "two" not in text:
            engine.says("two")
            engine.ends()
    before, after = text.split("event: now")

    assert (words(before), words(after)) == (["one"], ["two"])
    assert [json.loads(line[6:])["ms"] for line in text.splitlines() if '"ms"' in line]


async def test_stop_from_any_page_closes_the_engines_connection(engine: WritingEngine) -> None:
    await gone(engine)

    await answers.stop(NAME)

    text = await heard(answers.follow(NAME))
    assert "event: stopped" in text
    assert engine.is_closed


async def test_stop_in_another_process_reaches_the_one_that_reads(
    engine: WritingEngine, own_redis: redis_client.Redis
) -> None:
    await gone(engine)
    await wait_until_async(lambda: own_redis.exists(NAME.stream), "the answer is kept")
    arriving = answers._arriving.pop(NAME)  # as there

    await answers.stop(NAME)

    assert "event: stopped" in await heard(answers.follow(NAME))
    assert engine.is_closed
    await arriving.finish()


async def test_a_stop_that_comes_before_the_answer_has_begun_stops_it(
    engine: WritingEngine,
) -> None:
    await answers.stop(NAME)

    await gone(engine)

    assert "event: stopped" in await heard(answers.follow(NAME))
    assert engine.is_closed


async def test_two_stops_leave_the_end_of_the_request_alone(engine: WritingEngine) -> None:
    may_end, has_ended = asyncio.Event(), asyncio.Event()

    async def pieces() -> AsyncGenerator[bytes]:
        try:
            async with aclosing(engine.pieces()) as said:
                async for piece in said:
                    yield piece
        finally:
            await may_end.wait()
            has_ended.set()

    engine.says("one")
    assert "one" in await heard(answers.begin(NAME, pieces()), until="one")
    await answers.stop(NAME)
    await wait_until_async(lambda: _is_closed(engine), "the engine's connection is closed")

    await answers.stop(NAME)
    may_end.set()

    assert "event: stopped" in await heard(answers.follow(NAME))
    assert has_ended.is_set()


async def test_the_same_answer_asked_for_twice_is_one(engine: WritingEngine) -> None:
    await gone(engine)
    second = WritingEngine()

    again = answers.begin(NAME, second.pieces())
    engine.ends()
    assert words(await heard(again)) == ["one"]
    await wait_until_async(lambda: _is_over(), "the answer is over")
    third = WritingEngine()
    third.says("two")
    third.ends()
    await heard(answers.begin(NAME, third.pieces()))
    await wait_until_async(lambda: _is_over(), "it is written")

    assert second.queue.empty()
    assert words(await heard(answers.follow(NAME))) == ["two"]


async def test_an_answer_whose_process_has_ended_says_so(
    engine: WritingEngine, own_redis: redis_client.Redis
) -> None:
    own_redis.xadd(NAME.stream, {"at": 1, "data": b"x\x9c\x03\x00\x00\x00\x00\x01"})

    assert "inferdash was restarted" in await heard(answers.follow(NAME))


async def test_nobody_is_said_to_have_stopped_it_when_the_process_ends(
    engine: WritingEngine,
) -> None:
    engine.says("one")
    events = answers.begin(NAME, engine.pieces())
    assert "one" in (await anext(events)).decode()

    answers._arriving[NAME]._reading.cancel()  # as the loop does with all that is left

    rest = await heard(events)
    assert "inferdash was restarted" in rest
    assert "stopped" not in rest


async def test_a_conversations_answers_are_erased_with_it(
    engine: WritingEngine, own_redis: redis_client.Redis
) -> None:
    other = Name(7, "talk01", "answer")
    another = WritingEngine()
    await gone(engine)
    await gone(another, other)
    both = (NAME.stream, other.stream)
    await wait_until_async(lambda: own_redis.exists(*both) == 2, "both are kept")

    await answers.forget(7, "talk00")

    assert engine.is_closed
    assert not another.is_closed
    assert not own_redis.keys(f"{NAME.stream}*")
    assert own_redis.zrange(NAME.index, 0, -1) == [other.stream.encode()]


async def test_deletion_reaches_an_answer_that_redis_has_not_heard_of_or_is_away(
    engine: WritingEngine, own_redis: redis_client.Redis, settings: Any
) -> None:
    settings.REDIS_URL, url = "unix:///nonexistent/redis.sock", settings.REDIS_URL
    listening = answers.begin(NAME, engine.pieces())
    engine.says("one")
    assert "one" in (await anext(listening)).decode()
    with pytest.raises(redis_client.ConnectionError):
        await answers.forget(7, "talk00")
    assert engine.is_closed

    settings.REDIS_URL = url
    early = WritingEngine()
    answers.begin(NAME, early.pieces())
    await answers.forget(7, "talk00")
    assert not own_redis.keys(f"{NAME.stream}*")
    assert NAME not in answers._arriving


async def test_another_process_writes_nothing_of_what_was_deleted(
    engine: WritingEngine, own_redis: redis_client.Redis
) -> None:
    await gone(engine)
    await wait_until_async(lambda: own_redis.exists(NAME.stream), "the answer is kept")
    arriving = answers._arriving.pop(NAME)  # as there

    await answers.forget(7, "talk00")

    await arriving.finish()
    assert engine.is_closed
    assert not own_redis.keys(f"{NAME.stream}*")


async def test_one_person_has_so_many_at_once(
    engine: WritingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "AT_ONCE", 1)
    await gone(engine)

    with pytest.raises(answers.TooManyError):
        answers.begin(Name(7, "talk00", "second"), WritingEngine().pieces())
    other = WritingEngine()
    await gone(other, Name(8, "talk00", "answer"))


async def test_the_oldest_are_let_go_of(
    engine: WritingEngine, own_redis: redis_client.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "MOST", 1)
    for key in ("first0", "second"):
        each = WritingEngine()
        each.says("one")
        each.ends()
        name = Name(7, "talk00", key)
        await heard(answers.begin(name, each.pieces()))
        assert words(await heard(answers.follow(name))) == ["one"]

    assert not own_redis.exists(Name(7, "talk00", "first0").stream)
    assert own_redis.ttl(name.stream) > 0
    assert own_redis.ttl(name.index) > own_redis.ttl(name.stream)

    # But none that is arriving: its beginning would be missing.
    await gone(engine)
    await wait_until_async(lambda: own_redis.exists(NAME.stream), "the answer is kept")
    each = WritingEngine()
    each.ends()
    await heard(answers.begin(Name(7, "talk00", "third0"), each.pieces()))
    engine.ends()
    assert words(await heard(answers.follow(NAME))) == ["one"]


async def test_an_answer_without_end_is_stopped(
    engine: WritingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "LARGEST", 10)
    await gone(engine)

    text = await heard(answers.follow(NAME))

    assert "Set Max tokens" in text
    assert engine.is_closed


async def test_one_that_takes_hours_is_stopped(
    engine: WritingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "LONGEST", 0.05)
    await gone(engine)

    assert "was stopped after" in await heard(answers.follow(NAME))


async def test_a_page_that_falls_behind_takes_it_up_again(
    engine: WritingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "UNREAD", 10)
    engine.says("one", "two", "three")
    engine.ends()

    assert "end" not in await heard(answers.begin(NAME, engine.pieces()))
    assert words(await heard(answers.follow(NAME))) == ["one", "two", "three"]


async def test_a_page_that_does_not_read_costs_no_memory(
    engine: WritingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "UNREAD", 30)
    engine.says("one")
    events = answers.begin(NAME, engine.pieces())
    assert "one" in (await anext(events)).decode()  # and reads no more

    engine.says("two", "three", "two", "three")
    following = answers.follow(NAME)
    await heard(following, until="three")

    arriving = answers._arriving[NAME]
    assert not arriving._unread
    assert await anext(events, b"") == b""


async def test_an_engine_waits_for_a_redis_that_is_slow(
    engine: WritingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "UNWRITTEN", 30)
    may_enter = hold_redis(monkeypatch)
    engine.says(*["one"] * 100)
    engine.ends()
    await heard(answers.begin(NAME, engine.pieces()), until="one")
    for _turn in range(50):
        await asyncio.sleep(0)
    assert engine.queue.qsize() > 90

    may_enter.set()

    assert words(await heard(answers.follow(NAME))) == ["one"] * 100


async def test_a_silent_engines_page_hears_that_the_server_is_there(
    engine: WritingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "BEAT", 0.01)
    assert (await anext(answers.begin(NAME, engine.pieces()))).startswith(b": ")


async def test_what_a_new_redis_has_is_never_an_end_without_its_beginning(
    engine: WritingEngine, own_redis: redis_client.Redis
) -> None:
    engine.says("one")
    events = answers.begin(NAME, engine.pieces())
    assert "one" in (await anext(events)).decode()
    await wait_until_async(lambda: own_redis.exists(NAME.stream), "it is written")
    own_redis.flushall()  # and its connections are cut, as by a restart
    own_redis.client_kill_filter(_type="normal", skipme=True)

    engine.says("two")
    engine.ends()

    assert words(await heard(events)) == ["two"]
    assert not own_redis.exists(NAME.stream)


async def test_one_that_redis_has_not_heard_of_yet_is_waited_for(
    engine: WritingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_enter = hold_redis(monkeypatch)
    engine.says("one")
    engine.ends()
    await heard(answers.begin(NAME, engine.pieces()))
    assert await answers.is_there(NAME)

    text = ""
    async for piece in answers.follow(NAME):
        text += piece.decode()
        may_enter.set()

    assert words(text) == ["one"]
    assert text.endswith("event: end\ndata: {}\n\n")


async def test_without_redis_an_answer_reaches_its_page_and_ends_with_it(
    engine: WritingEngine, settings: object
) -> None:
    settings.REDIS_URL = "unix:///nonexistent/redis.sock"  # type: ignore[attr-defined]
    engine.says("one")
    events = answers.begin(NAME, engine.pieces())
    assert "one" in (await anext(events)).decode()
    await wait_until_async(lambda: _is_unkept(), "the write has failed")
    engine.says("two")
    assert "two" in (await anext(events)).decode()
    assert not answers._arriving[NAME]._unwritten

    await events.aclose()

    await wait_until_async(lambda: _is_closed(engine), "the engine's connection is closed")


async def _is_over() -> bool:
    return not answers._arriving


async def _is_unkept() -> bool:
    return not answers._arriving[NAME].is_kept


async def _is_closed(engine: WritingEngine) -> bool:
    return engine.is_closed
