"""`manage.py profile import`: once as people start it, and its other answers without a start."""

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management import call_command

_ROOT = Path(__file__).parents[2]
_PASTE = "docker run -d --gpus 2 -p 8000:8000 vllm/vllm-openai --model acme/Plum-8B\n"

type Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """A process that is started costs more than all that it reads."""

    def run(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(given))
        code = 0
        try:
            call_command("profile", "import", *arguments)
        except SystemExit as ended:
            code = int(ended.code or 0)
        said = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, code, said.out, said.err)

    return run


def test_json_is_an_array_with_one_object_a_command(run: Run) -> None:
    done = run("--json", given=_PASTE + _PASTE.replace("8000:8000", "8001:8000"))
    assert (done.returncode, done.stderr) == (0, "")
    first, second = json.loads(done.stdout)
    assert first["gpus"] == 2
    assert (first["ports"], second["ports"]) == (["8000:8000"], ["8001:8000"])


def test_a_file_is_read_like_standard_input(tmp_path: Path, run: Run) -> None:
    file = tmp_path / "paste.txt"
    file.write_text(_PASTE, encoding="utf-8")
    started = subprocess.run(
        [sys.executable, "manage.py", "profile", "import", "--json"],
        cwd=_ROOT,
        input=_PASTE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (started.returncode, started.stderr) == (0, "")
    assert started.stdout == run("--json", str(file)).stdout
    assert started.stdout == run("--json", "-", given=_PASTE).stdout


def test_a_paste_that_cannot_be_read_ends_with_2_and_the_place(run: Run) -> None:
    done = run("--json", given="docker run --gpu all vllm/vllm-openai\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Line 1, column 12: docker run has no option --gpu.")


def test_a_file_that_is_not_there_is_named(tmp_path: Path, run: Run) -> None:
    done = run("--json", str(tmp_path / "none.txt"))
    assert done.returncode == 2
    assert "none.txt" in done.stderr
    assert "Traceback" not in done.stderr


def test_many_pastes_at_once_give_a_line_each(run: Run) -> None:
    pastes = [{"id": 1, "text": _PASTE}, {"id": "two", "text": "A=1"}]
    done = run("--jsonl", given="\n".join(map(json.dumps, pastes)))
    good, bad = map(json.loads, done.stdout.splitlines())
    assert done.returncode == 0
    assert (good["id"], good["commands"][0]["image"]) == (1, "vllm/vllm-openai")
    assert bad == {
        "id": "two",
        "error": "Line 1, column 1: only variables are set here; "
        "the command that uses them is missing.",
    }


def test_a_line_that_is_no_object_is_named(run: Run) -> None:
    done = run("--jsonl", given='{"id": 1}\n')
    assert done.returncode == 2
    assert done.stderr.startswith("Line 1 is not an object")


def test_without_json_it_says_it_in_words(run: Run) -> None:
    done = run(given=_PASTE)
    assert done.stdout.splitlines() == [
        "docker_run: vllm",
        "  image: vllm/vllm-openai",
        "  command: --model acme/Plum-8B",
        "  ports: 8000:8000",
        "  gpus: 2",
        "  ignored: -d",
    ]
