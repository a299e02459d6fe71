"""What must hold of every sequence of samples, whatever is missing from them."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from servers.judge.memory.hardware.finding import RULES
from servers.judge.memory.hardware.judge import HardwareJudge, list_checked_parts
from tests.memory.hardware.scenes import UUID, T, card, gb10, xid

PARTS = {
    "pressure": st.none() | st.fixed_dictionaries({"some": st.floats(0, 100), "full": st.floats(0, 99)}),
    "swap": st.none() | st.fixed_dictionaries({"in": st.integers(0, 10**13), "out": st.just(0)}),
    "meminfo": st.none() | st.just({}) | st.just({"SwapTotal": 2**34, "SwapFree": 0}),
    "error_kind": st.sampled_from([None, "driver_mismatch", "no_library", "other", "unheard of"]),
    "stale_s": st.none() | st.floats(0, 90),
    "collector_ok": st.booleans(),
    "unseen": st.none() | st.just({"kernel_log": "Not here."}),
    "boot_id": st.sampled_from([None, "one", "one", "two"]),
    "disks": st.none() | st.fixed_dictionaries(
        {"cache": st.fixed_dictionaries({
            "path": st.just("/hf"), "free": st.integers(0, 2**41), "total": st.just(2**41)})}
    ),
    "happened": st.none() | st.lists(
        st.builds(xid, st.sampled_from([13, 48, 79, 9999]),
                  gpu=st.sampled_from([None, UUID, "GPU-elsewhere"])), max_size=3),
}  # fmt: skip
ODD = st.sampled_from([0, 1, 97, 10**6])


@st.composite
def cards(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Of two kinds, with values missing, null, or far off."""
    found = []
    for whole in (card(), gb10(index=1, uuid="GPU-two")):
        for name in draw(st.sets(st.sampled_from(sorted(whole)), max_size=8)):
            match draw(st.sampled_from(["null", "missing", "odd"])):
                case "null" if name != "index":
                    whole[name] = None
                case "missing" if name != "index":
                    del whole[name]
                case "odd" if isinstance(whole[name], int):
                    whole[name] = draw(ODD) if name != "index" else whole[name]
        found.append(whole)
    return found


@st.composite
def samples(draw: st.DrawFn) -> list[dict[str, Any]]:
    t, found = T, []
    for _step in range(draw(st.integers(1, 12))):
        t += draw(st.sampled_from([1, 1, 30, 4000, -20]))
        values = {name: draw(part) for name, part in PARTS.items() if draw(st.booleans())}
        sample = {"t": t, "gpus": draw(st.none() | cards()), **values}
        # What is so for a while is what rules are about.
        found += [sample | {"t": t + second} for second in range(draw(st.sampled_from([1, 25])))]
    return found


@settings(max_examples=100)
@given(samples())
def test_a_finding_is_whole_and_none_is_told_twice(sequence: list[dict[str, Any]]) -> None:
    judge = HardwareJudge()
    for sample in sequence:
        found = judge.step(sample)
        list_checked_parts(sample)

        assert len({each.key for each in found}) == len(found)
        for each in found:
            assert each.rule in RULES
            assert all((each.title, each.because, each.advice, each.subject))
            assert "None" not in each.title + each.because
