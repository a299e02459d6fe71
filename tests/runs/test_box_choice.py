"""A start on any box that fits: which one it is, and what is said of the others."""

from datetime import timedelta

import pytest
from django.utils import timezone

from servers.judge.runs.box_choice import BoxCandidate, choose_box
from servers.lifecycle.runs.box_choice import BoxChoiceError, find_box, start_anywhere
from servers.models import AuditEntry, Box, Role, Server
from servers.models.runs.run import RunState
from tests import factories, samples
from tests.api.conftest import with_key
from tests.cases import table

GIB = 2**30


def now(box: str, **values: object) -> BoxCandidate:
    return BoxCandidate(**{"box": box, "when": "now", "fits": "fits", **values})  # type: ignore[arg-type]


@table(
    ("candidates", "chosen"),
    [
        ([now("b"), now("a")], "a"),
        ([now("a", spare=GIB), now("b", spare=9 * GIB)], "b"),
        ([now("a", has_model=False, spare=9 * GIB), now("b")], "b"),
        ([now("a", fits="tight"), now("b", has_model=False)], "b"),
        ([now("a", fits="unknown"), now("b", fits="tight")], "b"),
        ([now("a", when="later", waiting=1), now("b", fits="tight")], "b"),
        ([now("a", when="later", waiting=2), now("b", when="later", waiting=1)], "b"),
        ([now("a", when="never"), now("b", when="later", waiting=7)], "b"),
        ([now("a", when="never")], None),
        ([], None),
    ],
)
def test_the_best_box_is_the_one_that_fits_now_then_the_shortest_queue(
    candidates: list[BoxCandidate], chosen: str | None
) -> None:
    found = choose_box(candidates).chosen

    assert (found and found.box) == chosen


def prepare_boxes() -> tuple[Server, Box]:
    """A server of rtx8, whose card is in use by another; and orchid, which is free."""
    boxes = [factories.box(name, gpus=1) for name in ("rtx8", "orchid", "poplar")]
    rtx8, orchid, poplar = boxes
    Box.objects.filter(pk=poplar.pk).update(seen_at=timezone.now() - timedelta(hours=1))
    mine = factories.server(rtx8, "qwen3-8b", gpus="0")
    other = factories.run(factories.server(rtx8, "glm-5", gpus="0"), container_id="c1")
    assert other.state == RunState.READY
    for box, held in ((rtx8, [(7, 80.0)]), (orchid, [])):
        holders = [samples.process(7, "c1")] if held else []
        factories.tell(box, samples.sample([samples.card(0, held)], holders))
    return mine, orchid


def test_it_starts_on_a_free_box_and_says_why_in_its_log_and_audit(
    db: None, own_redis: object
) -> None:
    mine, orchid = prepare_boxes()
    editor = factories.person("ed", Role.EDITOR)

    run = start_anywhere(mine.profile, by=editor)

    assert run.server.box == orchid
    assert run.server != mine, "a server of one box stays there with its past"
    said = run.start.around["placed"]
    assert said.startswith("Started on orchid, which has room for it now.")
    assert "poplar is away" in said
    assert "rtx8 is used by glm-5" in said
    assert AuditEntry.objects.get(action="start").detail["placed"] == said
    assert not run.waits


def test_an_operator_starts_only_where_the_profile_has_a_server(
    db: None, own_redis: object
) -> None:
    mine, _orchid = prepare_boxes()
    operator = factories.person("ola", Role.OPERATOR)

    run = start_anywhere(mine.profile, by=operator)

    assert run.server == mine
    assert run.waits, "its card is in use"
    assert "only an editor may add one" in run.start.around["placed"]
    with pytest.raises(BoxChoiceError, match="rtx8 runs it already"):
        start_anywhere(mine.profile, by=operator)
    assert find_box(mine.profile, by=operator).chosen is None


def test_programs_start_it_anywhere_too(db: None, own_redis: object) -> None:
    mine, _orchid = prepare_boxes()
    client = with_key(factories.person("ed", Role.EDITOR), Role.EDITOR)
    at = f"/api/v1/profiles/{mine.profile.slug}/start"

    said = client.post(at).json()

    assert said["box"] == "orchid"
    assert said["placed"].startswith("Started on orchid")
    client.post(at)
    again = client.post(at)
    assert again.status_code == 409
    assert again.json()["error"]["code"] == "fits_nowhere"
