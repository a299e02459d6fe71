"""Results of other programs as ours: llama-benchy, `vllm bench serve`, SGLang's bench_serving, llama-bench.

Sources: schemas/benchmark_report_schema.json of llama-benchy, vllm/benchmarks/serve.py,
python/sglang/bench_serving.py, tools/llama-bench of llama.cpp. Their times are milliseconds
(llama-bench's are tokens a second), ours seconds.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from statistics import fmean
from typing import Any

from servers.judge.benchmarks.cards import (
    KIND,
    MOST_POINTS,
    MOST_ROUNDS,
    UploadedResult,
    UploadError,
    build_figures,
    read_card,
    read_count,
    read_list,
    read_moment,
    read_number,
    read_text,
)
from servers.judge.benchmarks.comparison import MeasuredPoint
from servers.judge.benchmarks.points import PointFigures, Spread

_LONG = 1000  # tokens of a prompt that counts as a long one
_NONE_OF_THEM = (
    "It is none of the files that can be read: a result card, or the JSON of llama-benchy, "
    "vllm bench serve, SGLang’s bench_serving or llama-bench."
)


def read_upload(data: bytes) -> UploadedResult:
    """Raises UploadError, whose text says what it is instead."""
    runs = _parse(data)
    first = runs[0]
    if first.get("kind") == KIND:
        return read_card(first)
    if "measured_on" in first and "points" in first:
        raise UploadError("It is a JSON export without a hash. Download the result’s card instead.")
    if "benchmarks" in first and "latency_mode" in first:
        return _read_benchy(first)
    if all("avg_ts" in run and "n_gen" in run for run in runs):
        return _read_llama_bench(runs)
    if all("median_e2e_latency_ms" in run or "input_throughput" in run for run in runs):
        return _read_runs(runs, source="sglang", title="SGLang bench_serving")
    if all("output_throughput" in run and "completed" in run for run in runs):
        return _read_runs(runs, source="vllm", title="vllm bench serve")
    raise UploadError(_NONE_OF_THEM)


def _parse(data: bytes) -> list[Mapping[str, Any]]:
    """One document, or one a line. Raises UploadError."""
    try:
        text = data.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise UploadError("It is no text, so it is no JSON.") from None
    if not text:
        raise UploadError("It is empty.")
    try:
        found = [json.loads(text)]
    except ValueError:
        try:
            found = [json.loads(line) for line in text.splitlines() if line.strip()]
        except (ValueError, RecursionError):
            raise UploadError(f"It is no JSON: it begins with “{text[:30]}”.") from None
    except RecursionError:
        raise UploadError(_NONE_OF_THEM) from None
    if isinstance(found[0], list) and len(found) == 1:
        found = found[0]
    if not found or not all(isinstance(each, dict) for each in found):
        raise UploadError(_NONE_OF_THEM)
    return found


def _name(concurrency: int, prompt: int) -> str:
    if concurrency > 1:
        return "People at once"
    return "Long prompt" if prompt >= _LONG else "One person"


def _read_benchy(said: Mapping[str, Any]) -> UploadedResult:
    points = []
    for run in read_list(said, "benchmarks", MOST_POINTS):
        if not isinstance(run, dict) or run.get("is_context_prefill_phase") is True:
            continue
        concurrency = read_count(run, "concurrency") or 1
        prompt = (read_count(run, "context_size") or 0) + (read_count(run, "prompt_size") or 0)
        rounds = _read_benchy_rounds(run, concurrency)
        if rounds:
            points.append(
                MeasuredPoint(
                    name=_name(concurrency, prompt),
                    concurrency=concurrency,
                    prompt_tokens=prompt,
                    output_tokens=read_count(run, "response_size") or 0,
                    rounds=tuple(rounds),
                    taints=(),
                )
            )
    if not points:
        raise UploadError("It is a file of llama-benchy in which nothing was measured.")
    model = read_text(said, "model")
    return UploadedResult(
        source="llama-benchy",
        title=f"llama-benchy {read_text(said, 'version')}".strip()[:80],
        subject=model or "llama-benchy",
        at=read_moment(said.get("timestamp")) or _read_local(read_text(said, "timestamp")),
        preset="",
        preset_version=0,
        on={"model": model} if model else {},
        points=tuple(points),
    )


def _read_benchy_rounds(run: Mapping[str, Any], concurrency: int) -> list[PointFigures]:
    together = _list_values(run, "tg_throughput")
    count = len(together) or len(_list_values(run, "e2e_ttft"))
    each = _spread_rounds(_list_values(run, "tg_req_throughput"), count)
    first = _spread_rounds(_list_values(run, "e2e_ttft"), count)
    prompt = _spread_rounds(_list_values(run, "pp_throughput"), count)
    rounds = []
    for number in range(count):
        rate = together[number] if together else None
        ttft = first[number]
        rounds.append(
            build_figures(
                requests=concurrency,
                ttft=_spread(None if ttft is None else ttft / 1000),
                output_rate=rate,
                user_rate=rate if concurrency == 1 and rate else each[number],
                prefill_rate=prompt[number] if concurrency == 1 else None,
            )
        )
    return rounds


def _list_values(run: Mapping[str, Any], name: str) -> list[float]:
    metric = run.get(name)
    if not isinstance(metric, dict):
        return []
    values = read_list(metric, "values", MOST_ROUNDS * MOST_ROUNDS)
    found = [read_number({name: value}, name) for value in values] or [read_number(metric, "mean")]
    return [value for value in found if value is not None]


def _spread_rounds(values: Sequence[float], rounds: int) -> list[float | None]:
    """One a round: as they are, or the mean of each round's requests; else all as one of the first."""
    if not values or not rounds:
        return [None] * rounds
    size, rest = divmod(len(values), rounds)
    if rest:
        return [fmean(values), *[None] * (rounds - 1)]
    return [fmean(values[size * at : size * (at + 1)]) for at in range(rounds)]


