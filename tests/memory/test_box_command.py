"""manage.py box: what a collector saw, kept and judged again."""

import gzip
import json
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from servers.judge.memory.advice import RECLAIM
from servers.models.runs.run import RunState
from servers.watcher.memory import monitor
from tests import factories
from tests.cases import table
from tests.memory.scenes import GIB, MemoryScene, crashed


def written(scene: MemoryScene, path: Path) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in scene))
    return path


def replay(path: Path, *options: str) -> list[str]:
    out = StringIO()
    call_command("box", "replay", str(path), *options, stdout=out)
    return out.getvalue().splitlines()


def line(**of: Any) -> str:
    return json.dumps({"t": 1, "gpus": [], "meminfo": {}} | of) + "\n"


def test_a_recording_is_judged_a_line_a_gpu_a_step(tmp_path: Path) -> None:
    scene = crashed(MemoryScene(), lost=33.0).for_(400)

    lines = [json.loads(line) for line in replay(written(scene, tmp_path / "r"), "--json")]

    assert len(lines) == len(scene.made)
    assert lines[-1] == {
        "t": scene.made[-1]["t"],
        "gpu": "GPU-1",
        "verdict": "reclaimable",
        "unattributed": lines[-1]["unattributed"],
        "reason": lines[-1]["reason"],
        "advice": lines[-1]["advice"],
        "code": "memory.reclaimable",
        "params": {"size": lines[-1]["unattributed"], "command": RECLAIM},
        "alarm": False,
    }
    assert abs(lines[-1]["unattributed"] - 33 * GIB) < GIB // 10


def test_people_read_only_what_changes(tmp_path: Path) -> None:
    scene = crashed(MemoryScene(), lost=33.0).for_(400)

    lines = replay(written(scene, tmp_path / "r"))

    assert [line.split()[3] for line in lines] == ["ok", "settling", "reclaimable"]
    assert "GPU-1" in lines[0]


@table(
    ("text", "said"),
    [
        ("{}\n", "line 1 has no “t”"),
        ('\n{"t": 1, "gpus": [], "meminfo": {}}\nnonsense\n', "line 3 is not JSON"),
        ('{"t": 1, "gpus": null, "meminfo": null}\n{"t": 2}\n', "line 2 has no “gpus”"),
        (
            '{"t": 1, "gpus": {}, "meminfo": null}\n',
            "line 1 has {} as “gpus”, where a list belongs",
        ),
        ("[]\n", "line 1 is not a JSON object"),
        ("", "it has no line"),
        ('{"t": NaN, "gpus": [], "meminfo": {}}\n', "line 1 is not JSON: NaN is no number"),
        ('{"t": "now", "gpus": [], "meminfo": {}}\n', "line 1 has 'now' as “t”, where a number"),
        ("[" * 100_000 + "\n", "line 1 is not JSON"),
        (line(gpus=[None]), "line 1 has null as “gpus[0]”, where an object belongs"),
        (line(gpus=[{"processes": [{"pid": "7"}]}]), "'7' as “gpus[0].processes[0].pid”, where a"),
        (line(meminfo={"MemFree": "12 kB"}), "'12 kB' as “meminfo.MemFree”, where a number"),
        (line(containers=[{"ours": True}]), "line 1 has no “containers[0].id”"),
        (line(shm=[{"bytes": 1}]), "line 1 has no “shm[0].path”"),
        (line(events=["reclaim"]), "'reclaim' as “events[0]”, where an object belongs"),
        (line(events=[{"type": "reclaim", "level": "two"}]), "'two' as “events[0].level”"),
        (line(gpus=[{"throttle": "hw_thermal"}]), "as “gpus[0].throttle”, where a list belongs"),
        (line(disks={"images": {"path": "/"}}), "line 1 has no “disks.images.free”"),
        (line(pending="vllm"), "'vllm' as “pending”, where an object belongs"),
        (line(sees_host_pids=1), "line 1 has 1 as “sees_host_pids”, where true or false"),
        (line(uptime_s=True), "line 1 has True as “uptime_s”, where a number belongs"),
    ],
)
def test_what_is_no_recording_is_refused_with_its_line(
    tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "r").write_text(text)
    err = StringIO()

    with pytest.raises(SystemExit) as exit_:
        call_command("box", "replay", str(tmp_path / "r"), stdout=StringIO(), stderr=err)

    assert exit_.value.code == 2
    assert said in err.getvalue()


def test_a_last_line_that_was_cut_off_is_left_out_and_that_is_said(tmp_path: Path) -> None:
    path = written(MemoryScene().for_(20), tmp_path / "r")
    path.write_text(path.read_text()[:-30])
    out, err = StringIO(), StringIO()

    call_command("box", "replay", str(path), "--json", stdout=out, stderr=err)

    assert len(out.getvalue().splitlines()) == 3
    assert "line 4, the last, is cut off" in err.getvalue()


def test_a_zipped_recording_is_read_too(tmp_path: Path) -> None:
    path = written(MemoryScene().for_(20), tmp_path / "r")
    zipped = tmp_path / "r.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    assert replay(zipped, "--json") == replay(path, "--json")

    zipped.write_bytes(zipped.read_bytes()[:-20])
    with pytest.raises(SystemExit):
        replay(zipped, "--json")


def test_whoever_has_seen_enough_may_go(tmp_path: Path) -> None:
    path = written(MemoryScene().for_(5000), tmp_path / "r")
    command = f"{sys.executable} manage.py box replay --json {path} | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)  # noqa: S602
    assert json.loads(done.stdout)["verdict"] == "ok"
    assert done.stderr == ""


@pytest.mark.django_db
def test_a_recording_of_this_machine_can_be_replayed(tmp_path: Path) -> None:
    out = StringIO()

    call_command("box", "record", "--seconds", "2.5", stdout=out)

    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert len(lines) >= 2
    for key in ("t", "boot_id", "meminfo", "gpus", "processes", "containers", "shm", "events"):
        assert key in lines[0]
    path = tmp_path / "r"
    path.write_text(out.getvalue())
    assert replay(path, "--json") == [], "it has no GPU"


@pytest.mark.django_db
def test_a_snapshot_knows_this_install_s_containers() -> None:
    box = factories.box()
    factories.run(factories.server(box, "runs"), RunState.READY)
    factories.run(factories.server(box, "ended"), RunState.STOPPED)

    said: list[dict[str, Any]] = monitor.snapshot_containers(box)

    assert [(each["state"], each["ours"]) for each in said] == [("running", True), ("exited", True)]
    assert said[0]["stopped_at"] is None
    assert said[1]["stopped_at"] is not None
