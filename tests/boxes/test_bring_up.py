"""A box of an older version that its hub brings up, and one that is added over ssh."""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from inferdash.service import release
from tests.boxes.other_machine import other_machine
from tests.boxes.rig import (
    JOIN,
    TOKEN,
    TwoBoxes,
    remove_database,
    two_boxes,
)
from tests.ports import free_port
from tests.terminal import TerminalProgram
from tests.waiting import wait_until

pytestmark = [pytest.mark.docker, pytest.mark.boxes]

ADD = [sys.executable, "-m", "inferdash.wire.add"]
MOVE = [sys.executable, "-m", "inferdash.wire.move"]
BRING_UP = """
from servers.lifecycle.links.upgrades import bring_up
bring_up(BoxLink.objects.get(), None)
"""
LAST = "list(BoxUpgrade.objects.values_list('step', 'said')[:1])"


def make_older(folder: Path) -> Path:
    """An inferdash that lacks the last migration, with the packages of this one."""
    release.copy(release.ROOT, folder)
    for name in (".venv", "node_modules"):
        (folder / name).symlink_to((release.ROOT / name).resolve())
    (folder / "VERSION").write_text("0.0.1\n")
    max((folder / "servers/migrations").glob("[0-9]*.py")).unlink()
    return folder


@pytest.fixture(scope="module")
def boxes(docker_host: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoBoxes]:
    root = make_older(tmp_path_factory.mktemp("older"))
    with two_boxes(docker_host, tmp_path_factory.mktemp("b"), box_root=root) as made:
        yield made
    shutil.rmtree(root)


def wait_for_end(boxes: TwoBoxes, step: str) -> str:
    wait_until(
        lambda: boxes.ask(LAST)[0][0] == step,  # type: ignore[index]
        lambda: f"it is {step}, not {boxes.ask(LAST)}: {boxes.box.up.said[-4000:]}",
        patience=boxes.box.up.patience,
    )
    return str(boxes.ask(LAST)[0][1])  # type: ignore[index]


@pytest.mark.takes(240)
def test_a_box_is_brought_up_or_comes_back(boxes: TwoBoxes, tmp_path: Path) -> None:
    """One test, as each of its steps begins where the last has ended."""
    assert re.search(r"make join TOKEN=ifj1_|no token for a further box yet", boxes.hub.up.said)
    version = "str(BoxLink.objects.get().version)"
    wait_until(lambda: boxes.ask(version) == "0.0.1", "the hub knows what the box has")
    here = str(boxes.ask("__import__('django.conf').conf.settings.VERSION"))

    # The new release does not start: the old one is back by itself.
    boxes.shell.run(BRING_UP)
    boxes.box.up.waits_for("trying inferdash-")
    [started] = psutil.Process(boxes.box.up.process.pid).children()
    started.kill()  # and with it all that it has started
    said = wait_for_end(boxes, "failed")
    assert "ended by itself with exit code -9" in said
    boxes.box.up.waits_for("The hub is newer than this box", times=2)
    assert boxes.ask(version) == "0.0.1"

    boxes.shell.run(BRING_UP)
    assert wait_for_end(boxes, "done") == ""
    boxes.box.up.waits_for("Watching milo")
    assert boxes.ask(version) == here
    # It stays, whatever lies in the folder where it was joined.
    boxes.box.end()
    boxes.box.start()
    boxes.box.up.waits_for("Watching milo")
    assert boxes.ask(version) == here
    assert "newer than this box" not in boxes.box.up.said
    check_adding_over_ssh(boxes, tmp_path)
    check_a_new_key(boxes)
    check_another_machine(boxes, tmp_path)


def check_a_new_key(boxes: TwoBoxes) -> None:
    """The old one ends where the new one is let in, and the box goes on as the same."""
    was = (boxes.box.files.key).read_text()
    boxes.box.end()
    token = boxes.shell.run(TOKEN).strip()
    more = boxes.box.environment | {"TOKEN": token, "NEW_KEY": "1"}
    boxes.box.up = joining = TerminalProgram(
        JOIN, more, patience=boxes.box.up.patience, folder=boxes.box.root
    )
    joining.waits_for("these words must be the same")
    boxes.shell.run(
        "from servers.lifecycle.links.decisions import let_in\n"
        "let_in(BoxLink.objects.select_waiting().get(), None, replaces=True)"
    )
    joining.waits_for("Watching milo")
    assert boxes.box.files.key.read_text() != was
    assert boxes.ask("BoxLink.objects.select_joined().filter(box__slug='milo').count()") == 1
    assert boxes.ask("Box.objects.filter(slug='milo').count()") == 1


def check_another_machine(boxes: TwoBoxes, folder: Path) -> None:
    """The hub on it, and the box told so: nobody joins anew."""
    file, hub = folder / "hub.move", boxes.hub
    hub.end()
    # What boxes reach on the hub's loopback is as it was.
    there = hub.environment | {
        "INFERDASH_DATA": str(folder / "moved"),
        "PORT": str(free_port()),
        "INFERDASH_HUB_PORT": str(free_port()),
    }
    for verb, environment in (("pack", hub.environment), ("unpack", there)):
        moving = TerminalProgram([*MOVE, verb, str(file)], environment, patience=hub.up.patience)
        assert moving.ends() == 0, moving.said
    assert file.stat().st_mode & 0o077 == 0
    remove_database(hub.data)
    hub.data, hub.environment = folder / "moved", there
    hub.start()
    hub.up.waits_for("ready at")
    boxes.box.end()
    told = TerminalProgram(
        [sys.executable, "manage.py", "hub_moved", f"127.0.0.1:{there['INFERDASH_HUB_PORT']}"],
        boxes.box.environment,
        folder=boxes.box.root,
    )
    assert told.ends() == 0, told.said
    boxes.box.start()
    boxes.box.up.waits_for("Watching milo")


def check_adding_over_ssh(boxes: TwoBoxes, folder: Path) -> None:
    """From the hub, by the ssh of whoever has one to the other machine."""
    place = folder / "otis"
    place.mkdir()
    (place / ".venv").symlink_to((release.ROOT / ".venv").resolve())
    kept = ("DOCKER_HOST", "INFERDASH_HUB", "LD_LIBRARY_PATH", "NVML_STANDIN")
    there = {name: boxes.box.environment[name] for name in kept}
    there |= {"PATH": os.environ["PATH"], "DATABASE_URL": "", "REDIS_URL": ""}
    with other_machine(folder / "ssh", there) as other:
        words = {
            "ADD_HOST": other.host, "ADD_SSH": other.ssh, "ADD_FOLDER": str(place),
            "ADD_NAME": "otis",
        }  # fmt: skip

        def add() -> TerminalProgram:
            return TerminalProgram(
                ADD, boxes.hub.environment | words, patience=boxes.box.up.patience
            )

        refused = add()
        refused.waits_for("otis on .* holds something else")
        assert refused.ends() == 1
        # As an earlier try leaves it, with packages.
        (place / "added-by-hub").touch()
        adding = add()
        try:
            adding.waits_for("otis is a box of this hub")
            assert adding.ends() == 0
            assert str(boxes.ask("BoxLink.objects.get(name='otis').words")) in adding.said
            again = add()
            again.waits_for("has joined a hub already")
            assert again.ends() == 1
        finally:
            if (place / "join.pid").exists():
                joined = psutil.Process(int((place / "join.pid").read_text()))
                joined.terminate()
                joined.wait(boxes.box.up.patience)
            print((place / "join.log").read_text())
