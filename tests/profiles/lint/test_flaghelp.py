"""What an engine's --help prints becomes its list of flags."""

import argparse
import re

import pytest

from servers.launch.engines.flaghelp import HelpError, parse_help
from servers.launch.engines.flaglist import FlagList
from tests.profiles.lint.test_flaglist import listed, parser_of

VLLM = """\
usage: vllm serve [model_tag] [options]

Launch a local OpenAI-compatible API server to serve LLM
completions via HTTP. Defaults to Qwen/Qwen3-0.6B if no model is specified.

Search by using: `--help=<ConfigGroup>` to explore options by section (e.g.,
--help=ModelConfig, --help=Frontend)

positional arguments:
  model_tag             The model tag to serve (optional if specified in
                        config) (default: None)

options:
  --headless            Run in headless mode. See multi-node data parallel
                        documentation for more details. (default: False)
  -h, --help            show this help message and exit

ModelConfig:
  Configuration for the model.

  --dtype {auto,bfloat16,float,float16,float32,half}
                        Data type for model weights and activations:

                        - "auto" will use FP16 precision for FP32 models.

                        - "half" for FP16. (default: auto)
  --config-format ['auto', 'hf', 'mistral']
                        The format of the model config to load. (default: auto)
  --tool-call-parser {hermes,kimi_k2} or name registered in --tool-parser-plugin
                        The parser for tool calls. (default: None)
  --hf-token [HF_TOKEN]
                        The token to use (default: None)
  --served-model-name SERVED_MODEL_NAME [SERVED_MODEL_NAME ...]
                        The model name(s) used in the API. (default: None)
  --trust-remote-code, --no-trust-remote-code
                        Trust remote code. (default: False)

ParallelConfig:
  Configuration for the distributed execution.

  --enable-expert-parallel, --no-enable-expert-parallel, -ep
                        Use expert parallelism. (default: False)
  --tensor-parallel-size TENSOR_PARALLEL_SIZE, -tp TENSOR_PARALLEL_SIZE
                        Number of tensor parallel groups. (default: 1)

VllmConfig:
  --compilation-config COMPILATION_CONFIG, -cc COMPILATION_CONFIG
                        Configuration of compilation.

                        Should either be a valid JSON string or JSON keys
                        passed individually. (default: {'mode': None})

When passing JSON CLI arguments, the following sets of arguments are equivalent:
   --json-arg '{"key1": "value1", "key2": {"key3": "value2"}}'
   --json-arg.key1 value1 --json-arg.key2.key3 value2
"""

LLAMACPP = """\
----- common params -----

-h,    --help, --usage                  print usage and exit
--version                               show version and build info
-t,    --threads N                      number of CPU threads to use during generation (default: -1)
                                        (env: LLAMA_ARG_THREADS)
-fa,   --flash-attn [on|off|auto]       set Flash Attention use ('on', 'off', or 'auto', default: 'auto')
                                        (env: LLAMA_ARG_FLASH_ATTN)
-kvo,  --kv-offload, -nkvo, --no-kv-offload
                                        whether to enable KV cache offloading (default: enabled)
                                        (env: LLAMA_ARG_KV_OFFLOAD)
-ctk,  --cache-type-k TYPE              KV cache data type for K
                                        allowed values: f32, f16, bf16
                                        (default: f16)
                                        (env: LLAMA_ARG_CACHE_TYPE_K)
--split-mode {none,layer,row}           how to split the model
--control-vector-layer-range START END
                                        layer range to apply the control vector(s) to
--draft, --draft-n, --draft-max N       the argument has been removed. use --spec-draft-n-max or
                                        --spec-ngram-mod-n-max
                                        (env: LLAMA_ARG_DRAFT_MAX)
--spec-ngram-size-n N                   the argument has been removed. use the respective
                                        --spec-ngram-*-size-n or --spec-ngram-mod-n-match
-dt,   --defrag-thold N                 KV cache defragmentation threshold (DEPRECATED)


----- example-specific params -----

--no-host                               bypass host buffer
"""


