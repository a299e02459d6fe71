"""Small files that a profile depends on: another one there, and the start is refused."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from servers.commandline import words
from servers.commandline.words import WordsError
from servers.host.spec import Mount, Spec
from servers.lifecycle import files
from servers.lifecycle.secrets import Refused

TEXT = b"{{ messages }}"
SUM = hashlib.sha256(TEXT).hexdigest()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "templates"
    made.mkdir()
    (made / "chat.jinja").write_bytes(TEXT)
    (tmp_path / "secret").write_bytes(b"not for this container")
    return made


@pytest.fixture
def check(folder: Path) -> Callable[..., None]:
    def check(path: str = "/t/chat.jinja", digest: str = SUM, *more: Mount) -> None:
        mount = Mount(source=str(folder), target="/t", read_only=True, kind="bind")
        spec: Any = Spec(image="x", name="y", labels={}, mounts=(mount, *more))
        files.check(spec, {path: digest})

    return check


def test_the_right_file_is_no_obstacle(check: Callable[..., None]) -> None:
    check()


def test_another_file_is_refused_with_both_sums(check: Callable[..., None]) -> None:
    with pytest.raises(Refused, match=rf"SHA-256 is {SUM}, and the profile says {'0' * 64}"):
        check(digest="0" * 64)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/t/gone.jinja", "It is not there"),
        ("/t", "It is not a file"),
        ("/elsewhere/a", "none of its volumes brings that file"),
    ],
)
def test_a_file_that_cannot_be_had_is_told(
    path: str, says: str, check: Callable[..., None]
) -> None:
    with pytest.raises(Refused, match=says):
        check(path)


def test_a_link_out_of_the_mount_is_not_followed(
    folder: Path, tmp_path: Path, check: Callable[..., None]
) -> None:
    (folder / "out").symlink_to(tmp_path / "secret")

    with pytest.raises(Refused, match="leads out of") as caught:
        check("/t/out")
    assert hashlib.sha256(b"not for this container").hexdigest() not in str(caught.value)


def test_the_innermost_mount_counts(tmp_path: Path, check: Callable[..., None]) -> None:
    (tmp_path / "other").write_bytes(b"another")
    inner = Mount(
        source=str(tmp_path / "other"), target="/t/chat.jinja", read_only=True, kind="bind"
    )

    with pytest.raises(Refused, match=hashlib.sha256(b"another").hexdigest()):
        check("/t/chat.jinja", SUM, inner)


def test_lines_of_sha256sum_are_read() -> None:
    assert words.digests(f"{SUM}  /t/a b.jinja\n# why\nsha256:{SUM.upper()} */g.xml") == {
        "/t/a b.jinja": SUM,
        "/g.xml": SUM,
    }


@pytest.mark.parametrize("text", ["abc /a", f"{SUM}", f"{SUM} a.jinja", f"{SUM} /a/../b"])
def test_what_is_no_such_line_is_refused(text: str) -> None:
    with pytest.raises(WordsError):
        words.digests(text)
