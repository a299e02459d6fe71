"""What the watcher makes of a sample, what is kept of it, and recordings judged again."""

import json
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from servers.judge.alerts import attention
from servers.judge.alerts.attention import AttentionAlert, BoxState
from servers.judge.alerts.boxes import of_sample
from servers.judge.memory import holders
from servers.models import Box, HostResources
from servers.watcher import box_row
from servers.watcher.memory import monitor
from servers.watcher.memory.monitor import DISKS_KEEP, HardwareMonitor
from tests import factories, samples
from tests.memory.hardware.scenes import HardwareScene, card, disk, idle, xid

pytestmark = pytest.mark.django_db


@pytest.fixture
def box() -> Box:
    return factories.box("here")


def keep(box: Box, **disks: Any) -> None:
    factories.observation(HostResources, box, found={"disks": disks}, looked_at=timezone.now())


def test_a_judged_sample_carries_its_findings_and_its_disks(box: Box) -> None:
    keep(box, cache=disk(2, 900))
    sample = HardwareScene().sample() | {"verdicts": []}

    judged = HardwareMonitor(box).judge(sample)

    assert judged["verdicts"] == []
    assert judged["disks"]["cache"]["path"] == "/data/hf"
    assert [(each["rule"], each["subject"]) for each in judged["findings"]] == [
        ("disk", "/data/hf")
    ]
    json.dumps(judged)


def test_disks_that_nobody_has_looked_at_for_long_accuse_nobody(box: Box) -> None:
    sample = {key: value for key, value in HardwareScene().sample().items() if key != "disks"}
    assert HardwareMonitor(box).judge(sample)["findings"] == []
    keep(box, cache=disk(2, 900))
    HostResources.objects.update(looked_at=timezone.now() - DISKS_KEEP - timedelta(seconds=5))

    judged = HardwareMonitor(box).judge(sample)

    assert (judged["disks"], judged["findings"]) == (None, [])


def test_a_box_whose_hardware_has_a_fault_needs_attention(box: Box) -> None:
    assert box.health == "ok"
    broken, odd = (
        HardwareScene(card(throttle=["hw_thermal"])),
        HardwareScene(idle(persistence=False)),
    )
    for scene, health in ((broken, "attention"), (odd, "ok")):
        findings = [each.to_json() for each in scene.pass_(60)]
        assert findings
        box.facts |= {"faults": box_row.faults({"findings": findings})}
        assert box.health == health


def test_a_recording_has_what_its_hardware_is_judged_by(box: Box) -> None:
    keep(box, cache=disk(2, 900))
    whole = monitor.complete_snapshot({"t": 1.0}, box)
    assert whole["disks"]["cache"]["free"] == 2 * 2**30


def replay(path: Path, *options: str) -> list[str]:
    out = StringIO()
    call_command("box", "replay", str(path), "--hardware", *options, stdout=out)
    return out.getvalue().splitlines()


def recorded(path: Path) -> Path:
    scene = HardwareScene(card())
    lines = [scene.sample()]
    for second in range(240):
        scene.t += 1
        scene.cards = [card(throttle=["hw_thermal"] if 20 < second < 120 else [])]
        if second == 200:
            scene.values["happened"] = [xid(79, first=scene.t, last=scene.t)]
        lines.append(json.loads(json.dumps(scene.sample())))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_recording_is_judged_again_by_what_changes(tmp_path: Path) -> None:
    lines = replay(recorded(tmp_path / "r"))

    said = [line.split(" ", 2)[2].split(".")[0] for line in lines]
    assert said == [
        "critical: GPU 0 is too hot",
        "warning: GPU 0 is too hot",
        "over: GPU 0 is too hot",
        "critical: GPU 0 reported XID 79: it fell off the bus",
    ]


def test_as_json_a_step_is_a_line(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in replay(recorded(tmp_path / "r"), "--json")]

    assert len(lines) == 241
    assert lines[0]["findings"] == []
    assert [each["rule"] for each in lines[-1]["findings"]] == ["xid"]


def test_a_recording_of_an_earlier_version_accuses_nobody(tmp_path: Path) -> None:
    path = tmp_path / "old"
    old = {"index": 0, "uuid": "GPU-1", "kind": "discrete", "total": 96, "util": 97}
    path.write_text(
        "".join(
            json.dumps({"t": float(t), "boot_id": "x", "meminfo": None, "gpus": [old]}) + "\n"
            for t in range(100)
        )
    )
    assert replay(path) == []


def test_what_is_found_and_the_alert_that_tells_of_it_are_one_notice() -> None:
    scene = HardwareScene(card(throttle=["hw_thermal"], persistence=False))
    findings = [each.to_json() for each in scene.pass_(60)]
    problems = (("No GPU is seen", "Reboot."), ("Docker cannot be used", "Start it."))
    state = BoxState(
        slug="here",
        is_silent=False,
        was_seen=True,
        problems=problems,
        sample=scene.sample() | {"findings": findings},
    )
    notices = attention.of_boxes([state])

    assert [each.what for each in notices] == [
        "No GPU is seen", "Docker cannot be used", "GPU 0 is too hot",
    ]  # fmt: skip
    (case,) = (each for each in of_sample("here", state.sample).cases if each.kind == "thermal")
    told = AttentionAlert(
        pk=7,
        box="here",
        server="",
        kind=case.kind,
        subject=case.subject,
        severity=case.severity,
        title=case.title,
        fix=case.advice,
        is_known=False,
        raised_at=timezone.now(),
    )
    assert [each.alert for each in attention.with_alerts(notices, [told])] == [None, None, 7]
    known = attention.with_alerts(notices, [replace(told, is_known=True)])
    assert [each.what for each in known] == ["No GPU is seen", "Docker cannot be used"]


def test_what_the_driver_s_own_finding_says_is_not_said_twice() -> None:
    scene = HardwareScene()
    scene.cards = []
    scene.values |= {"error_kind": "driver_mismatch", "error": "Reboot.", "collector_ok": False}
    findings = [each.to_json() for each in scene.pass_(30)]
    state = BoxState(
        slug="here",
        is_silent=False,
        was_seen=True,
        problems=(("No GPU is seen", "Reboot."),),
        sample=scene.sample() | {"findings": findings},
    )

    assert [each.what for each in attention.of_boxes([state])] == [
        "The NVIDIA driver and its library are of different versions"
    ]


def test_an_odd_answer_hides_nothing_else_of_a_card_and_a_lost_one_hides_all() -> None:
    words = "This GPU does not tell its power: Unknown Error."
    odd = samples.card(0, [], fault=words, fault_kind="odd")
    lost = samples.card(1, [], fault="It no longer answers.", fault_kind="lost")

    shown = holders.gpus(samples.sample([odd, lost], []), {})

    assert [gpu.fault for gpu in shown] == ["", "It no longer answers."]
