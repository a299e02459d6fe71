"""Results of check-ups as servers have them: for tests of pages."""

import dataclasses
from datetime import timedelta
from typing import Any

from django.utils import timezone

from servers.host.benchmarks.timings import RequestTiming
from servers.judge.benchmarks.points import PointConditions, summarise
from servers.judge.benchmarks.presets import load_presets
from servers.models import Benchmark, Server, User
from servers.models.benchmarks import BenchmarkOutcome

# Rounds are never alike: by these shares of their mean.
SPREAD = (0.99, 1.0, 1.012)
MEASURED_ON = {
    "profile": "MiniMax M2.7", "version": 3, "image": "vllm/vllm-openai:v0.20.2",
    "image_digest": "vllm/vllm-openai@sha256:9c1b" + "4" * 60, "engine": "vllm",
    "engine_version": "0.20.2", "model": "lukealonso/MiniMax-M2.7-NVFP4", "commit": "4f1a9e2",
    "driver": "580.95.05", "gpus": "0,1",
    "cards": [
        {"index": index, "name": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
         "power_limit_w": 600.0, "sm_mhz": 2422, "sm_max_mhz": 2617}
        for index in (0, 1)
    ],
}  # fmt: skip


def timing(rate: float, first: float, at: float, tokens: int, prompt: int) -> RequestTiming:
    stamps = tuple(at + first + number / rate for number in range(tokens))
    return RequestTiming(
        planned=at, sent=at, stamps=stamps, first_visible=stamps[0], prompt_tokens=prompt,
        output_tokens=tokens, cached_tokens=0,
    )  # fmt: skip


def benchmark(
    of: Server,
    preset: str = "quick",
    *,
    speed: float = 1.0,
    by: User | None = None,
    taints: tuple[str, ...] = (),
    **values: Any,
) -> Benchmark:
    """A whole one, `speed` times as fast as others."""
    known, now = load_presets()[preset], timezone.now()
    usual = {
        "begun_at": now - timedelta(seconds=40), "ended_at": now, "is_clean": not taints,
        "outcome": BenchmarkOutcome.WHOLE, "measured_on": MEASURED_ON, "title": known.title,
        "preset": preset, "preset_version": known.version, "by": by, "box": of.box,
        "run": of.run, "version": of.profile.current,
    }  # fmt: skip
    made = Benchmark.objects.create(
        server=of, server_name=of.slug, **{**usual, **values}
    )  # fmt: skip
    for place, point in enumerate(known.points):
        rounds = []
        for share in SPREAD:
            rate = 120 * speed * share / (1 + 0.06 * point.concurrency)
            first = (0.06 + point.prompt_tokens / 9000 + 0.01 * point.concurrency) / speed / share
            timings = [
                timing(rate, first, (first + point.output_tokens / rate) * number,
                       point.output_tokens, point.prompt_tokens or 40)
                for number in range(3) for _person in range(point.concurrency)
            ]  # fmt: skip
            figures = summarise(timings, concurrency=point.concurrency, base=0.02)
            rounds.append(
                {
                    "at": now.timestamp(),
                    "figures": dataclasses.asdict(figures),
                    "conditions": dataclasses.asdict(PointConditions(lag=0.001)),
                }
            )
        made.points.create(
            place=place, name=point.name, concurrency=point.concurrency,
            prompt_tokens=point.prompt_tokens, output_tokens=point.output_tokens, rounds=rounds,
            requests=[[] for _round in rounds], taints=list(taints),
        )  # fmt: skip
    return made
