"""GPUs chosen by name or compute capability, against the cards of a box."""

from typing import Any

import pytest

from servers import lifecycle
from servers.judge.profiles.facts import Subject
from servers.judge.profiles.facts import TargetGpu as Card
from servers.judge.profiles.lint import lint
from servers.launch.commandline import export, text_boxes
from servers.launch.engines import placement
from servers.launch.engines.launch import Launch
from servers.launch.engines.placement import CardsError, Gpu
from servers.lifecycle.profiles.knowledge import LaunchContext
from servers.lifecycle.runs.creation import settle_gpus
from servers.models import Box
from servers.models.runs.run import RunState
from tests import factories

PRO: Gpu = ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "12.0")
GB300: Gpu = ("NVIDIA GB300", "10.3")
STATION = [(0, PRO), (1, GB300), (2, PRO)]


def chosen(text: str, **values: Any) -> tuple[int, ...]:
    wanted = placement.parse_gpu_requirement(text)
    assert wanted is not None
    return placement.choose_gpus(wanted, STATION, **values)


def test_cards_are_chosen_by_name_and_by_compute_capability() -> None:
    assert chosen("1x GB300") == (1,)
    assert chosen("1x sm_103") == (1,)
    assert chosen("2x RTX PRO 6000") == (0, 2)


def test_cards_that_nothing_uses_come_first() -> None:
    assert chosen("1x RTX PRO 6000", busy={0}) == (2,)
    assert chosen("2x RTX PRO 6000", busy={0}) == (0, 2)


def test_too_few_cards_are_told_with_their_number() -> None:
    with pytest.raises(CardsError, match="wants 4x RTX PRO 6000; this box has 2"):
        chosen("4x RTX PRO 6000")
    with pytest.raises(CardsError, match="this box has 2x RTX PRO 6000 .*, 1x GB300"):
        chosen("1x H200")


def test_the_form_reads_which_gpus() -> None:
    assert text_boxes.gpus(" 2 ×  RTX PRO 6000") == "2x RTX PRO 6000"


def test_docker_run_says_the_number_and_what_was_meant() -> None:
    launch = Launch(engine="vllm", image="i:1", checkpoint="a/b", gpus="2x RTX PRO 6000")

    text = export.docker_run(launch)

    assert "# --gpus: 2x RTX PRO 6000" in text
    assert "--gpus 2" in text


def test_a_box_without_such_cards_is_told_before_the_start() -> None:
    launch = Launch(engine="vllm", image="i:1", checkpoint="a/b", gpus="2x RTX PRO 6000")
    one = Card(index=0, name=PRO[0], compute_capability=PRO[1], memory=1)

    found = lint(Subject(launch=launch, gpus=(one,)))

    assert [each.says for each in found if each.rule == "gpu-not-there"] == [
        "The profile wants 2x RTX PRO 6000; this box has 1. Change the profile's GPUs, or start "
        "it on another box."
    ]


@pytest.fixture
def box() -> Box:
    """A box with four cards, as its watcher has found it."""
    parts = {"name": PRO[0], "compute_capability": PRO[1], "total": 1, "kind": "discrete"}
    return factories.box(facts={"gpus": [{"index": index, **parts} for index in range(4)]})


@pytest.mark.django_db
def test_a_start_takes_cards_that_no_other_server_uses(box: Box) -> None:
    factories.run(factories.server(box, "by-index", gpus="0"))
    first = factories.run(factories.server(box, "first", gpus="1x sm_120"), RunState.CREATING)
    second = factories.run(
        factories.server(box, "second", gpus="2x RTX PRO 6000"), RunState.CREATING
    )

    assert settle_gpus(first) == "1"
    assert settle_gpus(second) == "2,3"
    assert settle_gpus(first) == "1", "asked again, it is the same"


@pytest.mark.django_db
def test_a_box_that_has_not_told_its_cards_is_no_empty_box() -> None:
    run = factories.run(factories.server(factories.box(), gpus="1x H200"), RunState.CREATING)

    with pytest.raises(CardsError, match="has not reported its GPUs yet"):
        settle_gpus(run)


@pytest.mark.django_db
def test_the_preview_names_the_cards_that_a_start_would_take(box: Box) -> None:
    factories.run(factories.server(box, "busy", gpus="0"))
    launch = factories.server(box, gpus="1x RTX PRO 6000").profile.launch

    assert "device=1" in lifecycle.preview(LaunchContext(launch, box)).command
    many = Launch(engine="vllm", image="i", checkpoint="c", gpus="8x RTX PRO 6000")
    assert "this box has 4" in lifecycle.preview(LaunchContext(many, box)).problem
