"""A launch written out and read back is the same launch."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servers.launch.commandline import export
from servers.launch.commandline.draft import DraftError, draft
from servers.launch.commandline.paste import read
from servers.launch.engines.launch import Launch
from tests.cases import table
from tests.commandline.pastes import PasteCase, cases

WORD = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=8)
VALUE = st.text(
    st.characters(codec="utf-8", exclude_categories=["C", "Z"], exclude_characters="$`"),
    min_size=1,
    max_size=12,
).filter(lambda text: not text.startswith("-"))
PATH = st.lists(WORD, min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts))
FLAG = st.tuples(WORD.map(lambda name: f"--x-{name.lower()}"), st.none() | VALUE)

RESTARTS: list[dict[str, Any]] = [
    {},
    {"restart": "always", "start_with_box": True},
    {"restart": "on-failure"},
    {"restart": "on-failure", "restart_tries": 5},
]


# Not among them, because a docker run line without it says nothing: init, grace, what it was
# made for. The YAML of profiles has them all.
@st.composite
def launches(draw: Any) -> Launch:
    engine = draw(st.sampled_from(["vllm", "sglang", "llamacpp"]))
    images = {"vllm": "vllm/vllm-openai:v1", "sglang": "lmsysorg/sglang:v1"}
    flags = draw(st.lists(FLAG, max_size=4, unique_by=lambda each: each[0]))
    return Launch(
        engine=engine,
        image=images.get(engine, "ghcr.io/ggml-org/llama.cpp:server-cuda"),
        checkpoint=draw(WORD) + "/" + draw(WORD),
        served_name=draw(st.just("") | WORD),
        flags=tuple(word for name, value in flags for word in (name, value) if word is not None),
        env=draw(st.dictionaries(WORD.map(lambda name: f"A_{name.upper()}"), VALUE, max_size=3)),
        port=draw(st.sampled_from([0, 5000])),
        host_port=draw(st.sampled_from([0, 9000])),
        host_address=draw(st.sampled_from(["127.0.0.1", "0.0.0.0", "10.0.0.7", "::1"])),
        volumes=tuple(f"{path}:/in{path}:ro" for path in draw(st.lists(PATH, max_size=2))),
        mount_hf_cache=draw(st.booleans()),
        pass_hf_token=draw(st.booleans()),
        gpus=draw(st.sampled_from(["all", "none", "0", "1,3"])),
        shm_size=draw(st.sampled_from([0, 1 << 30, 12345])),
        ipc=draw(st.sampled_from(["", "host"])),
        ulimits=draw(st.sampled_from([{}, {"memlock": -1, "stack": 67108864}])),
        cap_add=draw(st.sampled_from([(), ("SYS_NICE",)])),
        privileged=draw(st.booleans()),
        **draw(st.sampled_from(RESTARTS)),
    )


@given(launches())
def test_an_export_reads_back_as_the_same_launch(launch: Launch) -> None:
    for text in (export.docker_run(launch, name="x"), export.compose(launch, name="x")):
        [command] = read(text)

        assert draft(command, text=text).launch == launch, text


def test_reasons_are_written_as_comments_and_read_back() -> None:
    launch = Launch(
        engine="vllm",
        image="vllm/vllm-openai:v1",
        checkpoint="a/b",
        flags=("--max-model-len", "8192"),
        env={"NCCL_P2P_LEVEL": "SYS"},
        gpus="all",
        reasons={"--max-model-len": "more does not fit", "NCCL_P2P_LEVEL": "two sockets"},
    )
    for text in (export.docker_run(launch), export.compose(launch)):
        assert "# --max-model-len: more does not fit\n" in text
        [command] = read(text)
        assert draft(command, text=text).launch.reasons == launch.reasons


def test_secrets_are_exported_by_name_alone() -> None:
    launch = Launch(engine="vllm", image="i:1", checkpoint="a/b", secret_env={"MY_KEY": 7})

    text = export.docker_run(replace(launch, pass_hf_token=False))

    assert "-e MY_KEY \\\n" in text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("vllm serve a/b --tp 2  # two cards", {"--tp": "two cards"}),
        ("vllm serve a/b \\\n  # two cards\n  --tp 2", {"--tp": "two cards"}),
        ("export A=1  # why not\nvllm serve a/b", {"A": "why not"}),
        ("# start it:\nvllm serve a/b --tp 2", {"--tp": "start it:"}),
        ("vllm serve a/b \\\n  # --seed 3\n  --tp 2", {}),
        ("vllm serve a/b --tp 2 --x '#fff'", {}),
    ],
)
def test_comments_of_a_paste_become_reasons(text: str, why: dict[str, str]) -> None:
    [command] = read(text)

    assert draft(command, text=text).launch.reasons == why


@table("case", lambda: cases("gives"), ids=lambda case: case.name)
def test_every_pasted_launch_says_the_same_when_it_is_exported(case: PasteCase) -> None:
    for command in read(case.paste):
        try:
            launch = draft(command, text=case.paste).launch
        except DraftError:
            continue  # no engine, or an image that does not say which it holds
        if "$" in repr(launch) or not launch.checkpoint:
            continue  # what is still to be filled in
        text = export.docker_run(launch)
        [again] = read(text)
        assert draft(again, text=text).launch == launch
