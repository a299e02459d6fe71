"""Ready, but: what a profile wants its log to say, and not to say."""

import pytest
from django.test import Client

from servers.forms.profile_fields import read_box
from servers.judge.logs import parsing as judge_patterns
from servers.launch.commandline.text_boxes import WordsError
from servers.lifecycle.runs import starts
from servers.models import LogChunk, Run, Server
from servers.models.runs.run import RunState
from servers.watcher.logs import follower as watcher_patterns
from servers.watcher.runs.runs import Runs
from tests import factories
from tests.scripted_engine import MODEL, ScriptedEngine

AT = "2026-11-21T08:00:00.000000001Z"


def write(run: Run, *lines: str, stream: str = "o") -> None:
    records = [f"{AT} {stream} {line}".encode() for line in lines]
    LogChunk.objects.append(run.pk, Run.objects.get(pk=run.pk).log.lines, records)


def searched(run: Run) -> Run:
    found = Run.objects.select_related("version", "server").get(pk=run.pk)
    watcher_patterns.search_patterns(found)
    return Run.objects.get(pk=run.pk)


def card(of: Server, path: str = "/") -> str:
    client = Client()
    client.force_login(factories.person())
    return " ".join(client.get(path).content.decode().split())


def test_texts_are_found_whatever_their_case_and_colour() -> None:
    lines = [(7, "\x1b[32mCapture CUDA graph \x1b[0mend"), (8, "capture cuda graph end")]

    assert judge_patterns.search_patterns(lines, {"Capture cuda graph end", "OOM"}) == {
        "Capture cuda graph end": 7
    }


def test_a_text_is_no_pattern() -> None:
    """Patterns can take for ever."""
    lines = [(1, "a" * 200_000), (2, "it said (A+)+$ and no more")]

    assert judge_patterns.search_patterns(lines, {"(a+)+$"}) == {"(a+)+$": 2}


@pytest.mark.parametrize("text", ["x" * 201, "\n".join(map(str, range(21))), "a\x07b"])
def test_the_form_bounds_the_texts(text: str) -> None:
    with pytest.raises(WordsError):
        read_box("patterns", text)


@pytest.mark.django_db(transaction=True)
def test_a_ready_run_whose_log_lacks_a_text_is_ready_but(own_redis: object) -> None:
    box = factories.box()
    wanted = ("Graph end", "KV cache")
    on = factories.server(box, engine="vllm", log_must=wanted, log_must_not=("falling back",))
    run = factories.run(on, RunState.STARTING)
    write(run, "graph END", "Falling back to eager")
    with ScriptedEngine() as engine:
        at = {"address": "127.0.0.1", "port": engine.port, "served_name": MODEL}
        Run.objects.filter(pk=run.pk).update(**at)
        Runs(box).tick()

    run.refresh_from_db()
    assert run.state == RunState.READY, "nothing is stopped for it"
    said = card(on)
    assert "Ready, but its log says “falling back”, in" in said
    link = f'<a href="/servers/{on.slug}/log/#L2">line 2</a>'
    assert link in said
    assert "Ready, but its log does not say “KV cache”" in said
    assert "Graph end" not in said
    assert link in card(on, f"/servers/{on.slug}/")


@pytest.mark.django_db(transaction=True)
def test_lines_that_come_later_count_and_none_is_read_twice(own_redis: object) -> None:
    box = factories.box()
    on = factories.server(box, log_must=("KV cache",), log_must_not=("OOM",))
    run: Run = factories.run(on)
    write(run, "one", "two")
    run = searched(run)
    assert [each.text for each in starts.find_log_remarks(run)] == ["KV cache"]
    assert run.log.searched == 2

    write(run, "KV cache size: 5", "oom at last")
    run = searched(run)

    assert [(each.text, each.line) for each in starts.find_log_remarks(run)] == [("OOM", 4)]
    assert run.log.searched == 4


@pytest.mark.django_db(transaction=True)
def test_what_inferdash_notes_in_a_log_is_not_the_engines(own_redis: object) -> None:
    run = factories.run(factories.server(factories.box(), log_must_not=("missing",)))
    write(run, "… lines may be missing here", stream="i")

    assert starts.find_log_remarks(searched(run)) == ()


@pytest.mark.django_db(transaction=True)
def test_while_it_starts_nothing_is_missing_yet(own_redis: object) -> None:
    on = factories.server(factories.box(), log_must=("KV cache",), log_must_not=("OOM",))
    run = factories.run(on, RunState.STARTING)
    write(run, "OOM")

    searched(run)

    said = card(on)
    assert "Its log says “OOM”" in said
    assert "KV cache”" not in said