@pytest.mark.parametrize(("engine", "version"), [("sglang", "0.5.23"), ("vllm", "0.33.0")])
@pytest.mark.parametrize("columns", ["80", "200"])
def test_what_argparse_prints_is_read_back(
    engine: str, version: str, columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All flags of a release, printed by Python's own formatter, in a narrow and a wide terminal."""
    monkeypatch.setenv("COLUMNS", columns)
    flags = listed(engine, version)

    read = parse_help(engine, parser_of(flags).format_help(), version=version)

    def shape(of: FlagList) -> list[tuple[object, ...]]:
        return sorted(
            (
                frozenset((*flag.names, *flag.off)),
                flag.takes if flag.takes != "unknown" else "none",
                flag.choices if flag.takes != "none" else (),
            )
            for flag in of.flags
        )

    by_names = sorted(map(str, shape(read)))
    assert by_names == sorted(map(str, shape(flags)))
    assert read.env is None


def test_vllm_says_more_of_its_flags() -> None:
    flags = parse_help("vllm", VLLM, version="0.32.1")
    found = {flag.name: flag for flag in flags.flags}

    assert set(found) == {
        "--headless",
        "--help",
        "--config-format",
        "--tool-call-parser",
        "--dtype",
        "--hf-token",
        "--served-model-name",
        "--trust-remote-code",
        "--enable-expert-parallel",
        "--tensor-parallel-size",
        "--compilation-config",
    }
    assert found["--dtype"].choices[:2] == ("auto", "bfloat16")
    assert found["--dtype"].default == "auto"
    assert found["--config-format"].known == ("auto", "hf", "mistral")
    assert found["--config-format"].takes == found["--tool-call-parser"].takes == "one"
    assert found["--tool-call-parser"].known == ("hermes", "kimi_k2")
    assert found["--tool-call-parser"].choices == ()
    assert found["--hf-token"].takes == "optional"
    assert found["--served-model-name"].takes == "many"
    assert found["--trust-remote-code"].off == ("--no-trust-remote-code",)
    assert found["--enable-expert-parallel"].names == ("--enable-expert-parallel", "-ep")
    assert found["--tensor-parallel-size"].names == ("--tensor-parallel-size", "-tp")
    assert found["--tensor-parallel-size"].help == "Number of tensor parallel groups."
    assert found["--compilation-config"].type == "json?"
    assert flags.version == "0.32.1"


def test_names_before_one_value_as_later_pythons_print_them() -> None:
    text = "options:\n  -h, --help  help\n  -a, --bb X  text (default: 1)\n  --cc\n"

    assert [(f.names, f.takes, f.default) for f in parse_help("sglang", text).flags] == [
        (("--help", "-h"), "none", ""),
        (("--bb", "-a"), "one", "1"),
        (("--cc",), "none", ""),
    ]


def test_llama_server_says_variables_too() -> None:
    flags = parse_help("llamacpp", LLAMACPP)
    found = {flag.name: flag for flag in flags.flags}

    assert found["--help"].names == ("--help", "--usage", "-h")
    assert found["--version"].takes == "none"
    assert found["--threads"].env == "LLAMA_ARG_THREADS"
    assert found["--threads"].default == "-1"
    assert found["--flash-attn"].known == ("on", "off", "auto")
    assert found["--kv-offload"].names == ("--kv-offload", "-kvo")
    assert found["--kv-offload"].off == ("--no-kv-offload", "-nkvo")
    assert found["--kv-offload"].takes == "none"
    assert found["--cache-type-k"].default == "f16"
    assert found["--split-mode"].known == ("none", "layer", "row")
    assert found["--control-vector-layer-range"].takes == "many"
    assert found["--defrag-thold"].is_deprecated
    assert found["--no-host"].names == ("--no-host",)
    assert "--draft-max" not in found
    assert flags.removed["--draft-max"] == flags.removed["--draft"] == "--spec-draft-n-max"
    assert flags.removed["--spec-ngram-size-n"] is None
    assert flags.nearest("--draft-n") == "--spec-draft-n-max"
    assert flags.env is not None
    assert "LLAMA_ARG_KV_OFFLOAD" in flags.env
    assert "LLAMA_ARG_DRAFT_MAX" not in flags.env


@pytest.mark.parametrize("text", ["", "Traceback (most recent call last):\n  File …\nImportError"])
def test_an_error_instead_of_help_is_told(text: str) -> None:
    with pytest.raises(HelpError, match=re.escape("lists no flags of vllm")):
        parse_help("vllm", text)


def test_the_parser_that_prints_is_pythons_own() -> None:
    assert isinstance(parser_of(listed("vllm", "0.33.0")), argparse.ArgumentParser)
