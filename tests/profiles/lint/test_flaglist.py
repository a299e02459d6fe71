"""Flags are understood as the engines' own parsers understand them."""

import argparse
import json

import pytest

from servers.launch.engines import ENGINES
from servers.launch.engines.flaglist import (
    Flag,
    FlagList,
    all_shipped,
    load_shipped,
    nearest_value,
    newest,
)
from tests.cases import table

NARGS = {"optional": "?", "many": "*"}
ALL = [each for engine in ENGINES for each in all_shipped(engine)]
each_list = pytest.mark.parametrize("flags", ALL, ids=[f"{x.engine}-{x.version}" for x in ALL])


def listed(engine: str, version: str) -> FlagList:
    found = load_shipped(engine, version)
    assert found is not None
    return found


def parser_of(flags: FlagList) -> argparse.ArgumentParser:
    """Python's own parser with these flags, as vLLM and SGLang build it."""
    parser = argparse.ArgumentParser(prog="engine", add_help=False)
    for flag in flags.flags:
        names = [*flag.names, *flag.off]
        if flag.takes in ("none", "unknown"):
            parser.add_argument(*names, dest=flag.name, action="append_const", const=1)
        else:
            choices = list(flag.choices) or None
            nargs = NARGS.get(flag.takes)
            parser.add_argument(
                *names, dest=flag.name, nargs=nargs, choices=choices, help="What it is for."
            )
    return parser


@each_list
def test_a_shipped_list_names_each_flag_once(flags: FlagList) -> None:
    names = [name for flag in flags.flags for name in (*flag.names, *flag.off)]

    assert len(names) == len(set(names)) > 200
    assert all(name.startswith("-") for name in names)
    assert all(new is None or flags.find(new.split("=")[0]) for new in flags.removed.values())


@each_list
def test_a_list_survives_being_kept(flags: FlagList) -> None:
    assert FlagList.from_json(json.loads(json.dumps(flags.to_json()))) == flags


@pytest.mark.parametrize("version", ["0.5.12", "0.5.23"])
def test_beginnings_of_flags_mean_what_argparse_says(version: str) -> None:
    """Every beginning of every SGLang flag, against Python's own parser."""
    flags = listed("sglang", version)
    # argparse has no public way to ask what a word matches.
    tuples = parser_of(flags)._get_option_tuples
    words = {name[:end] for name in flags.names for end in range(4, len(name) + 1)}
    for word in sorted(words - set(flags.names)):
        found = tuples(word)
        meant = {action.dest for action, *_ in found}
        mine = flags.find(word)

        assert (mine is not None) == (len(meant) == 1 and len({f[1] for f in found}) >= 1), word
        if mine is not None:
            assert meant == {mine.name}


def test_sglang_takes_short_forms_until_they_are_ambiguous() -> None:
    old, new = listed("sglang", "0.5.12"), listed("sglang", "0.5.23")

    assert old.find("--speculative-algo") == old.find("--speculative-algorithm") is not None
    assert old.find("--tp") == old.find("--tensor-parallel-size") is not None
    assert new.find("--pp") is None
    assert len(new.matches("--pp")) > 1
    assert old.find("--cuda-graph-max-bs") is not None
    assert new.matches("--cuda-graph-max-bs") == (
        "--cuda-graph-max-bs-decode",
        "--cuda-graph-max-bs-prefill",
    )
    assert new.find("--mem_fraction_static") is None


def test_vllm_takes_underscores_levels_and_parts_of_json() -> None:
    flags = listed("vllm", "0.33.0")

    def name(word: str) -> str | None:
        found = flags.find(word)
        return found.name if found else None

    assert name("--max_model_len") == "--max-model-len"
    assert name("-tp") == "--tensor-parallel-size"
    assert name("-O3") == "--optimization-level"
    assert name("-O.cudagraph_mode") == "--compilation-config"
    assert name("-cc.cudagraph_mode") == "--compilation-config"
    assert name("--compilation-config.pass_config.fuse_norm") == "--compilation-config"
    assert name("--disable-prefix-caching") == "--enable-prefix-caching"
    assert flags.is_off("--disable-prefix-caching")
    assert listed("vllm", "0.20.2").is_off("--no-enable-prefix-caching")


def test_llamacpp_takes_underscores_and_no_beginnings() -> None:
    flags = newest("llamacpp")

    assert flags.find("--ctx_size") == flags.find("-c") is not None
    assert flags.find("--ctx") is None


@table(
    ("engine", "version", "typed", "meant"),
    [
        ("sglang", "0.5.12", "--enable-sleep-on-idle", "--sleep-on-idle"),
        ("sglang", "0.5.12", "--sleep-when-idle", "--sleep-on-idle"),
        ("sglang", "0.5.12", "--mem_fraction_static", "--mem-fraction-static"),
        ("sglang", "0.5.23", "--mamba-scheduler-strategy", "--mamba-radix-cache-strategy"),
        ("sglang", "0.5.23", "--nsa-decode-backend", "--dsa-decode-backend"),
        ("vllm", "0.33.0", "--max-model-length", "--max-model-len"),
        ("vllm", "0.33.0", "--no-enable-prefix-caching", "--disable-prefix-caching"),
        ("vllm", "0.33.0", "--gpu-memory-utilisation", "--gpu-memory-utilization"),
        ("sglang", "0.5.12", "--enable-pcie-oneshot-allreduce", None),
    ],
)
def test_did_you_mean(engine: str, version: str, typed: str, meant: str | None) -> None:
    assert listed(engine, version).find(typed) is None
    assert listed(engine, version).nearest(typed) == meant


def test_did_you_mean_of_values() -> None:
    assert nearest_value("flash_infer", ("triton", "flashinfer")) == "flashinfer"
    assert nearest_value("deepseek-v4", ("deepseekv4", "qwen")) == "deepseekv4"
    assert nearest_value("x", ("triton", "flashinfer")) is None


@table(
    ("engine", "version", "is_there"),
    [
        ("sglang", "0.5.12", True),
        ("sglang", "0.5.12.post1", True),
        ("sglang", "0.5.13", False),
        ("sglang", "", False),
        ("sglang", "0.5.12.dev3+g1234", False),
        ("vllm", "0.33.0", True),
        ("vllm", "0.33.1", False),
        ("llamacpp", "b6789-0c1e570", True),
        ("llamacpp", "b6789", False),
        ("llamacpp", "", False),
    ],
)
def test_a_list_serves_its_own_release_only(engine: str, version: str, is_there: bool) -> None:
    assert (load_shipped(engine, version) is not None) is is_there


def test_a_flag_stands_for_its_names() -> None:
    flags = FlagList(
        engine="sglang", version="", flags=(Flag(names=("--one", "-o"), off=("--no-one",)),)
    )

    assert flags.find("-o") == flags.find("--no-o") == flags.flags[0]
    assert flags.names == ("--one", "-o", "--no-one")
