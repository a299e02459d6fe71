"""The engines' own benchmark programs, as far as their JSON: they ask the server, one after the other.

`vllm bench serve` writes a file, `sglang.bench_serving` a line a run, `llama-bench` prints.
"""

import argparse
import json
import os
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any


def main(program: str, words: list[str]) -> None:
    if program == "llama-bench":
        print(json.dumps(_list_tests(_read(words))))
        return
    said = _read(words)
    print(f"{program}: {said.num_prompts} requests", flush=True)
    result = _measure(said)
    if program == "sglang":
        Path(said.output_file).write_text(json.dumps(result) + "\n")
    else:
        (Path(said.result_dir) / said.result_filename).write_text(json.dumps(result))


def _read(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    for name in ("base-url", "model", "served-model-name", "output-file", "result-dir"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--result-filename")
    for name in ("num-prompts", "max-concurrency", "random-output-len"):
        parser.add_argument(f"--{name}", type=int, default=1)
    for name in ("-p", "-n", "-r"):
        parser.add_argument(name, type=int, default=1)
    parser.add_argument("-m")
    return parser.parse_known_args(words)[0]


def _measure(said: argparse.Namespace) -> dict[str, Any]:
    began = time.monotonic()
    tokens = prompts = 0
    for number in range(said.num_prompts):
        body = {
            "model": said.served_model_name or said.model,
            "messages": [{"role": "user", "content": f"{number} [[tokens 4]]"}],
            "max_tokens": said.random_output_len,
        }
        request = urllib.request.Request(  # noqa: S310 - of the engine beside
            f"{said.base_url}/v1/chat/completions",
            json.dumps(body).encode(),
            {
                "Content-Type": "application/json",
                "Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', '')}",
            },
        )
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            used = json.load(answer)["usage"]
        tokens += used["completion_tokens"]
        prompts += used["prompt_tokens"]
    took = time.monotonic() - began
    each = 1000 * took / said.num_prompts
    names = ("ttft", "tpot", "itl", "e2el", "e2e_latency")
    return {
        "date": "20260102-151617", "model_id": said.model, "completed": said.num_prompts,
        "failed": 0, "duration": took, "request_rate": "inf",
        "max_concurrency": said.max_concurrency, "total_input_tokens": prompts,
        "total_output_tokens": tokens, "output_throughput": tokens / took,
        **{f"median_{name}_ms": each for name in names},
    }  # fmt: skip


def _list_tests(said: argparse.Namespace) -> list[dict[str, Any]]:
    common = {"model_filename": said.m, "build_number": 1, "n_depth": 0}
    return [
        {**common, "n_prompt": said.p, "n_gen": 0, "avg_ts": 900.0, "samples_ts": [900.0] * said.r},
        {**common, "n_prompt": 0, "n_gen": said.n, "avg_ts": 50.0, "samples_ts": [50.0] * said.r},
    ]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