def _spread(
    median: float | None, p90: float | None = None, p99: float | None = None
) -> Spread | None:
    if median is None:
        return None
    return Spread(median=median, p90=p90, p99=p99, worst=max(median, p90 or 0.0, p99 or 0.0))


def _read_llama_bench(runs: Sequence[Mapping[str, Any]]) -> UploadedResult:
    """A test reads a prompt or writes an answer; those behind the same length of text are a point."""
    if len(runs) > MOST_POINTS:
        raise UploadError(f"It has {len(runs)} tests, and at most {MOST_POINTS} are read.")
    depths: dict[int, dict[str, Mapping[str, Any]]] = {}
    for run in runs:
        has_prompt, has_answer = read_count(run, "n_prompt"), read_count(run, "n_gen")
        if bool(has_prompt) != bool(has_answer):  # a test of both tells neither
            kind = "prompt" if has_prompt else "answer"
            depths.setdefault(read_count(run, "n_depth") or 0, {}).setdefault(kind, run)
    points = []
    for depth, tests in sorted(depths.items()):
        answer, prompt = tests.get("answer", {}), tests.get("prompt", {})
        rates, reads = _list_samples(answer), _list_samples(prompt)
        if not rates and not reads:
            continue
        length = depth + (read_count(prompt, "n_prompt") or 0)
        rounds = [
            build_figures(
                requests=1,
                output_rate=rates[at] if at < len(rates) else None,
                user_rate=rates[at] if at < len(rates) else None,
                prefill_rate=reads[at] if at < len(reads) else None,
            )
            for at in range(max(len(rates), len(reads)))
        ]
        points.append(
            MeasuredPoint(
                name=_name(1, length), concurrency=1, prompt_tokens=length,
                output_tokens=read_count(answer, "n_gen") or 0, rounds=tuple(rounds), taints=(),
            )
        )  # fmt: skip
    if not points:
        raise UploadError("It is a file of llama-bench in which nothing was measured.")
    first = runs[0]
    model = read_text(first, "model_filename").rpartition("/")[2]
    build = read_count(first, "build_number")
    told = (
        ("model", model),
        ("engine", "llamacpp"),
        ("engine_version", f"b{build}" if build else ""),
    )
    return UploadedResult(
        source="llama-bench",
        title="llama-bench",
        subject=model or "llama-bench",
        at=read_moment(first.get("test_time")),
        preset="",
        preset_version=0,
        on={name: value for name, value in told if value},
        points=tuple(points),
    )


