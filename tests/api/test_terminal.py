"""The terminal program, as a person has it: one file, against an inferdash of its own."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.base_images import ENGINE
from tests.installation import Installation
from tests.ports import free_port
from tests.registry import registry
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.docker

DOCUMENT = f"""
name: Echo
engine: vllm
image: {ENGINE}
checkpoint: Qwen/Qwen3-8B
served_name: echo
gpus: none
env: {{ENGINE_SECONDS: "0.5"}}
"""


type Terminal = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def program(place: Installation, tmp_path: Path) -> Path:
    """Downloaded as the page “Keys” says, and away from the checkout."""
    file = tmp_path / "bin" / "inferdash"
    file.parent.mkdir()
    with urlopen(f"{place.url}/inferdash.pyz", timeout=PATIENCE) as answer:  # noqa: S310
        file.write_bytes(answer.read())
    file.chmod(0o755)
    return file


@pytest.fixture
def bare(program: Path, tmp_path: Path) -> Terminal:
    """A terminal where nobody has logged in."""

    def run(*words: str, given: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        kept = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
        }
        return subprocess.run(
            [program, *words],
            input=given,
            env=kept | env,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    return run


@pytest.fixture
def terminal(bare: Terminal, place: Installation, token: str) -> Terminal:
    said = bare("login", place.url, given=f"{token}\n")
    assert said.returncode == 0, said.stderr
    assert token not in said.stdout
    return bare


def of(said: subprocess.CompletedProcess[str]) -> Any:
    assert said.returncode == 0, said.stderr
    return json.loads(said.stdout)


@pytest.mark.takes(40)
def test_a_model_is_brought_in_started_followed_and_stopped(
    terminal: Terminal, tmp_path: Path
) -> None:
    (tmp_path / "echo.yaml").write_text(DOCUMENT)
    said = terminal("profile", "import", "echo.yaml")
    assert said.stdout == "echo: version 1, on echo\n", said.stderr
    assert "never started" in terminal("ps").stdout
    assert terminal("ps", "--names").stdout == "echo\n"

    fits = terminal("fit", "echo")
    assert (fits.returncode, fits.stdout.splitlines()[-1]) == (0, "It may start."), fits.stdout

    started = terminal("start", "echo", "--wait")
    assert started.returncode == 0, started.stdout + started.stderr
    assert "echo: ready" in started.stdout
    assert "http://127.0.0.1:18" in started.stdout
    assert of(terminal("ps", "--json"))[0]["run"]["started_by"] == "ana"

    log = terminal("logs", "echo", "--all").stdout.splitlines()
    assert any("Application startup complete" in line for line in log)
    assert terminal("logs", "echo", "-n", "1").stdout.splitlines() == log[-1:]

    # Following ends by itself when the run has ended and its log is whole.
    stopped = terminal("stop", "echo", "--wait")
    assert "echo: stopped" in stopped.stdout
    whole = terminal("logs", "echo", "--all", "--follow", "--json").stdout.splitlines()
    assert [json.loads(line)["number"] for line in whole] == list(range(1, len(whole) + 1))
    assert len(whole) >= len(log)

    out = terminal("profile", "export", "echo").stdout
    assert "checkpoint: Qwen/Qwen3-8B" in out
    (tmp_path / "echo.yaml").write_text(out.replace("0.5", "0.6"))
    again = terminal("profile", "import", "echo.yaml", "--into", "echo", "--message", "slower")
    assert "echo: version 2" in again.stdout
    for form in ("docker", "compose"):
        written = terminal("profile", "export", "echo", "--form", form).stdout
        again = terminal("profile", "import", "-", "--into", "echo", given=written)
        assert again.stdout == "echo: version 2, on echo\n", again.stderr
    assert "echo" in terminal("profile", "list", "ech").stdout


def test_a_start_that_fails_says_why_and_so_does_the_exit_code(
    terminal: Terminal, tmp_path: Path
) -> None:
    broken = DOCUMENT.replace("Echo", "Broken").replace("{ENGINE", "{ENGINE_SCRIPT: crash, ENGINE")
    said = terminal("profile", "import", "-", given=broken)
    assert said.returncode == 0, said.stderr
    started = terminal("start", "broken", "--wait", "--despite", "to see it fail")
    assert started.returncode == 1, started.stdout + started.stderr
    assert "broken: failed" in started.stdout
    # The end of its log may come after its end.
    wait_until(
        lambda: "What to do:\n  - " in terminal("why", "broken").stdout, "it is known what to do"
    )
    assert terminal("why", "broken").returncode == 1


def test_boxes_and_models_are_listed(terminal: Terminal) -> None:
    # A collector that a busy machine keeps waiting is told until it is quick again.
    wait_until(lambda: "rtx8: ok" in terminal("box").stdout, "the first sample is there, and well")
    rows = re.compile(r"rtx8 +here +ok +8")
    wait_until(lambda: rows.search(terminal("boxes", "list").stdout), "it is listed so, too")
    assert "make up BOXES=1" in terminal("boxes", "add").stderr
    assert len(of(terminal("box", "rtx8", "--json"))[0]["gpus"]) == 8
    assert terminal("models").returncode == 0
    assert of(terminal("models", "--json")) == {"rtx8": []}


@pytest.mark.takes(40)
def test_an_image_is_pulled_listed_held_cancelled_and_removed(
    terminal: Terminal, place: Installation, tmp_path: Path
) -> None:
    architecture = place.docker.facts().architecture
    with registry(architecture) as store:
        said = terminal("images", "pull", store.image)
        assert said.returncode == 0, said.stderr
        assert said.stdout.startswith(f"{store.image} on rtx8: done. {store.image} is there now")
        (job,) = [
            each for each in of(terminal("images", "jobs", "--json")) if each["kind"] == "pull"
        ]
        # The watcher looks when the pull has ended.
        wait_until(
            lambda: store.image in terminal("images", "list", "--all").stdout,
            "the terminal says so",
        )
        assert store.image not in terminal("images", "list").stdout

        removed = terminal("images", "rm", job["image_id"])
        assert removed.stdout.startswith("Images on rtx8: done. Removed 1"), removed.stdout
        wait_until(
            lambda: store.image not in terminal("images", "list", "--all").stdout,
            "the terminal says so",
        )
        assert terminal("images", "rm", store.image).returncode == 3
        missing = terminal("images", "pull", store.image.removesuffix(":1") + ":2")
        assert (missing.returncode, "no such tag" in missing.stdout) == (1, True)

        store.hold = True
        slow = of(terminal("images", "pull", store.image, "--detach", "--json"))
        wait_until(
            lambda: bool(of(terminal("images", "jobs", "--json"))[0]["layers"]),
            "the terminal says so",
        )
        ended = terminal("images", "cancel", str(slow["id"]))
        assert ended.returncode == 0, ended.stderr
        assert "cancelled. " in ended.stdout

    with registry({"x86_64": "aarch64"}.get(architecture, "x86_64"), layers=1, size=900) as other:
        held = terminal("images", "pull", other.image)
        assert held.returncode == 1
        assert "not made for this box" in held.stdout
        assert "--despite" in held.stdout
        beside = terminal("images", "pull", other.image, "--despite")
        assert beside.returncode == 0, beside.stdout + beside.stderr
        wait_until(
            lambda: other.image in terminal("images", "list", "--all").stdout,
            "the terminal says so",
        )
        assert "Say --yes" in terminal("images", "prune").stderr
        pruned = terminal("images", "prune", "--yes")
        assert pruned.returncode == 0, pruned.stdout
        assert other.image in pruned.stderr
    assert of(terminal("images", "newer", "--ask", "--json")) == {"rtx8": []}


def test_what_somebody_has_claimed_is_told_before_a_start_and_a_stop(
    terminal: Terminal, place: Installation
) -> None:
    assert terminal("profile", "import", "-", given=DOCUMENT).returncode == 0
    place.run(
        "from datetime import timedelta\nfrom servers.lifecycle.people import claims\n"
        "server = Server.objects.get(slug='echo')\n"
        "claims.claim(server.box, by=User.objects.create(username='ben', role=Role.OPERATOR),"
        " until=timezone.now() + timedelta(hours=2), note='evaluation', server=server)"
    )

    refused = terminal("start", "echo")
    assert refused.returncode == 1, refused.stdout + refused.stderr
    assert "ben has claimed echo until" in refused.stderr
    assert "--despite-claim" in refused.stderr
    assert "CLAIMED BY" in terminal("ps").stdout
    assert "evaluation" in terminal("claims").stdout
    assert "echo: ready" in terminal("start", "echo", "--wait", "--despite-claim").stdout
    assert "ben has claimed echo" in terminal("restart", "echo").stderr
    assert "ben has claimed echo" in terminal("stop", "echo").stderr
    # An admin ends anybody's.
    assert terminal("release", "echo").stdout == "echo: not claimed any more.\n"
    assert terminal("claim", "echo", "--hours", "1").stdout.startswith("echo: claimed by ana until")
    assert "echo: stopped" in terminal("stop", "echo", "--wait").stdout, "one's own asks nobody"
    assert terminal("claim", "--gpus", "x").returncode == 2
    assert "has no GPU 9" in terminal("claim", "--gpus", "9").stderr


def test_mistakes_say_what_to_do_and_have_codes_of_their_own(
    bare: Terminal, terminal: Terminal, place: Installation, token: str, tmp_path: Path
) -> None:
    fresh = str(tmp_path / "fresh")
    for said, code, words in [
        (bare("ps", HOME=fresh), 2, "inferdash login"),
        (bare("login", "ftp://rtx8", given="x\n", HOME=fresh), 2, "not the address"),
        (bare("login", place.url, given="ifd_wrong\n", HOME=fresh), 4, "not known"),
        (bare("ps", INFERDASH_URL=f"127.0.0.1:{free_port()}", INFERDASH_KEY="x", HOME=fresh), 5,
         "cannot be reached"),
        (bare("ps", INFERDASH_URL=place.url, INFERDASH_KEY=token, HOME=fresh), 0, ""),
        (terminal("start", "nothing"), 3, "There is no server called nothing"),
        (terminal("profile", "import", "none.yaml"), 2, "cannot be read"),
        (terminal("profile", "import", "-", given="engine: ["), 2, "The document"),
        (terminal("start"), 2, "usage"),
    ]:  # fmt: skip
        assert said.returncode == code, said.args
        assert words in said.stderr, said.stderr
        assert "Traceback" not in said.stderr
    assert not (tmp_path / "fresh").exists()

    kept = tmp_path / ".config/inferdash/terminal.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    kept.write_text("{")
    assert "Delete it" in terminal("ps").stderr
    assert terminal("logout").stdout == "Forgotten.\n"
    assert terminal("logout").stdout == "Nothing was kept here.\n"


def test_a_redirect_does_not_carry_the_key_away(bare: Terminal, place: Installation) -> None:
    # The login page is where inferdash sends whoever is not logged in.
    said = bare("login", f"{place.url}/login/?next=/", given="ifd_x\n")
    assert said.returncode == 4
    assert place.url in said.stderr or "not known" in said.stderr


def test_a_pipe_that_closes_is_no_error(terminal: Terminal, program: Path, tmp_path: Path) -> None:
    said = subprocess.run(
        ["bash", "-c", f"{sys.executable} {program} completion bash | head -n 1"],
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert (said.stdout, said.stderr) == ("_inferdash() {\n", "")


def test_shells_complete_commands_and_servers(terminal: Terminal, program: Path) -> None:
    script = terminal("completion", "bash").stdout
    typed = f"{script}\nCOMP_WORDS=(inferdash lo); COMP_CWORD=1; _inferdash; echo ${{COMPREPLY[@]}}"
    said = subprocess.run(["bash", "-c", typed], capture_output=True, text=True, check=True)
    assert said.stdout == "login logout logs\n"
    assert terminal("completion", "zsh").stdout.startswith("autoload")
