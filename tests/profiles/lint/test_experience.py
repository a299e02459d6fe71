"""What is known elsewhere against what the same profile has shown."""

from dataclasses import replace
from datetime import date

import pytest

from servers.judge.profiles.admission import LastGoodRun, weigh
from servers.judge.profiles.facts import LintFinding
from servers.launch.engines.launch import Launch

LAUNCH = Launch(
    engine="sglang", image="lmsysorg/sglang:v0.5.12", checkpoint="zai-org/GLM-5",
    flags=("--kv-cache-dtype", "fp8_e4m3"), env={"NCCL_P2P_LEVEL": "SYS"}, reasons={"--tp": "x"},
)  # fmt: skip
ERROR = LintFinding(rule="r", severity="error", says="It fails.", about="--kv-cache-dtype")


def worked(**changed: object) -> LastGoodRun:
    launch = replace(LAUNCH, **changed)  # type: ignore[arg-type]
    return LastGoodRun(launch=launch, version=3, day=date(2026, 11, 12))


def test_without_a_good_start_nothing_is_weighed() -> None:
    assert weigh([ERROR], LAUNCH, None) == [ERROR]


def test_the_very_same_launch_is_no_error_whatever_people_wrote_about_it() -> None:
    (found,) = weigh([ERROR], LAUNCH, worked(reasons={}, expected={"tok/s": "30"}))

    assert found.severity == "warning"
    assert found.yours == (
        "Yours last started with exactly these settings (version 3, ready here on 12 Nov 2026)."
    )


@pytest.mark.parametrize(
    ("changed", "about", "yours"),
    [
        ({"flags": ("--kv_cache_dtype", "bf16")}, "--kv-cache-dtype", "with --kv-cache-dtype bf16"),
        ({"flags": ()}, "--kv-cache-dtype", "without --kv-cache-dtype"),
        ({"image": "x:1"}, "--kv_cache_dtype", "with the same --kv_cache_dtype"),
        ({"env": {"NCCL_P2P_LEVEL": "NVL"}}, "NCCL_P2P_LEVEL", "with NCCL_P2P_LEVEL NVL"),
        ({"env": {}}, "NCCL_P2P_LEVEL", "without NCCL_P2P_LEVEL"),
        ({"ipc": "host"}, "ipc", "with this setting at host"),
        ({"shm_size": 1 << 30}, "ipc", "with the same setting"),
    ],
)
def test_another_launch_tells_what_it_had(
    changed: dict[str, object], about: str, yours: str
) -> None:
    (found,) = weigh([replace(ERROR, about=about)], LAUNCH, worked(**changed))

    assert found.severity == "error"
    assert found.yours.startswith(f"Yours last worked {yours} (version 3")


def test_of_what_is_missing_another_launch_says_nothing() -> None:
    (found,) = weigh([replace(ERROR, about="flags")], LAUNCH, worked(flags=()))

    assert found.yours == ""


def test_what_became_no_error_stands_below_what_is_one() -> None:
    note = LintFinding(rule="n", severity="warning", says="It is slow.", about="ipc")
    info = LintFinding(rule="i", severity="info", says="Good.", about="ipc")

    found = weigh([ERROR, note, info], LAUNCH, worked())

    assert [each.severity for each in found] == ["warning", "warning", "info"]
    assert found[2].yours == ""
