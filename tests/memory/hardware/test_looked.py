"""What a calm page says it has looked at, and what it says it cannot see."""

from typing import Any

import pytest

from servers.judge.memory.hardware.judge import list_checked_parts
from tests.memory.hardware.scenes import HardwareScene, card, gb10

LOG = "The kernel's log is not here."


def unseen(sample: dict[str, Any]) -> dict[str, str]:
    return {each.what: each.unseen for each in list_checked_parts(sample) if not each.is_seen}


def test_a_box_that_tells_everything_hides_nothing() -> None:
    assert unseen(HardwareScene(card(), card(index=1, uuid="GPU-two")).sample()) == {}


def test_a_gb10_says_what_it_does_not_report() -> None:
    assert unseen(HardwareScene(gb10()).sample()) == {
        "errors of GPU memory (ECC)": "The GPU does not report it.",
        "replaced rows and pages": "The GPU does not report it.",
        "PCIe links": "A GPU on the chip has none.",
    }


def test_the_card_that_does_not_tell_is_named() -> None:
    sample = HardwareScene(card(), card(index=1, uuid="GPU-two", ecc=None)).sample()
    assert unseen(sample) == {"errors of GPU memory (ECC)": "GPU 1 does not report it."}


@pytest.mark.parametrize(
    ("reasons", "words"),
    [
        ({}, None),
        (
            {"kernel_log": LOG},
            f"NVML reports them, but only what comes while inferdash runs. {LOG}",
        ),
        (
            {"nvml_xids": "GPU 0 reports none."},
            "The kernel's log has them. GPU 0 reports none.",
        ),
        ({"nvml_xids": "NVML does not.", "kernel_log": LOG}, f"NVML does not. {LOG}"),
    ],
)
def test_where_xids_are_heard_of(reasons: dict[str, str], words: str | None) -> None:
    scene = HardwareScene()
    scene.values["unseen"] = reasons
    assert unseen(scene.sample()).get("XID errors") == words


def test_what_the_machine_does_not_tell() -> None:
    scene = HardwareScene()
    scene.values |= {"pressure": None, "swap": None, "disks": None}
    assert unseen(scene.sample()) == {
        "memory pressure": "The kernel does not measure it.",
        "swap": "The kernel does not report it.",
        "disks": "Not known of Docker's folder, the models' folder and /dev/shm.",
    }


def test_a_box_without_a_gpu_is_not_said_to_have_a_driver_that_is_well() -> None:
    scene = HardwareScene()
    scene.cards = []
    scene.values |= {"error_kind": "no_library", "error": "No GPU …", "collector_ok": False}
    assert unseen(scene.sample()) == {
        "the driver and its library": "NVIDIA's library is not installed, so no GPU is looked at."
    }
