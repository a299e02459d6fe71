"""`manage.py diagnose` on files, standard input and many logs at once."""

import gzip
import io
import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from servers.judge.logs.diagnosis import report

LOGS = Path(__file__).parent / "logs"
KEYS = {"engine", "phases", "outcome", "cause", "summary", "fix", "evidence"}


def told(*words: str, **options: Any) -> str:
    out = io.StringIO()
    call_command("diagnose", *words, stdout=out, stderr=io.StringIO(), **options)
    return out.getvalue()


def test_json_has_every_key() -> None:
    said = json.loads(told("--json", "--exit-code", "1", str(LOGS / "vllm-no-kv.log")))

    assert set(said) == KEYS
    assert (said["engine"], said["outcome"], said["cause"]) == (
        "vllm",
        "failed",
        "vllm-no-kv-memory",
    )
    assert said["phases"] == ["load_weights", "compile"]
    assert said["fix"][0] == "Raise --gpu-memory-utilization by 0.05."


def test_words_for_a_person_name_cause_lines_and_what_to_do() -> None:
    said = told(str(LOGS / "sglang-tma.log"))

    assert said.startswith("Failed: The attention backend trtllm_mha")
    assert "8: RuntimeError: Error in function 'buildNdTmaDescriptor'" in said
    assert "- Set --attention-backend flashinfer." in said


def test_many_logs_come_back_by_their_ids(tmp_path: Path) -> None:
    logs = ["vllm-gated", "sglang-healthy-cosmetic"]
    lines = [{"id": name, "text": (LOGS / f"{name}.log").read_text()} for name in logs]
    lines[0]["exit_code"] = 1  # type: ignore[assignment]
    many = tmp_path / "many.jsonl"
    many.write_text("\n".join(json.dumps(line) for line in lines))

    said = [json.loads(line) for line in told("--jsonl", str(many)).splitlines()]

    assert [(each["id"], each["outcome"], each["cause"]) for each in said] == [
        ("vllm-gated", "failed", "hf-token-required"),
        ("sglang-healthy-cosmetic", "ready", None),
    ]


@pytest.mark.parametrize("form", ["gz", "utf-16", "utf-8-sig"])
def test_a_download_and_what_windows_writes_are_read(tmp_path: Path, form: str) -> None:
    text = (LOGS / "vllm-max-len.log").read_text()
    log = tmp_path / "run.log"
    log.write_bytes(gzip.compress(text.encode()) if form == "gz" else text.encode(form))

    said = told("--json", str(log))

    assert said == told("--json", str(LOGS / "vllm-max-len.log"))


def test_a_cut_download_cannot_be_read(tmp_path: Path) -> None:
    log = tmp_path / "run.log.gz"
    log.write_bytes(gzip.compress("\n".join(map(str, range(50_000))).encode())[:50_000])
    with pytest.raises(SystemExit) as end:
        told(str(log))
    assert end.value.code == 2


def test_standard_input_may_hold_what_is_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = b"\xff\xfe\x00 CUDA\nRuntimeError: No CUDA GPUs are available\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))

    assert json.loads(told("--json", "-"))["cause"] == "no-nvidia-driver"


def test_what_cannot_be_read_ends_with_code_2(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"id": 1}\n')
    for words in ([str(tmp_path / "nothing")], ["--jsonl", str(tmp_path / "bad.jsonl")]):
        with pytest.raises(SystemExit) as left:
            told(*words)
        assert left.value.code == 2


@pytest.mark.parametrize(
    "text", ["", "\n\n", "\x1b[31m\r\r\r", "Traceback (most recent call last):"]
)
def test_a_log_that_says_nothing_is_not_guessed_at(tmp_path: Path, text: str) -> None:
    (tmp_path / "log").write_text(text)

    said = json.loads(told("--json", str(tmp_path / "log")))

    assert (said["outcome"], said["cause"], said["engine"]) == ("unknown", None, None)


def test_no_text_breaks_it() -> None:
    words = (LOGS / "sglang-graph-oom.log").read_text().split(" ")
    words += [
        "\x00",
        "\ud800",
        "\x1b[31m",
        "\r",
        "\n",
        "9" * 400,
        "(((",
        "{need}",
        "Free memory on",
    ]
    words += ["device (1.1.1/0 GiB)", 'File "x", line 1', "'", "KeyError: 'model.", "%", "=" * 5000]
    chance = random.Random(7)  # noqa: S311 - the same words each time
    for _ in range(150):
        text = " ".join(chance.choices(words, k=chance.randint(0, 400)))
        said = report(text.split("\n"), exit_code=chance.choice([None, 0, 1, 137, -9, 10**9]))

        assert set(said) == KEYS
        json.dumps(said, ensure_ascii=False).encode()
        assert "\x00" not in str(said)
