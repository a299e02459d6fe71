"""Reports as test cases: what `manage.py diagnose --case` says, writes and leaves to a person."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import call_command

from servers.judge.memory.stops import read_thresholds
from servers.judge.memory.verdicts import Judge
from servers.judge.reports import document
from servers.judge.reports.document import Report, build_paste
from servers.judge.reports.failure import (
    FailureFacts,
    ReportedCard,
    build_failure,
    describe_cards,
    judge_failure,
)
from servers.judge.reports.memory import build_memory, judge_memory, reduce_snapshot
from servers.judge.reports.redaction import Redactor
from servers.launch.engines.launch import Launch
from tests.cases import table
from tests.commandline.pastes import cases as pastes
from tests.logs.diagnosis.test_logs import EXPECTED, FOLDER
from tests.memory.scenes import GIB, MemoryScene, crashed
from tests.terminal import ROOT

TESTS = ROOT / "tests"


def failure(name: str = "vllm-no-kv", truth: str = "The draft model took the rest.") -> Report:
    lines = list(enumerate((FOLDER / f"{name}.log").read_text().splitlines(), start=1))
    launch = Launch(
        engine="vllm",
        image="vllm/vllm-openai:v0.20.2",
        checkpoint="a/b",
        flags=("--max-model-len", "9"),
    )
    facts = FailureFacts(
        lines=lines,
        launch=launch,
        engine=EXPECTED[name]["engine"] or "",
        exit_code=EXPECTED[name].get("code"),
        said="failed, vllm-no-kv-memory: No memory was left.",
        cards=[
            ReportedCard(name="NVIDIA GB10", capability="12.1", kind="unified", memory=120 * GIB)
        ],
    )
    return build_failure(facts, Redactor(), truth=truth)


def recording(step: int = 6) -> Report:
    """Of a box with 33 GiB that nobody holds, a snapshot each half minute."""
    judge = Judge()
    kept = []
    for n, snapshot in enumerate(crashed(MemoryScene(), lost=33.0).for_(600)):
        verdicts = [each.to_json() for each in judge.step(snapshot)]
        kept += [reduce_snapshot(snapshot, verdicts)] * (n % step == 0)
    return build_memory(kept, Redactor(), gpu="GPU-1", truth="It is the page cache of a loader.")


def taken_up(report: Report, tmp_path: Path, *more: str) -> str:
    (tmp_path / "report.txt").write_text(document.write(report))
    out = io.StringIO()
    call_command("diagnose", "--case", str(tmp_path / "report.txt"), *more, stdout=out)
    return out.getvalue()


def copied_tests(tmp_path: Path) -> Path:
    """A folder with the files to which cases are added."""
    for name in ("logs/diagnosis/logs/expected.yaml", "commandline/cases/docker.txt"):
        (tmp_path / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tests" / name).write_text((TESTS / name).read_text())
    return tmp_path / "tests"


@table(
    "name",
    [
        "vllm-gated",
        "vllm-healthy-with-warnings",
        "vllm-unknown-crash",
        "sglang-exit-zero",
        "sglang-watchdog",
        "llamacpp-oom",
        "docker-no-toolkit",
    ],
)
def test_a_reported_log_has_the_diagnosis_of_its_run(name: str) -> None:
    read = document.read(document.write(failure(name)))

    told = judge_failure(read)

    assert told["cause"] == EXPECTED[name]["cause"]
    assert told["outcome"] == EXPECTED[name]["outcome"]
    line = EXPECTED[name].get("line")
    assert line is None or line in {each["line"] for each in told["evidence"]}


def test_the_diagnosis_of_a_report_knows_its_launch_and_cards(tmp_path: Path) -> None:
    said = taken_up(failure(), tmp_path)

    assert said.startswith(
        "True: The draft model took the rest.\nOn its box: failed, vllm-no-kv-memory"
    )
    assert "Cause: vllm-no-kv-memory" in said
    assert "What to do:" in said


def test_a_failure_becomes_a_log_that_is_red_until_its_cause_is_filled_in(tmp_path: Path) -> None:
    folder = copied_tests(tmp_path)
    before = (folder / "logs/diagnosis/logs/expected.yaml").read_text()

    said = taken_up(failure(), tmp_path, "--into", str(folder))

    after = (folder / "logs/diagnosis/logs/expected.yaml").read_text()
    assert after.startswith(before)
    assert "# Reported: The draft model took the rest.\n# On its box: failed" in after
    (new,) = yaml.safe_load(after).keys() - yaml.safe_load(before).keys()
    assert re.fullmatch(r"vllm-the-draft-model-took-the-rest-[0-9a-f]{8}", new)
    assert yaml.safe_load(after)[new] == {
        "engine": "vllm", "outcome": "failed", "cause": "FILL-IN", "code": 1,
    }  # fmt: skip
    log = folder / f"logs/diagnosis/logs/{new}.log"
    assert log.read_text() == (FOLDER / "vllm-no-kv.log").read_text()
    assert str(log) in said
    assert f"replace FILL-IN of {new} by the id of the cause" in said


def test_a_paste_becomes_a_case_that_is_red_until_its_reading_is_right(tmp_path: Path) -> None:
    folder = copied_tests(tmp_path)
    report = build_paste(
        "docker run -v /home/grace/m:/m vllm/vllm-openai --model a/b", Redactor(), truth="No port"
    )

    said = taken_up(report, tmp_path, "--into", str(folder))

    text = (folder / "commandline/cases/reported.txt").read_text()
    name, paste, reading = re.findall(r"(?s)### (.*?)\n(.*)--- gives\nFILL-IN (\{.*\})\n", text)[0]
    assert name.startswith("No port (paste-no-port-")
    assert paste == "docker run -v /home/user1/m:/m vllm/vllm-openai --model a/b\n"
    assert json.loads(reading)["volumes"] == ["/home/user1/m:/m"]
    assert "correct each line to what must be read" in said
    for each in (next(pastes("fails")).paste, "### Start\nnothing"):
        taken_up(build_paste(each, Redactor()), tmp_path, "--into", str(folder))
    assert len(re.findall("(?m)^### ", text)) == 1
    assert (
        "FILL-IN refused today: Line 1" in (folder / "commandline/cases/reported.txt").read_text()
    )


def test_a_recording_becomes_a_replay_that_is_red_until_its_verdict_is_filled_in(
    tmp_path: Path,
) -> None:
    folder = copied_tests(tmp_path)

    said = taken_up(recording(), tmp_path, "--into", str(folder))

    ((name, row),) = yaml.safe_load(
        (folder / "memory/recordings/expected.yaml").read_text()
    ).items()
    assert row["verdicts"] == {"GPU-1": "FILL-IN"}
    assert len((folder / f"memory/recordings/{name}.jsonl").read_text().splitlines()) > 30
    assert "Today it is reclaimable." in said
    assert "GPU-1 settling" in said


def test_half_a_minute_is_enough_to_judge_a_recording_alike() -> None:
    thin = [each.verdict for each in judge_memory(document.read(document.write(recording())))]

    assert thin == [each.verdict for each in judge_memory(recording(step=1))]
    assert thin[-1] == "reclaimable"


def test_thresholds_and_baselines_of_the_box_come_along() -> None:
    scene = crashed(MemoryScene(kind="discrete", total=96.0), lost=5.0, gib=60.0).for_(300)
    kept = [reduce_snapshot(each) for each in scene]
    usual = build_memory(kept, Redactor(), gpu="GPU-1", baselines={"580.126.09 GPU-1": GIB // 2})
    stricter = build_memory(
        kept, Redactor(), gpu="GPU-1", thresholds=read_thresholds("bad=3 warn=1")
    )

    assert usual.facts["baselines"] == '{"580.126.09 GPU-1": 536870912}'
    assert usual.facts["thresholds"] == ""
    assert [judge_memory(each)[-1].verdict for each in (usual, stricter)] == ["ok", "leaked"]


def test_none_is_taken_up_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = copied_tests(tmp_path)
    taken_up(failure(), tmp_path, "--into", str(folder))

    with pytest.raises(SystemExit) as refused:
        taken_up(failure(), tmp_path, "--into", str(folder))

    assert refused.value.code == 2
    assert "this report was taken up before" in capsys.readouterr().err


@table(
    ("text", "more", "says"),
    [
        ("hello\n", (), "report.txt, line 1: this is no report"),
        (
            "inferdash report 1\nkind: memory\n--- recording\n| {}\n",
            (),
            "report.txt, line 1 of “recording”: it has no “t”",
        ),
        (
            "inferdash report 1\nkind: memory\nbaselines: [1]\n--- recording\n"
            '| {"t": 1, "gpus": []}\n',
            (),
            "“baselines” is no JSON object",
        ),
        (
            "inferdash report 1\nkind: paste\n--- paste\n| x\n",
            ("--into", "/nowhere"),
            "is no folder",
        ),
    ],
)
def test_what_cannot_be_taken_up_is_refused(
    text: str, more: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    (tmp_path / "report.txt").write_text(text)
    err = io.StringIO()
    with pytest.raises(SystemExit) as refused:
        call_command(
            "diagnose",
            "--case",
            str(tmp_path / "report.txt"),
            *more,
            stdout=io.StringIO(),
            stderr=err,
        )

    assert refused.value.code == 2
    assert says in err.getvalue()


def test_into_needs_a_report_and_without_a_checkout_a_folder(tmp_path: Path, settings: Any) -> None:
    for more, says in (((), "--into needs --case FILE"), (("--case",), "This is no checkout")):
        settings.IS_CHECKOUT = False
        (tmp_path / "r").write_text(document.write(failure()))
        err = io.StringIO()
        words = [*more, *([str(tmp_path / "r")] if more else []), "--into"]
        with pytest.raises(SystemExit):
            call_command("diagnose", *words, stdout=io.StringIO(), stderr=err)
        assert says in err.getvalue()


def test_cards_are_told_by_their_kinds() -> None:
    gb10 = ReportedCard(name="NVIDIA GB10", capability="12.1", kind="unified", memory=120 * GIB)
    said = describe_cards([gb10, gb10, ReportedCard(name="Old")])

    assert said == "2 × NVIDIA GB10 (12.1, unified, 120.0 GiB); 1 × Old (-, -, -)"
