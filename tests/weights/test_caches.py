"""The box's Hugging Face cache on a box that has none yet: named, made by a start, never lost."""

from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from servers.host.files.box_files import BoxFiles, DiskRoom
from servers.lifecycle.profiles import path_reports
from servers.lifecycle.profiles.knowledge import LaunchContext
from servers.lifecycle.runs import creation
from servers.models import AuditEntry, Box
from servers.watcher import box_row
from tests import factories

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]


@pytest.fixture
def home(settings: Any, tmp_path: Path) -> Path:
    """Of a box where nothing was downloaded yet, with the limits that a new worker writes."""
    settings.HOME = str(tmp_path / "ada")
    settings.BOX_FILE = tmp_path / "box.toml"
    Path(settings.HOME).mkdir()
    return Path(settings.HOME)


def test_a_fresh_box_has_the_usual_cache_though_its_folder_is_not_there(home: Path) -> None:
    assert box_row.enrol().hf_cache == f"{home}/.cache/huggingface"
    assert not (home / ".cache").exists(), "a look makes nothing"


def test_an_older_row_without_one_gets_it_unless_an_admin_wanted_none(home: Path) -> None:
    box = box_row.enrol()
    Box.objects.update(hf_cache="")
    assert box_row.enrol().hf_cache

    Box.objects.update(hf_cache="")
    AuditEntry.note(None, "change box", box, hf_cache="none")
    assert box_row.enrol().hf_cache == ""


def test_none_is_named_where_box_toml_refuses_its_mount(home: Path, settings: Any) -> None:
    settings.BOX_FILE.write_text('mount_roots = ["/srv"]\n')

    assert box_row.enrol().hf_cache == ""


def test_none_is_named_where_it_can_neither_be_found_nor_made(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(_self: BoxFiles, path: PurePosixPath) -> DiskRoom:
        return DiskRoom(path=path, free=1, device=1, may_write=True, is_read_only=True)

    monkeypatch.setattr(BoxFiles, "room", read_only)
    assert box_row.enrol().hf_cache == ""

    (home / ".cache/huggingface").mkdir(parents=True)
    assert box_row.enrol().hf_cache == f"{home}/.cache/huggingface"


def test_a_start_makes_it_with_the_owner_of_what_is_above(home: Path, settings: Any) -> None:
    box = box_row.enrol()

    creation.make_cache(box)

    made = home / ".cache/huggingface"
    assert made.is_dir()
    assert made.stat().st_uid == home.stat().st_uid


def test_none_is_made_where_engines_may_have_nothing(home: Path, tmp_path: Path) -> None:
    box = box_row.enrol()
    box.hf_cache = f"{tmp_path}/elsewhere"

    creation.make_cache(box)

    assert not (tmp_path / "elsewhere").exists()


def test_the_form_says_that_a_start_makes_it(home: Path) -> None:
    box = box_row.enrol()
    server = factories.server(box, model="qwen3-8b")
    wanted = path_reports.list_needed_paths(server.launch, box)
    path_reports.answer(
        path_reports.question(box, wanted), [each.path for each in wanted],
        home=box.home, hf_cache=box.hf_cache,
    )  # fmt: skip

    (told,) = LaunchContext(server.launch, box).folders or []

    assert (told.lies, told.is_made) == ("missing", True)
