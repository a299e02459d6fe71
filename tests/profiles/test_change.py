import pytest

from servers.launch.engines.change import LaunchChange, split_flags
from servers.launch.engines.launch import Launch


def launch(*flags: str, **values: object) -> Launch:
    base = {"engine": "vllm", "image": "vllm/vllm-openai:v0.20.2", "checkpoint": "Qwen/Qwen3-8B"}
    return Launch.from_json({**base, "flags": list(flags), **values})


def test_a_flag_that_is_set_already_keeps_its_place_and_is_set_once() -> None:
    before = launch("--tp", "4", "--max_model_len=4096", "--trust-remote-code", "--tp=8")

    after = LaunchChange(set_flags={"--tp": "2", "--max-model-len": "8192"}).apply(before)

    assert after.flags == ("--tp", "2", "--max-model-len", "8192", "--trust-remote-code")


def test_a_new_flag_comes_last_and_a_dropped_one_takes_its_values_with_it() -> None:
    before = launch("--cuda-graph-bs", "1", "2", "4", "--seed", "-1")

    after = LaunchChange(
        set_flags={"--enforce-eager": None}, drop_flags=("--cuda-graph-bs",)
    ).apply(before)

    assert after.flags == ("--seed", "-1", "--enforce-eager")


def test_an_adapter_more_keeps_the_others_and_takes_the_place_of_its_namesake() -> None:
    before = launch("--lora-modules", "sql=/a", "law=/b", "--seed", "1")

    more = LaunchChange(set_flags={"--lora-modules": "chat=/c"}).apply(before)
    other = LaunchChange(set_flags={"--lora-modules": ("law=/new", "chat=/c")}).apply(before)

    assert more.flags == ("--lora-modules", "sql=/a", "law=/b", "chat=/c", "--seed", "1")
    assert other.flags == ("--lora-modules", "sql=/a", "law=/new", "chat=/c", "--seed", "1")


def test_adapters_behind_flags_of_their_own_are_brought_together() -> None:
    """vLLM reads the last of several alone."""
    before = launch("--lora_modules", "sql=/a", "--seed", "1", "--lora-modules=law=/b")

    after = LaunchChange(set_flags={"--lora-modules": "chat=/c"}).apply(before)

    assert after.flags == ("--lora-modules", "sql=/a", "law=/b", "chat=/c", "--seed", "1")


def test_an_adapter_in_json_has_the_name_that_it_says() -> None:
    old, new = '{"name": "sql", "path": "/a"}', '{"name": "sql", "path": "/b"}'

    after = LaunchChange(set_flags={"--lora-modules": new}).apply(
        launch("--lora-modules", old, "x=/x")
    )

    assert after.flags == ("--lora-modules", new, "x=/x")


def test_a_repeated_flag_keeps_what_stands_behind_the_others() -> None:
    before = launch(
        *("--override-kv", "a.b=int:1", "--jinja", "--override-kv", "c.d=bool:true"),
        engine="llamacpp",
    )

    after = LaunchChange(set_flags={"--override-kv": ("c.d=bool:false", "e.f=int:2")}).apply(before)

    assert after.flags == (
        *("--override-kv", "a.b=int:1", "--override-kv", "c.d=bool:false"),
        *("--override-kv", "e.f=int:2", "--jinja"),
    )
    again = LaunchChange(set_flags={"--override-kv": "e.f=int:2"}).apply(after)
    assert again == after


def test_a_repeated_flag_of_two_words_keeps_both() -> None:
    before = launch("--lora-scaled", "/a.gguf", "0.5", engine="llamacpp")

    after = LaunchChange(set_flags={"--lora-scaled": "/b.gguf:1"}).apply(before)

    assert after.flags == ("--lora-scaled", "/a.gguf", "0.5", "--lora-scaled", "/b.gguf:1")


def test_several_values_replace_those_of_a_plain_list() -> None:
    before = launch("--cuda-graph-bs", "1", "2", "4", engine="sglang")

    after = LaunchChange.from_json({"set_flags": {"--cuda-graph-bs": [8, 16]}}).apply(before)

    assert after.flags == ("--cuda-graph-bs", "8", "16")


def test_dropping_and_setting_a_list_of_entries_begins_it_anew() -> None:
    before = launch("--lora-modules", "sql=/a", "law=/b")

    after = LaunchChange(
        drop_flags=("--lora-modules",), set_flags={"--lora-modules": "chat=/c"}
    ).apply(before)

    assert after.flags == ("--lora-modules", "chat=/c")


def test_variables_and_fields_change_and_reasons_go_with_what_they_explain() -> None:
    before = launch("--a", env={"OLD": "1", "KEPT": "2"}, reasons={"OLD": "because", "--a": "so"})

    after = LaunchChange(
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
        LaunchChange.from_json(said)


def test_flags_are_told_from_their_values() -> None:
    words = ("model", "--tp", "4", "--json={}", "--bs", "1", "-2.5", "-x")

    assert split_flags(words) == [
        ("", ("model",)),
        ("--tp", ("4",)),
        ("--json", ("{}",)),
        ("--bs", ("1", "-2.5")),
        ("-x", ()),
    ]
