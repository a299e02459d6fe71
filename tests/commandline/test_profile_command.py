"""`manage.py profile import`, started as people start it."""

import json
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_PASTE = "docker run -d --gpus 2 -p 8000:8000 vllm/vllm-openai --model acme/Plum-8B\n"


def _run(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", "profile", "import", *arguments],
        cwd=_ROOT,
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )


def test_json_is_an_array_with_one_object_a_command() -> None:
    done = _run("--json", given=_PASTE + _PASTE.replace("8000:8000", "8001:8000"))
    assert (done.returncode, done.stderr) == (0, "")
    first, second = json.loads(done.stdout)
    assert first["gpus"] == 2
    assert (first["ports"], second["ports"]) == (["8000:8000"], ["8001:8000"])


def test_a_file_is_read_like_standard_input(tmp_path: Path) -> None:
    file = tmp_path / "paste.txt"
    file.write_text(_PASTE, encoding="utf-8")
    assert _run("--json", str(file)).stdout == _run("--json", "-", given=_PASTE).stdout


def test_a_paste_that_cannot_be_read_ends_with_2_and_the_place() -> None:
    done = _run("--json", given="docker run --gpu all vllm/vllm-openai\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Line 1, column 12: docker run has no option --gpu.")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = _run("--json", str(tmp_path / "none.txt"))
    assert done.returncode == 2
    assert "none.txt" in done.stderr
    assert "Traceback" not in done.stderr


def test_many_pastes_at_once_give_a_line_each() -> None:
    pastes = [{"id": 1, "text": _PASTE}, {"id": "two", "text": "A=1"}]
    done = _run("--jsonl", given="\n".join(map(json.dumps, pastes)))
    good, bad = map(json.loads, done.stdout.splitlines())
    assert done.returncode == 0
    assert (good["id"], good["commands"][0]["image"]) == (1, "vllm/vllm-openai")
    assert bad == {
        "id": "two",
        "error": "Line 1, column 1: only variables are set here; "
        "the command that uses them is missing.",
    }


def test_a_line_that_is_no_object_is_named() -> None:
    done = _run("--jsonl", given='{"id": 1}\n')
    assert done.returncode == 2
    assert done.stderr.startswith("Line 1 is not an object")


def test_without_json_it_says_it_in_words() -> None:
    done = _run(given=_PASTE)
    assert done.stdout.splitlines() == [
        "docker_run: vllm",
        "  image: vllm/vllm-openai",
        "  command: --model acme/Plum-8B",
        "  ports: 8000:8000",
        "  gpus: 2",
        "  ignored: -d",
    ]
