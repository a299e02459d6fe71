import pytest

from servers.engines.change import Change, split_flags
from servers.engines.launch import Launch


def launch(*flags: str, **values: object) -> Launch:
    base = {"engine": "vllm", "image": "vllm/vllm-openai:v0.20.2", "checkpoint": "Qwen/Qwen3-8B"}
    return Launch.from_json({**base, "flags": list(flags), **values})


def test_a_flag_that_is_set_already_keeps_its_place_and_is_set_once() -> None:
    before = launch("--tp", "4", "--max_model_len=4096", "--trust-remote-code", "--tp=8")

    after = Change(set_flags={"--tp": "2", "--max-model-len": "8192"}).apply(before)

    assert after.flags == ("--tp", "2", "--max-model-len", "8192", "--trust-remote-code")


def test_a_new_flag_comes_last_and_a_dropped_one_takes_its_values_with_it() -> None:
    before = launch("--cuda-graph-bs", "1", "2", "4", "--seed", "-1")

    after = Change(set_flags={"--enforce-eager": None}, drop_flags=("--cuda-graph-bs",)).apply(
        before
    )

    assert after.flags == ("--seed", "-1", "--enforce-eager")


def test_variables_and_fields_change_and_reasons_go_with_what_they_explain() -> None:
    before = launch("--a", env={"OLD": "1", "KEPT": "2"}, reasons={"OLD": "because", "--a": "so"})

    after = Change(
        drop_env=("OLD",), set_env={"NEW": "3"}, fields={"ipc": "host"}, reasons={"NEW": "why"}
    ).apply(before)

    assert after.env == {"KEPT": "2", "NEW": "3"}
    assert after.ipc == "host"
    assert after.reasons == {"--a": "so", "NEW": "why"}


@pytest.mark.parametrize(
    "said", [{"set_flag": {}}, {"fields": {"no_such": 1}}, {"fields": {"env": {}}}]
)
def test_a_change_of_something_that_does_not_exist_is_refused(said: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="has no"):
        Change.from_json(said)


def test_flags_are_told_from_their_values() -> None:
    words = ("model", "--tp", "4", "--json={}", "--bs", "1", "-2.5", "-x")

    assert split_flags(words) == [
        ("", ("model",)),
        ("--tp", ("4",)),
        ("--json", ("{}",)),
        ("--bs", ("1", "-2.5")),
        ("-x", ()),
    ]
