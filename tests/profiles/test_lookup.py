from pathlib import Path

import pytest

from servers.host.files import lookup
from servers.host.files.lookup import PathLookup, look
from tests.box_files import anywhere


@pytest.fixture
def box(tmp_path: Path) -> Path:
    for folder in ("models/GLM-5-FP8", "home/ada/weights/MiniMax-M2", "home/ada/.trash/GLM-5-FP8"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "models" / "latest").symlink_to("/models/GLM-5-FP8")
    return tmp_path


ROOTS = ("/models", "/home/ada")


def test_what_is_there_is_not_searched_for(box: Path) -> None:
    assert look("/models/GLM-5-FP8", ROOTS, anywhere(box)) == PathLookup(lies="there")
    assert look("/models/latest", ROOTS, anywhere(box)) == PathLookup(lies="there")


def test_a_missing_name_is_found_elsewhere_in_whatever_case(box: Path) -> None:
    assert look("/data/minimax-m2", ROOTS, anywhere(box)) == PathLookup(
        lies="missing", elsewhere=("/home/ada/weights/MiniMax-M2",)
    )


def test_hidden_folders_and_other_roots_are_left_alone(box: Path) -> None:
    assert look("/data/GLM-5-FP8", ROOTS, anywhere(box)).elsewhere == ("/models/GLM-5-FP8",)
    assert look("/data/GLM-5-FP8", ("/home/ada",), anywhere(box)).elsewhere == ()


def test_a_root_that_is_not_there_is_passed_over(box: Path) -> None:
    assert look("/data/GLM-5-FP8", ("/srv", *ROOTS), anywhere(box)).elsewhere == (
        "/models/GLM-5-FP8",
    )


def test_a_search_has_an_end(box: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "MOST_ENTRIES", 1)

    assert look("/data/MiniMax-M2", ROOTS, anywhere(box)) == PathLookup(lies="missing")
    assert look("/data/GLM-5-FP8", ROOTS, anywhere(box), seconds=0) == PathLookup(lies="missing")


def test_nothing_below_a_link_is_searched_twice(box: Path) -> None:
    (box / "models" / "again").symlink_to(box / "models")

    assert look("/x/GLM-5-FP8", ("/models",), anywhere(box)).elsewhere == ("/models/GLM-5-FP8",)
