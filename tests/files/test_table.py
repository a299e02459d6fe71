"""Everything that reads or writes below mount roots, against everything that may lie there."""

import json
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from servers.host.files import box_files, lookup
from servers.host.files.box_files import BoxFiles, RefusedFileError
from servers.host.files.lookup import DigestError
from servers.host.weights import checkpoints, deletion, stored
from servers.host.weights.deletion import DiscardError
from servers.host.weights.inventory import Inventory
from tests.box_files import on_box
from tests.cases import Cases
from tests.files import hostile
from tests.files.hostile import COMMIT, NOBODY, SECRET, going_on, promptly, put, state_of

OWN = "0" * 40  # the commit that is there
HUB = "mnt/hub/models--org--model"
SNAPSHOT = f"{HUB}/snapshots/{OWN}"

# Places that are taken at once: none of them hides another.
PLACES = (
    [
        *("mnt/plain/README.md", "mnt/plain/run.sh", "mnt/plain/compose.yml"),
        *("mnt/plain/config.json", "mnt/plain/model.safetensors.index.json", "mnt/plain/.cache"),
        *("mnt/plain/model.safetensors", "mnt/plain/x-Q4_K_M.gguf", "mnt/plain/chat.jinja"),
        *("mnt/plain/original/deep.txt", "mnt/hub/.locks", f"{HUB}/refs/dev"),
        *(f"{SNAPSHOT}/{name}" for name in ("README.md", "config.json", "Q4_K_M.gguf")),
    ],
    [
        *(f"{SNAPSHOT}/model.safetensors.index.json", f"{SNAPSHOT}/model.safetensors"),
        *(f"{HUB}/refs/main", "mnt/plain/original"),
    ],
    [f"{HUB}/blobs/{name}" for name in ("readme", "config", "Q4_K_M.gguf", "x.incomplete")],
    [f"{HUB}/refs", "mnt/plain"],
    *([f"{HUB}/{name}"] for name in ("snapshots", "blobs")),
    *([HUB], [SNAPSHOT]),
)


