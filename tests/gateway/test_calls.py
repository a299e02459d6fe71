"""What is read out of answers while they pass, and how long it is kept."""

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from servers.gateway import calls
from servers.gateway.calls import TAIL, Call
from servers.models import LegacyPort, Request, Usage
from tests import factories
from tests.cases import table


def counts(*pieces: bytes) -> dict[str, int]:
    call = Call(path="/v1/chat/completions", began=0.0)
    for piece in pieces:
        call.add_piece(piece)
    return call.counts


def event(data: object) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def test_a_stream_says_it_in_its_last_event() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
    usage["prompt_tokens_details"] = {"cached_tokens": 8}  # type: ignore[assignment]
    said = [event({"choices": [{"delta": {"content": "x"}}], "usage": None})] * 500
    said += [event({"choices": [], "usage": usage}), b"data: [DONE]\n\n"]

    assert counts(*said) == {"prompt_tokens": 9, "completion_tokens": 4, "cached_tokens": 8}


def test_llama_cpp_says_it_as_timings() -> None:
    timings = {"cache_n": 236, "prompt_n": 4, "predicted_n": 35, "predicted_ms": 661.0}
    end = {"choices": [{"delta": {}, "finish_reason": "stop"}], "timings": timings}

    assert counts(event(end), b"data: [DONE]\n\n") == {
        "prompt_tokens": 240, "completion_tokens": 35, "cached_tokens": 236,
    }  # fmt: skip


def test_an_answer_in_one_piece_says_it_at_its_end() -> None:
    said = json.dumps({"choices": ["x" * TAIL], "usage": {"prompt_tokens": 3, "total_tokens": 3}})

    assert counts(said.encode()) == {"prompt_tokens": 3}


def test_anthropics_streams_say_it_at_both_ends() -> None:
    start = {
        "type": "message_start",
        "message": {"usage": {"input_tokens": 25, "output_tokens": 1}},
    }
    delta = {"type": "content_block_delta", "delta": {"text": "x" * 100}}
    end = {"type": "message_delta", "usage": {"output_tokens": 15}}

    assert counts(event(start), *[event(delta)] * 300, event(end)) == {
        "prompt_tokens": 25, "completion_tokens": 15,
    }  # fmt: skip


@table(
    "said",
    [
        b"",
        b'data: {"choices": [{"delta": {"content": "\\"usage\\": {\\"prompt_tokens\\": 5}"}}]}\n\n',
        b'{"usage": null}',
        b'{"usage": {"prompt_tokens": "many"}}',
        b'{"usage": {"prompt_tok',
        b'{"timings": {"prompt_n": -1, "predicted_n": 3}}',
        b'{"timings": {"prompt_n": 5}}',
        b'\xff"usage"',
    ],
)
def test_what_is_not_said_is_not_made_up(said: bytes) -> None:
    assert counts(said) == {}


@pytest.mark.django_db
def test_requests_are_forgotten_after_a_month() -> None:
    now = timezone.now()
    for days in (0, 29, 31):
        Request.objects.create(at=now - timedelta(days=days), path="/v1/x", status=200, duration=1)

    Request.objects.forget_old()

    assert Request.objects.count() == 2


@pytest.mark.django_db
@pytest.mark.parametrize("model", ["a\ud800b", "a\0b", "x" * 500])
def test_a_name_that_no_database_keeps_loses_no_others_request(model: str, own_redis: None) -> None:
    strange = Call(path="/v1/\udc80", began=0.0, model=model)
    strange.fail(404, f"No server answers to “{model}”.")

    calls._write([calls._row(strange), calls._row(Call(path="/v1/x", began=0.0, model="coder"))])

    kept = set(Request.objects.values_list("model", flat=True))
    assert "coder" in kept
    assert len(kept) == 2
    assert not any("\0" in name for name in kept)


@pytest.mark.django_db(transaction=True)
def test_a_port_that_is_closed_meanwhile_loses_no_others_request(own_redis: None) -> None:
    ada = factories.person()
    port = LegacyPort.objects.create(box=factories.box(), port=8001, made_by=ada)
    by_port, other = (Call(path="/v1/x", began=0.0, model=name) for name in ("by port", "coder"))
    by_port.came_by(port.pk, "192.168.1.7")
    by_port.person = other.person = ada.pk
    port.delete()

    calls._write([calls._row(by_port), calls._row(other)])

    kept = {each.model: each for each in Request.objects.all()}
    assert set(kept) == {"by port", "coder"}
    assert (kept["by port"].old_port, kept["by port"].source) == (None, "192.168.1.7")
    assert kept["coder"].person == ada
    assert Usage.objects.count() == 2


@pytest.mark.parametrize("count", [-1, 10**30, True, 1.5, "7"])
def test_a_count_that_is_none_is_not_kept(count: object) -> None:
    assert counts(json.dumps({"usage": {"prompt_tokens": count}}).encode()) == {}