def _list_samples(run: Mapping[str, Any]) -> list[float]:
    """Tokens a second, a round each."""
    told = read_list(run, "samples_ts", MOST_ROUNDS) if run else []
    found = [read_number({"ts": each}, "ts") for each in told] or [
        read_number(run, "avg_ts") if run else None
    ]
    return [each for each in found if each is not None]


def _read_runs(runs: Sequence[Mapping[str, Any]], *, source: str, title: str) -> UploadedResult:
    """Runs of one shape are rounds of one point."""
    if len(runs) > MOST_POINTS:
        raise UploadError(f"It has {len(runs)} runs, and at most {MOST_POINTS} are read.")
    shapes: dict[tuple[str, int, int, int], list[PointFigures]] = {}
    for run in runs:
        if not (done := read_count(run, "completed")):
            continue
        prompt = round((read_number(run, "total_input_tokens") or 0) / done)
        output = round((read_number(run, "total_output_tokens") or 0) / done)
        rate = read_number(run, "request_rate") if run.get("request_rate") != "inf" else None
        limit = read_count(run, "max_concurrency")
        people = limit or read_count(run, "max_concurrent_requests") or done
        # Requests that come by the clock are no crowd of a fixed size, and not comparable with one.
        name = f"{rate:g} requests a second" if rate and not limit else _name(people, prompt)
        shapes.setdefault((name, people, prompt, output), []).append(_read_run(run, done))
    if not shapes:
        raise UploadError(f"It is a file of {title} in which no request succeeded.")
    first = runs[0]
    info = first.get("server_info")
    model = read_text(first, "model_id") or read_text(first, "model")
    if not model and isinstance(info, dict):
        model = read_text(info, "model_path")
    return UploadedResult(
        source=source,
        title=title,
        subject=model or title,
        at=_read_local(read_text(first, "date")),
        preset="",
        preset_version=0,
        on={name: value for name, value in (("model", model), ("engine", source)) if value},
        points=tuple(
            MeasuredPoint(
                name=name, concurrency=people, prompt_tokens=prompt, output_tokens=output,
                rounds=tuple(rounds), taints=(),
            )
            for (name, people, prompt, output), rounds in shapes.items()
        ),
    )  # fmt: skip


def _read_run(run: Mapping[str, Any], done: int) -> PointFigures:
    def read(*names: str) -> float | None:
        found = next((value for name in names if (value := read_number(run, name))), None)
        return None if found is None else found / 1000

    failed = read_count(run, "failed") or 0
    tpot = read("median_tpot_ms")
    return build_figures(
        requests=done + failed,
        failed=failed,
        seconds=read_number(run, "duration") or 0.0,
        ttft=_spread(read("median_ttft_ms"), read("p90_ttft_ms"), read("p99_ttft_ms")),
        tpot=_spread(tpot, read("p90_tpot_ms"), read("p99_tpot_ms")),
        e2el=_spread(
            read("median_e2el_ms", "median_e2e_latency_ms"),
            read("p90_e2el_ms", "p90_e2e_latency_ms"),
            read("p99_e2el_ms", "p99_e2e_latency_ms"),
        ),
        output_rate=read_number(run, "output_throughput"),
        user_rate=1 / tpot if tpot else None,
        prompt_tokens=read_count(run, "total_input_tokens"),
        output_tokens=read_count(run, "total_output_tokens"),
    )


def _read_local(text: str) -> datetime | None:
    """Of the formats that these programs write: "20260102-151617" or "2026-01-02 15:16:17", which name no time zone."""
    for form in ("%Y%m%d-%H%M%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%SZ"):
        try:
            return read_moment(datetime.strptime(text, form).replace(tzinfo=UTC).isoformat())
        except ValueError:
            continue
    return None
