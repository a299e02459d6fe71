"""Small files that a profile depends on: another one there, and the start is refused."""

import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from servers import lifecycle
from servers.host.docker.containers import DockerContainers
from servers.host.files import lookup
from servers.launch.commandline import text_boxes
from servers.launch.commandline.text_boxes import WordsError
from servers.launch.spec import Mount, Spec
from servers.lifecycle.profiles import export_all
from servers.lifecycle.runs import creation
from servers.lifecycle.runs.starts import SecretsError
from servers.models.runs.run import RunState
from tests import factories
from tests.base_images import ENGINE

TEXT = b"{{ messages }}"
SUM = hashlib.sha256(TEXT).hexdigest()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "templates"
    made.mkdir()
    (made / "chat.jinja").write_bytes(TEXT)
    os.mkfifo(made / "pipe")
    (tmp_path / "secret").write_bytes(b"not for this container")
    return made


@pytest.fixture
def check(folder: Path) -> Callable[..., None]:
    def check(path: str = "/t/chat.jinja", digest: str = SUM, *more: Mount) -> None:
        mount = Mount(source=str(folder), target="/t", read_only=True, kind="bind")
        spec: Any = Spec(image="x", name="y", labels={}, mounts=(mount, *more))
        export_all.check_files(spec, {path: digest})

    return check


def test_the_right_file_is_no_obstacle(check: Callable[..., None]) -> None:
    check()


def test_a_folder_of_patches_has_one_sum_as_the_shell_counts_it(
    check: Callable[..., None], folder: Path
) -> None:
    (folder / "Zebra").mkdir()
    (folder / "Zebra" / "a patch.diff").write_bytes(b"+")
    (folder / "link").symlink_to("/etc/passwd")
    count = "find . -type f | LC_ALL=C sort | xargs -d '\\n' sha256sum | sha256sum"
    shell = subprocess.run(
        ["sh", "-c", count], cwd=folder, capture_output=True, text=True, check=True
    )
    digest = shell.stdout.split()[0]

    check("/t", digest)

    (folder / "Zebra" / "a patch.diff").write_bytes(b"-")
    with pytest.raises(SecretsError, match="is not what the profile was made with"):
        check("/t", digest)


def test_a_folder_of_weights_is_too_large(
    check: Callable[..., None], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "LARGEST", 3)

    with pytest.raises(SecretsError, match="It holds more than"):
        check("/t")


def test_another_file_is_refused_with_both_sums(check: Callable[..., None]) -> None:
    with pytest.raises(SecretsError, match=rf"SHA-256 is {SUM}, and the profile says {'0' * 64}"):
        check(digest="0" * 64)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/t/gone.jinja", "It is not there"),
        ("/t/pipe", "It is not a file"),
        ("/elsewhere/a", "none of its volumes brings it"),
    ],
)
def test_a_file_that_cannot_be_had_is_told(
    path: str, says: str, check: Callable[..., None]
) -> None:
    with pytest.raises(SecretsError, match=says):
        check(path)


def test_a_link_out_of_the_mount_is_not_followed(
    folder: Path, tmp_path: Path, check: Callable[..., None]
) -> None:
    (folder / "out").symlink_to(tmp_path / "secret")

    with pytest.raises(SecretsError, match="leads out of") as caught:
        check("/t/out")
    assert hashlib.sha256(b"not for this container").hexdigest() not in str(caught.value)


def test_the_innermost_mount_counts(tmp_path: Path, check: Callable[..., None]) -> None:
    (tmp_path / "other").write_bytes(b"another")
    inner = Mount(
        source=str(tmp_path / "other"), target="/t/chat.jinja", read_only=True, kind="bind"
    )

    with pytest.raises(SecretsError, match=hashlib.sha256(b"another").hexdigest()):
        check("/t/chat.jinja", SUM, inner)


def test_lines_of_sha256sum_are_read() -> None:
    assert text_boxes.digests(f"{SUM}  /t/a b.jinja\n# why\nsha256:{SUM.upper()} */g.xml") == {
        "/t/a b.jinja": SUM,
        "/g.xml": SUM,
    }


@pytest.mark.parametrize("text", ["abc /a", f"{SUM}", f"{SUM} a.jinja", f"{SUM} /a/../b"])
def test_what_is_no_such_line_is_refused(text: str) -> None:
    with pytest.raises(WordsError):
        text_boxes.digests(text)


@pytest.mark.docker
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("digest", "state"), [(SUM, RunState.STARTING), ("0" * 64, RunState.FAILED)]
)
def test_a_start_is_made_only_with_the_file_that_the_profile_names(
    digest: str,
    state: RunState,
    folder: Path,
    docker: DockerContainers,
    own_redis: object,
    settings: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.INSTALL = docker.install
    settings.BOX_FILE = tmp_path / "box.toml"
    settings.BOX_FILE.write_text(f'mount_roots = ["{folder}"]\n')
    monkeypatch.setattr(creation, "docker", lambda: docker)
    launch: dict[str, Any] = {"volumes": (f"{folder}:/t:ro",), "digests": {"/t/chat.jinja": digest}}
    server = factories.server(factories.box("rtx8"), image=ENGINE, gpus="none", **launch)
    run = lifecycle.start(server, by=None)
    assert run is not None

    lifecycle.advance(run)

    run.refresh_from_db()
    assert run.state == state, run.failure
    assert ("is not what the profile was made with" in run.failure) is (digest != SUM)
