"""What requests come to by day, and the page that shows it."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import AsyncClient, Client
from django.utils import timezone

from servers.gateway import calls
from servers.judge.gateway.usage_chart import LABEL, chart
from servers.models import Key, Request, Role, Server, Usage, User
from servers.models.runs.run import RunState
from servers.views.gateway.usage import SPANS
from tests import factories
from tests.streamed import whole_of

pytestmark = pytest.mark.django_db
TODAY = date(2026, 11, 22)


@pytest.fixture
def ada() -> User:
    return User.objects.create(username="ada", role=Role.OPERATOR)


@pytest.fixture
def client(ada: User, own_redis: object) -> Client:
    return factories.log_in(ada)


def request(person: User, *, ago: float = 0, **values: Any) -> Request:
    usual = {
        "at": timezone.now() - timedelta(days=ago), "path": "/v1/chat/completions", "status": 200,
        "duration": 2.5, "model": "coder", "server": "coder-1", "person": person,
    }  # fmt: skip
    return Request(**usual | values)


def page(client: Client, query: str = "") -> str:
    answer = client.get(f"/gateway/usage/{query}")
    assert answer.status_code == 200
    return answer.content.decode().replace("\u202f", " ")


def test_requests_are_added_up_by_model_key_and_person(ada: User, own_redis: None) -> None:
    key, _token = Key.make(ada, "nightly", Role.OPERATOR, expires_at=None)
    calls._write(
        [
            request(ada, key=key, prompt_tokens=1200, cached_tokens=1000, completion_tokens=50),
            request(ada, key=key, prompt_tokens=100, cancelled=True),
            request(ada, model="glm", status=503),
        ]
    )
    calls._write([request(ada, key=key, prompt_tokens=10, completion_tokens=5)])

    coder, glm = Usage.objects.by_model()
    assert coder == {
        "name": "coder", "asked": [], "requests": 3, "failed": 0, "cancelled": 1,
        "read": 1310, "cached": 1000, "written": 55,
    }  # fmt: skip
    assert (glm["name"], glm["requests"], glm["failed"]) == ("glm", 1, 1)
    assert [row["name"] for row in Usage.objects.added_up("key")] == ["nightly", None]
    assert [row["requests"] for row in Usage.objects.added_up("person")] == [4]
    assert Usage.objects.count() == 2


def test_a_server_of_the_longest_name_has_room_in_both_tables() -> None:
    longest = Server._meta.get_field("slug").max_length

    assert [each._meta.get_field("server").max_length for each in (Request, Usage)] == [longest] * 2


def test_the_day_is_that_of_the_installation(ada: User, settings: Any) -> None:
    settings.TIME_ZONE = "Pacific/Auckland"
    late = datetime(2026, 11, 22, 12, 30, tzinfo=UTC)

    Usage.objects.add([request(ada, at=late)])

    assert Usage.objects.get().day == date(2026, 11, 23)


def test_a_model_is_one_row_whatever_it_was_asked_for_as(
    client: Client, ada: User, own_redis: None
) -> None:
    server = factories.server(factories.box(), "coder-1")
    factories.run(server, RunState.STOPPED, age=10 * 24 * 3600, served_name="qwen-2")
    factories.run(server, served_name="qwen-3")
    asked: list[tuple[str, dict[str, Any]]] = [
        ("qwen-3", {"prompt_tokens": 100}),
        ("coder-1", {"prompt_tokens": 20}),
        ("default", {"prompt_tokens": 3}),
        ("default", {"prompt_tokens": 1, "ago": 5}),
        ("gpt-4o", {"server": "", "status": 404}),
        ("<b>o1", {"server": "", "status": 404}),
        ("", {"server": ""}),
        ("bygone", {"server": "removed", "prompt_tokens": 1}),
    ]
    for model, more in asked:
        Usage.objects.add([request(ada, model=model, **more)])

    rows = Usage.objects.by_model()
    assert [(row["name"], row["asked"], row["read"]) for row in rows] == [
        ("qwen-3", ["coder-1", "default"], 123),
        ("qwen-2", ["default"], 1),
        ("bygone", [], 1),
        ("", [], 0),
        (None, ["<b>o1", "gpt-4o"], 0),
    ]
    text = page(client)
    assert "also requested as coder-1, default" in text
    assert "No such model" in text
    assert "&lt;b&gt;o1, gpt-4o" in text
    assert "no model named" in text
    assert "No such server" not in page(client, "?by=server")
    assert "no server found" in page(client, "?by=server")


def test_the_page_adds_up_what_is_asked_for(client: Client, ada: User) -> None:
    Usage.objects.add([request(ada, prompt_tokens=1_234_567, completion_tokens=89)])
    Usage.objects.add([request(ada, ago=20, model="<b>bygone", prompt_tokens=7)])

    week = page(client)
    assert "1 234 567" in week
    assert "bygone" not in week
    assert "&lt;b&gt;bygone" in page(client, "?days=30")
    assert ">ada<" in page(client, "?days=30&amp;by=person".replace("&amp;", "&"))
    assert 'class="use-chart"' in week
    assert 'class="use-chart"' not in page(client, "?days=1")
    assert "By model" in page(client, "?days=nonsense&by=nonsense")


def test_nothing_is_said_as_that(client: Client) -> None:
    assert "No requests went through the gateway" in page(client)


def _serve(server: str, name: str) -> None:
    factories.run(factories.server(factories.box(), server), served_name=name)


@pytest.mark.asyncio
@pytest.mark.django_db(transaction=True)
async def test_the_file_has_a_line_a_day_and_runs_no_formula(own_redis: object) -> None:
    bob = await User.objects.acreate(username="bob", role=Role.OPERATOR)
    await sync_to_async(_serve)("coder-1", "qwen-3")
    made = [request(bob, model="=HYPERLINK()", prompt_tokens=3)]
    made += [request(bob, model="gpt-4o", server="", status=404)]
    await sync_to_async(Usage.objects.add)(made)
    client = AsyncClient()
    await client.aforce_login(bob)

    answer: Any = await client.get("/gateway/usage.csv?days=30")
    text = (await whole_of(answer)).decode()

    head, *lines = text.splitlines()
    assert head.startswith("day,model,requested as,server,key,person,requests,failed")
    assert lines[0].split(",")[1:6] == ["qwen-3", "'=HYPERLINK()", "coder-1", "", "bob"]
    assert lines[1].split(",")[1:6] == ["", "gpt-4o", "", "", "bob"]


def test_bars_stand_on_each_other_and_reach_the_top_at_most() -> None:
    days = {TODAY: (900, 100), TODAY - timedelta(days=2): (400, 0)}

    drawn = chart(days, TODAY - timedelta(days=6), TODAY)

    assert len(drawn.bars) == 7
    last = drawn.bars[-1]
    assert (last.day, last.is_labelled) == (TODAY, True)
    assert last.read_height == pytest.approx(9 * last.written_height)
    assert last.written_y + last.written_height == pytest.approx(last.read_y)
    assert last.read_y + last.read_height == pytest.approx(drawn.base)
    assert [line.tokens for line in drawn.lines] == [0, 500, 1000, 1500]
    assert drawn.bars[0].read_height == 0


def test_names_of_days_never_touch() -> None:
    for days in SPANS:
        drawn = chart({}, TODAY - timedelta(days=days - 1), TODAY)
        named = [bar.middle for bar in drawn.bars if bar.is_labelled]
        assert all(b - a >= LABEL for a, b in pairwise(named)), days


def test_a_time_without_tokens_has_no_scale() -> None:
    assert chart({}, TODAY, TODAY).lines == ()
