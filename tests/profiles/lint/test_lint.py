"""The lint as a whole: what it says of whole launches, and that it takes whatever is typed."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servers.judge.profiles.facts import LintFinding
from servers.judge.profiles.lint import lint
from servers.launch.engines import ENGINES, SERVING
from servers.launch.engines.flaglist import all_shipped, newest, of_image
from tests.cases import table
from tests.profiles.lint.subjects import subject


def found(**said: Any) -> dict[str, LintFinding]:
    return {finding.rule: finding for finding in lint(subject(said))}


@table(
    ("engine", "image", "version"),
    [
        ("sglang", "lmsysorg/sglang:v0.5.12-cu130", "0.5.12"),
        ("sglang", "lmsysorg/sglang:v0.5.10.post1", "0.5.10.post1"),
        ("sglang", "registry.example:5000/mirror/lmsysorg/sglang:v0.5.12", "0.5.12"),
        ("sglang", "lmsysorg/sglang:latest-cu130", ""),
        ("sglang", "lmsysorg/sglang", ""),
        ("sglang", "lmsysorg/sglang@sha256:426d", ""),
        ("sglang", "lmsysorg/sglang:v0.5.12@sha256:426d", "0.5.12"),
        ("sglang", "voipmonitor/llm-pytorch-blackwell:v0.5.12", ""),
        ("vllm", "vllm/vllm-openai:v0.20.2", "0.20.2"),
        ("vllm", "vllm/vllm-openai:v0.20.2rc1-cu129", "0.20.2rc1"),
        ("vllm", "nvcr.io/nvidia/vllm:26.05-py3", ""),
        ("vllm", "rocm/vllm:rocm7.0.0_vllm_0.11.2_20251210", "0.11.2"),
        ("vllm", "rocm/vllm:rocm6.3.1_instinct_vllm0.8.3_20250410", "0.8.3"),
        ("vllm", "vllm/vllm-openai:v0.4.5", "0.4.5"),
        ("vllm", "vllm/vllm-openai-rocm:v0.14.0", "0.14.0"),
        ("vllm", "lmcache/vllm-openai:v0.3.7", ""),  # LMCache's own number
        ("vllm", "me/serve:sglang_0.5.12", ""),
        ("sglang", "rocm/sgl-dev:v0.5.5-rocm700-mi30x-20251110", "0.5.5"),
        ("sglang", "lmsysorg/sglang:v0.4.5_cu124", "0.4.5"),
        ("vllm", "localhost:5000/vllm", ""),
        ("llamacpp", "ghcr.io/ggml-org/llama.cpp:server-cuda-b6789", ""),
    ],
)
def test_the_version_that_an_image_names(engine: str, image: str, version: str) -> None:
    assert of_image(engine, image) == version


def test_a_flag_of_no_release_is_doubted_where_the_version_is_not_known() -> None:
    for image, severity in (("lmsysorg/sglang:latest", "warning"), ("me/fork:1", "info")):
        finding = found(flags="--context-lenght 8192", image=image)["unknown-flag"]

        assert finding.severity == severity
        assert finding.unknown == ("the flags of this image",)
        assert "Did you mean --context-length?" in finding.says
        assert finding.fix is None


def test_a_flag_that_only_older_versions_have_is_told_where_the_version_is_not_known() -> None:
    older = next(
        each for each in all_shipped("vllm")[1:] if set(each.names) - set(newest("vllm").names)
    )
    gone = min(set(older.names) - set(newest("vllm").names))

    finding = found(engine="vllm", flags=gone)["flag-elsewhere"]

    assert (finding.severity, finding.fix, finding.about) == ("info", None, gone)
    assert f" has {gone}, but {newest('vllm').version} does not." in finding.says
    assert finding.unknown == ("the flags of this image",)
    assert "flag-elsewhere" not in found(engine="vllm", version=older.version, flags=gone)


def test_a_variable_of_no_release_is_doubted_where_the_version_is_not_known() -> None:
    finding = found(engine="vllm", env={"VLLM_LOGING_LEVEL": "1"})["unknown-variable"]

    assert (finding.severity, finding.fix) == ("info", None)
    assert finding.says.endswith("Did you mean VLLM_LOGGING_LEVEL?")
    assert "does nothing" not in finding.says
    assert "unknown-variable" not in found(engine="vllm", env={"VLLM_LOGGING_LEVEL": "1"})


def test_the_list_of_exactly_the_image_decides() -> None:
    about = subject({"flags": "--context-lenght 8192 --brand-new"})
    flags = newest("sglang")
    own = replace(
        flags,
        version="0.6.0",
        flags=(*flags.flags, replace(flags.flags[0], names=("--brand-new",), takes="none")),
    )

    (only,) = [
        each
        for each in lint(replace(about, engine_version="0.6.0", flaglist=own))
        if each.rule == "unknown-flag"
    ]

    assert (only.severity, only.about) == ("error", "--context-lenght")
    assert only.fix is not None
    assert only.fix.apply(about.launch).flags == ("--brand-new", "--context-length", "8192")


def test_an_image_that_told_its_flags_keeps_the_variables_of_its_release() -> None:
    about = subject({"version": "0.5.23", "env": {"SGLANG_NO_SUCH_THING": "1"}})
    own = replace(newest("sglang"), env=None)

    rules = {each.rule for each in lint(replace(about, flaglist=own))}

    assert "unknown-variable" in rules


@table(
    ("flags", "says"),
    [
        ("--tp two", "--tp takes a whole number, not “two”."),
        ("--tp", "--tp needs a value."),
        ("--tp 2 4", "--tp takes one value, not 2."),
        ("--mem-fraction-static 90%", "--mem-fraction-static takes a number, not “90%”."),
        ("--trust-remote-code true", "--trust-remote-code takes no value; “true” after it"),
        ("--cuda-graph 8", "SGLang 0.5.23 does not know what --cuda-graph is short for"),
        ("--enable-nan-detection", "SGLang 0.5.23 has no --enable-nan-detection: it was removed"),
        ("--nsa-decode-backend fa3", "it was removed. Write --dsa-decode-backend."),
        ("--quux", "SGLang 0.5.23 has no --quux, and nothing like it."),
        ("--dtype bf16", "SGLang 0.5.23 does not know “bf16” for --dtype. Did you mean bfloat16?"),
    ],
)
def test_what_the_engines_parser_would_refuse_is_told(flags: str, says: str) -> None:
    errors = [
        each.says
        for each in lint(subject({"version": "0.5.23", "flags": flags}))
        if each.severity == "error"
    ]

    assert any(says in each for each in errors), errors


def test_json_that_is_none_is_told() -> None:
    assert (
        "is not valid JSON"
        in found(
            engine="vllm", version="0.33.0", flags="""--speculative-config '{"method": ngram}'"""
        )["flag-value"].says
    )


def test_a_rule_that_knows_more_speaks_alone() -> None:
    rules = found(version="0.5.23", flags="--tool-call-parser qwen3 --cuda-graph-max-bs 8")

    assert "tool-parser-qwen3-plain" in rules
    assert "cuda-graph-max-bs-renamed" in rules
    assert not {"flag-value", "unknown-flag"} & set(rules)
    rules = found(version="0.5.23", env={"SGLANG_ENABLE_SPEC_V2": "1"})
    assert "spec-v2-variable-obsolete" in rules
    assert "unknown-variable" not in rules


def test_a_fix_speaks_in_the_words_of_the_launch() -> None:
    about = subject({"flags": "--tp 6 -x 1 --tensor-parallel-size=6"})

    fix = {each.rule: each for each in lint(about)}["tp-power-of-two"].fix

    assert fix is not None
    assert fix.apply(about.launch).flags == (
        *("--tp", "2", "-x", "1", "--pipeline-parallel-size", "3"),
    )
    assert set(fix.reasons) == {"--tp", "--pipeline-parallel-size"}


def test_a_fix_keeps_what_else_a_json_value_says() -> None:
    said = {"engine": "vllm", "box": "1x12.1"}
    flags = """--distributed-executor-backend ray --compilation-config '{"mode": 3}'"""
    about = subject({**said, "flags": flags})

    fix = {each.rule: each for each in lint(about)}["spark-ray-piecewise-graphs"].fix

    assert fix is not None
    value = fix.apply(about.launch).flags[-1]
    assert json.loads(value) == {"mode": 3, "cudagraph_mode": "NONE"}
    parts = "--distributed-executor-backend ray -cc.mode 3"
    finding = found(**said, flags=parts)["spark-ray-piecewise-graphs"]
    assert finding.fix is None  # it would lose the mode


def test_a_variable_that_is_a_secret_is_dropped_as_one() -> None:
    about = subject({"engine": "vllm", "secret_env": {"VLLM_PORT": 3, "HF_TOKEN": 4}})

    fix = {each.rule: each for each in lint(about)}["vllm-port-variable"].fix

    assert fix is not None
    assert fix.apply(about.launch).secret_env == {"HF_TOKEN": 4}


def test_no_sentence_repeats_a_secret() -> None:
    secret = "hf_thisIsVerySecretIndeed"
    about = subject(
        {
            "version": "0.5.12",
            "flags": f"--api-key {secret} --api-key {secret} x --hf-token {secret}",
            "env": {"HF_TOKEN": secret, "WEIRD": f"a {secret}", "SGLANG_X_TOKEN": secret},
        }
    )

    every = lint(about)

    assert {"HF_TOKEN", "WEIRD", "--api-key"} <= {each.about for each in every}
    assert not any(secret in each.says or secret in str(each.sources) for each in every)


@pytest.mark.parametrize("value", ["", "1", "true", "/run/secrets/token"])
def test_what_is_no_secret_is_not_called_one(value: str) -> None:
    assert "secret-in-plain-text" not in found(env={"USE_AUTH_TOKEN": value})


def test_a_rename_is_offered_only_where_the_version_has_dropped_the_old_name() -> None:
    flags = "--cuda-graph-max-bs 8"

    assert found(version="0.5.23", flags=flags)["cuda-graph-max-bs-renamed"].fix is not None
    blind = found(flags=flags)["cuda-graph-max-bs-renamed"]
    assert (blind.severity, blind.fix) == ("warning", None)


def test_gpus_of_other_machines_are_not_missed_here() -> None:
    for flags in (
        "-tp 2 --distributed-executor-backend ray",
        "-tp 2 --nnodes 2",
        "--data-parallel-size 8 --data-parallel-size-local 1",
    ):
        assert "gpus-too-few" not in found(engine="vllm", box="1x12.1", flags=flags)
    assert "gpus-too-few" in found(engine="vllm", box="1x12.1", flags="-tp 2")


PUBLISHED = (
    "--tp 4 --trust-remote-code --attention-backend flashinfer"
    " --moe-runner-backend flashinfer_cutlass --kv-cache-dtype fp8_e4m3 --tool-call-parser qwen3"
    " --reasoning-parser qwen3 --quantization modelopt_fp4 --enable-pcie-oneshot-allreduce"
    " --mem-fraction-static 0.9 --cuda-graph-max-bs 8 --max-running-requests 8"
    " --fp8-gemm-backend triton --mamba-scheduler-strategy extra_buffer --sleep-on-idle"
)


@pytest.mark.parametrize(("version", "refused"), [("0.5.12", 2), ("0.5.23", 4)])
def test_clicking_every_fix_makes_a_published_command_start_on_another_release(
    version: str, refused: int
) -> None:
    now = subject(
        {
            "image": f"lmsysorg/sglang:v{version}",
            "checkpoint": "nvidia/Qwen3.5-397B-A17B-NVFP4",
            "box": "4x12.0",
            "flags": PUBLISHED,
            "ipc": "host",
        }
    )
    clicks = 0
    while errors := [each for each in lint(now) if each.severity == "error"]:
        fix = errors[0].fix
        assert fix is not None
        now = replace(now, launch=fix.apply(now.launch))
        clicks += 1

    assert clicks == refused
    assert "qwen3_coder" in now.launch.flags
    assert "--enable-pcie-oneshot-allreduce" not in now.launch.flags


def test_an_engine_on_the_cpu_needs_no_gpu() -> None:
    for said in ({"gpus": "none"}, {"box": ""}):
        rules = found(engine="vllm", **said)

        assert not {"gpus-too-few", "gpus-idle"} & set(rules)


WORDS = st.one_of(
    st.sampled_from([name for engine in SERVING for name in newest(engine).names]),
    st.sampled_from(["1", "8", "0.9", "fa3", "{}", "-O3", "-cc.mode", "--", "=", "--tp=", "$X"]),
    st.text(max_size=12),
)
VALUES = st.one_of(st.none(), st.integers(), st.text(max_size=5), st.lists(st.integers()))


@settings(max_examples=60)
@given(
    engine=st.sampled_from(sorted(ENGINES)),
    flags=st.lists(WORDS, max_size=8),
    env=st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=3),
    gpus=st.text(max_size=6),
    box=st.sampled_from([None, "", "2x12.0", "1x10.3 1x12.0"]),
    version=st.sampled_from(["", "0.5.12", "0.5.23", "0.33.0", "x"]),
    config=st.dictionaries(
        st.sampled_from(
            ["num_attention_heads", "num_key_value_heads", "text_config", "architectures"]
            + ["quantization_config", "model_type", "kv_lora_rank"]
        ),
        VALUES,
    ),
)
def test_whatever_is_typed_is_judged_and_every_fix_applies(
    engine: str,
    flags: list[str],
    env: dict[str, str],
    gpus: str,
    box: str | None,
    version: str,
    config: dict[str, Any],
) -> None:
    about = subject({"engine": engine, "version": version, "box": box, "config": config})
    about = replace(about, launch=replace(about.launch, flags=tuple(flags), env=env, gpus=gpus))

    for finding in lint(about):
        if finding.fix is not None:
            changed = finding.fix.apply(about.launch)
            assert changed != about.launch
            lint(replace(about, launch=changed))