def made(top: Path) -> BoxFiles:
    """A box with a model in a folder and one in a cache, as nobody has touched them."""
    plain = top / "mnt/plain"
    (plain / "original").mkdir(parents=True)
    (plain / ".cache/huggingface/download").mkdir(parents=True)
    (plain / "README.md").write_text("read me")
    (plain / "run.sh").write_text("vllm serve .")
    (plain / "compose.yml").write_text("services: {}")
    (plain / "config.json").write_text('{"architectures": ["Plain"]}')
    (plain / "chat.jinja").write_text("{{ messages }}")
    (plain / "original/deep.txt").write_text("deep")
    header = b'{"a":{"data_offsets":[0,8]}}'
    weights = struct.pack("<Q", len(header)) + header + bytes(8)
    (plain / "model.safetensors").write_bytes(weights)
    (plain / "x-Q4_K_M.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 0))
    index = json.dumps({"weight_map": {"a": "model.safetensors"}, "metadata": {"total_size": 44}})
    (plain / "model.safetensors.index.json").write_text(index)
    blobs, snapshot = top / HUB / "blobs", top / SNAPSHOT
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    (top / HUB / "refs").mkdir()
    (top / HUB / "refs/main").write_text(OWN)
    (top / "mnt/hub/.locks/models--org--model").mkdir(parents=True)
    content = {
        "README.md": b"read me, too", "config.json": b'{"architectures": ["Cached"]}',
        "model.safetensors.index.json": index.encode(), "model.safetensors": weights,
        "Q4_K_M.gguf": b"GGUF" + struct.pack("<IQQ", 3, 0, 0),
    }  # fmt: skip
    for name, said in content.items():
        kept = name.partition(".")[0].lower() if name.endswith((".md", "config.json")) else name
        (blobs / kept).write_bytes(said)
        (snapshot / name).symlink_to(f"../../blobs/{kept}")
    return BoxFiles(below=(on_box(top / "mnt"),))


def everything(top: Path, files: BoxFiles) -> list[Any]:
    """What every function that reads there says."""
    hub, plain, snapshot = (
        on_box(top / "mnt/hub"),
        on_box(top / "mnt/plain"),
        on_box(top / SNAPSHOT),
    )
    named = f"{'x' * 9}/x-Q4_K_M.gguf"
    return [
        Inventory().look(str(top / "mnt"), files),
        checkpoints.look(plain, files),
        checkpoints.look(plain / "model.safetensors", files),
        checkpoints.look(plain / "x-Q4_K_M.gguf", files),
        checkpoints.look(snapshot, files),
        checkpoints.look_for_gguf(snapshot, "Q4_K_M", files),
        checkpoints.index_of(plain, files),
        [checkpoints.commit_of(hub, "org/model", files, each) for each in ("", "dev", OWN)],
        checkpoints.read_cache_size(hub, "org/model", files),
        checkpoints.sum_cache_sizes(hub, "org/model", files),
        lookup.look(f"{top}/mnt/gone/{named}", [str(top / "mnt")], files),
        *(_tried(partial(lookup.sha256, plain / each, files)) for each in ("chat.jinja", "original")),
        *(_tried(partial(deletion.plan, str(each), files)) for each in (plain, snapshot)),
        *(_tried(partial(files.room, each)) for each in (plain, snapshot)),
    ]  # fmt: skip


def _tried(do: Callable[[], Any]) -> Any:
    try:
        return do()
    except (DigestError, DiscardError, RefusedFileError, OSError) as error:
        return str(error)


def test_what_is_as_it_should_be_is_read(tmp_path: Path) -> None:
    """So that the tables below see it when something is read."""
    files = made(tmp_path)
    said = repr(promptly(lambda: everything(tmp_path, files)))
    for each in ("read me", "read me, too", "vllm serve .", "services", "Plain", "Cached", OWN):
        assert each in said
    found = {each.path: each for each in Inventory().look(str(tmp_path / "mnt"), files).found}
    assert [each.state for each in found.values()] == ["complete"] * 4
    assert [each.unread for each in found.values()] == [{}] * 4


@pytest.mark.takes(90)
def test_nothing_outside_is_read_and_nobody_waits(tmp_path: Path) -> None:
    with Cases() as cases:
        for at, places in enumerate(PLACES):
            for number, name in enumerate(hostile.FILES):
                top = tmp_path / f"{at}-{number}"
                files = made(top)
                victims = hostile.victim(top / "var")
                with cases.named(f"{', '.join(places)}: {name}"):
                    for place in places:
                        _clear(top / place)
                        put(name, top / place, victims)
                    before = state_of(victims)
                    said = repr(promptly(partial(everything, top, files)))
                    assert SECRET not in said
                    assert COMMIT not in said
                    _discarded(top, files)
                    assert state_of(victims) == before


def _clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        for each in path.iterdir():
            _clear(each)
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


def _discarded(top: Path, files: BoxFiles) -> None:
    """Deleted, where it is a model still."""
    for each in (top / "mnt/plain", top / SNAPSHOT):
        with suppress(DiscardError):
            plan = promptly(partial(deletion.plan, str(each), files))
            promptly(partial(deletion.carry_out, plan, files))


WRITES: dict[str, Callable[[BoxFiles, PurePosixPath], Any]] = {
    "write": lambda files, path: files.write(path, b"x"),
    "link": lambda files, path: files.link(path, "x"),
    "append_to": lambda files, path: os.close(files.append_to(path)),
    "append_to and write": lambda files, path: _appended(files, path),
    "make_folder": lambda files, path: files.make_folder(path),
    "write below": lambda files, path: files.write(path / "secret", b"x"),
    "link below": lambda files, path: files.link(path / "secret", "x"),
    "append_to below": lambda files, path: _appended(files, path / "secret"),
    "make_folder below": lambda files, path: files.make_folder(path / "a/b"),
    "remove": lambda files, path: files.remove(path),
    "remove below": lambda files, path: files.remove(path / "secret"),
    "remove_tree": lambda files, path: files.remove_tree(path),
    "remove_tree below": lambda files, path: files.remove_tree(path / "secret"),
    "move": lambda files, path: files.move(path.parent / "other", path),
    "move from": lambda files, path: files.move(path / "secret", path.parent / "taken"),
}


def _appended(files: BoxFiles, path: PurePosixPath) -> None:
    with os.fdopen(files.append_to(path), "r+b") as opened:
        opened.write(b"written over")
        opened.truncate()


def test_nothing_outside_is_written(tmp_path: Path) -> None:
    with Cases() as cases:
        for at, (what, write) in enumerate(WRITES.items()):
            for number, name in enumerate(hostile.FILES):
                top = tmp_path / f"{at}-{number}"
                victims = hostile.victim(top / "var")
                (top / "mnt").mkdir()
                (top / "mnt/other").write_text("mine")
                files = BoxFiles(below=(on_box(top / "mnt"),))
                with cases.named(f"{what} where {name} is"):
                    put(name, top / "mnt/it", victims)
                    before = state_of(victims)
                    # A second name that goes, or is replaced, changes nothing of the file.
                    with suppress(OSError):
                        promptly(partial(write, files, on_box(top / "mnt/it")))
                    assert state_of(victims) == before


def test_what_is_written_is_there(tmp_path: Path) -> None:
    """The same as above with nothing in the way, so that it is not all refused."""
    files = BoxFiles(below=(on_box(tmp_path / "mnt"),))
    here = on_box(tmp_path / "mnt/new")
    files.make_folder(here)
    files.write(here / "a", b"one")
    files.write(here / "a", b"two")
    files.link(here / "b", "a")
    _appended(files, here / "c")
    files.move(here / "c", here / "d")
    assert (Path(here) / "a").read_bytes() == (Path(here) / "b").read_bytes() == b"two"
    assert [each.name for each in sorted(Path(here).iterdir())] == ["a", "b", "d"]
    files.remove(here / "b")
    files.remove_tree(here)
    assert not Path(here).exists()


def test_paths_that_are_none_of_ours_are_refused(tmp_path: Path) -> None:
    """Whatever a row, an index or the Hub says."""
    victims = hostile.victim(tmp_path / "var")
    (tmp_path / "mnt/own").mkdir(parents=True)
    (tmp_path / "mnt/own/key").write_text(SECRET)
    (tmp_path / "mnt/key").symlink_to("own/key")
    files = BoxFiles(below=(on_box(tmp_path / "mnt"),), own=(on_box(tmp_path / "mnt/own"),))
    before = state_of(victims)
    reads: list[Callable[[PurePosixPath], Any]] = [
        lambda path: files.read(path, 1000), lambda path: files.entries(path.parent),
        files.target, lambda path: files.write(path, b""), files.append_to, files.remove,
    ]  # fmt: skip
    with Cases() as cases:
        for text in (
            *("var/secret", "mnt/../var/secret", "mnt/x/../../var/secret", "mnt/own/key"),
            *("mnt-beside/x", "mnt/own/../../var/x"),
        ):
            for number, do in enumerate(reads):
                with cases.named(f"{text} {number}"), pytest.raises(RefusedFileError):
                    do(on_box(tmp_path) / text)
        with cases.named("a link to our own"), pytest.raises(RefusedFileError):
            files.read(on_box(tmp_path / "mnt/key"), 1000)
        with cases.named("no absolute path"), pytest.raises(RefusedFileError):
            files.read(PurePosixPath("mnt/x"), 1000)
    assert state_of(victims) == before


def test_weights_and_configs_may_be_links_to_where_profiles_may_mount(tmp_path: Path) -> None:
    """A disk for weights, and folders with links to it: as people do."""
    files = made(tmp_path)
    store = tmp_path / "mnt/store"
    store.mkdir()
    plain = tmp_path / "mnt/plain"
    for name in ("model.safetensors", "config.json", "README.md"):
        (plain / name).rename(store / name)
        (plain / name).symlink_to(f"../store/{name}")
    found = {each.path: each for each in Inventory().look(str(tmp_path / "mnt"), files).found}
    one = next(each for path, each in found.items() if path == str(plain))
    assert (one.state, one.config) == ("complete", {"architectures": ["Plain"]})
    assert one.unread == {"README.md": "a link; not read"}
    assert "README.md" not in one.texts


def test_repositories_of_a_cache_may_share_their_blobs(tmp_path: Path) -> None:
    files = made(tmp_path)
    shared = tmp_path / "mnt/hub/blobs"
    shared.mkdir()
    for each in (tmp_path / HUB / "blobs").iterdir():
        each.rename(shared / each.name)
        each.symlink_to(f"../../blobs/{each.name}")
    said = checkpoints.look(on_box(tmp_path / SNAPSHOT), files)
    assert said is not None
    assert said.config == {"architectures": ["Cached"]}
    # Another repository's are not: whoever may write in one need not be able to read the other.
    other = tmp_path / "mnt/hub/models--org--other/blobs"
    other.mkdir(parents=True)
    (other / "config").write_text('{"architectures": ["Other"]}')
    link = tmp_path / SNAPSHOT / "config.json"
    link.unlink()
    link.symlink_to("../../../models--org--other/blobs/config")
    said = checkpoints.look(on_box(tmp_path / SNAPSHOT), files)
    assert said is not None
    assert said.config is None


def test_what_is_replaced_between_look_and_open_leads_nowhere(tmp_path: Path) -> None:
    """Somebody changes a file for a link, and a folder for a link, as fast as they can."""
    files = made(tmp_path)
    victims = hostile.victim(tmp_path / "var")
    plain = tmp_path / "mnt/plain"
    (plain / "honest").write_text("honest")
    (tmp_path / "mnt/folder").mkdir()
    (tmp_path / "mnt/folder/secret").write_text("honest")
    before = state_of(victims)

    def swap() -> None:
        with suppress(OSError):
            (plain / "draft").symlink_to(victims / "secret")
            (plain / "draft").replace(plain / "README.md")
            (tmp_path / "mnt/folder").rename(tmp_path / "mnt/aside")
            (tmp_path / "mnt/folder").symlink_to(victims)
        with suppress(OSError):
            os.link(plain / "honest", plain / "draft")
            (plain / "draft").replace(plain / "README.md")
            (tmp_path / "mnt/folder").unlink()
            (tmp_path / "mnt/aside").rename(tmp_path / "mnt/folder")

    said: set[bytes | str] = set()
    readme, inside = on_box(plain / "README.md"), on_box(tmp_path / "mnt/folder/secret")
    with going_on(swap):
        for _ in range(600):
            for path in (readme, inside):
                try:
                    said.add(files.read(path, 1000, is_text=True))
                except OSError as error:
                    said.add(type(error).__name__)
            with suppress(OSError):
                files.write(on_box(tmp_path / "mnt/folder/note"), b"x")
            with suppress(OSError):
                os.close(files.append_to(inside))
    assert b"honest" in said, said
    assert "RefusedFileError" in said, said
    assert not [each for each in said if SECRET in str(each)]
    assert state_of(victims) == before


@contextmanager
def nobody() -> Iterator[None]:
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_what_may_not_be_read_is_said(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for each in tmp_path.parents:
        if each.owner() == "root" and not each.stat().st_mode & 1:
            each.chmod(each.stat().st_mode | 0o011)
    files = made(tmp_path)
    for name in ("README.md", "config.json", "model.safetensors"):
        (tmp_path / "mnt/plain" / name).chmod(0)
    with nobody():
        found = Inventory().look(str(tmp_path / "mnt"), files).found
    one = next(each for each in found if each.path.endswith("/plain"))
    assert one.unread["README.md"] == "cannot be read: Permission denied"
    assert one.because == "model.safetensors may not be read by inferdash"
    assert one.config is None


def test_more_than_is_looked_at_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = made(tmp_path)
    for number in range(9):
        (tmp_path / "mnt/plain" / f"{number}.txt").write_text("x")
    with monkeypatch.context() as patch:
        patch.setattr(box_files, "MOST_ENTRIES", 5)
        assert Inventory().look(str(tmp_path / "mnt"), files).is_cut
    assert not Inventory().look(str(tmp_path / "mnt"), files).is_cut
    monkeypatch.setattr(stored, "MOST_BELOW", 3)
    found = {each.path: each for each in Inventory().look(str(tmp_path / "mnt"), files).found}
    assert found[str(tmp_path / SNAPSHOT)].because == "it holds more than 3 files; not read"
    monkeypatch.setattr(deletion, "MOST_ENTRIES", 3)
    with pytest.raises(DiscardError, match="holds more than 3 files, which is no model"):
        deletion.plan(str(tmp_path / "mnt/plain"), files)


def test_names_that_are_no_text_or_hold_a_line_feed_hide_nothing(tmp_path: Path) -> None:
    files = made(tmp_path)
    plain = tmp_path / "mnt/plain"
    (plain / os.fsdecode(b"README\xff.md")).write_text("no text")
    (plain / "README\n<b>.md").write_text("a line feed")
    (plain / os.fsdecode(b"part\xfe")).mkdir()
    found = {each.path: each for each in Inventory().look(str(tmp_path / "mnt"), files).found}
    texts = found[str(plain)].texts
    assert texts["README\N{REPLACEMENT CHARACTER}<b>.md"] == "a line feed"
    assert "no text" not in texts.values()


def test_branches_that_are_not_read_are_said(tmp_path: Path) -> None:
    files = made(tmp_path)
    (tmp_path / HUB / "refs/dev").symlink_to("/etc/hostname")
    (tmp_path / HUB / "refs/long").write_text("0" * 101)
    found = {each.path: each for each in Inventory().look(str(tmp_path / "mnt"), files).found}
    one = found[str(tmp_path / SNAPSHOT)]
    assert one.refs == ("main",)
    assert one.unread == {
        "refs/dev": "a link to outside; not read", "refs/long": "longer than 100 bytes; not read",
    }  # fmt: skip


def test_a_text_that_is_too_long_is_said(tmp_path: Path) -> None:
    files = made(tmp_path)
    plain = tmp_path / "mnt/plain"
    (plain / "README.md").write_bytes(b"x" * (stored.LONGEST_TEXT + 1))
    (plain / "config.json").write_bytes(b" " * (4 << 20) + b"{}")
    found = {each.path: each for each in Inventory().look(str(tmp_path / "mnt"), files).found}
    one = found[str(plain)]
    assert one.unread["README.md"] == "longer than 64 KiB; not read"
    assert one.unread["config.json"] == "longer than 4 MiB; not read"
    assert one.config is None


def test_a_header_that_never_ends_is_given_up(tmp_path: Path) -> None:
    """Zeros of a sparse file are texts without a letter, as many as it promises."""
    texts = 1 << 19
    key = struct.pack("<Q", 1) + b"k" + struct.pack("<IIQ", 9, 8, texts)
    path = tmp_path / "mnt/texts.gguf"
    path.parent.mkdir()
    with path.open("wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, 0, 4096))
        for _ in range(4):
            file.write(key)
            file.seek(8 * texts, 1)
        file.truncate(hostile.TIB)
    with (tmp_path / "mnt/dimensions.gguf").open("wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + struct.pack("<Q", 1) + b"t")
        file.write(struct.pack("<I", 2**32 - 1))
        file.truncate(hostile.TIB)
    files = BoxFiles(below=(on_box(tmp_path / "mnt"),))
    for each in promptly(lambda: Inventory().look(str(tmp_path / "mnt"), files)).found:
        assert "not even its header is whole" in each.because, each.path
