"""Results from elsewhere: cards of another inferdash, and files of other programs."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from servers.judge.benchmarks.cards import UploadError
from servers.judge.benchmarks.imports import read_upload
from servers.lifecycle.benchmarks import export, uploads
from servers.lifecycle.benchmarks.results import read_points
from servers.models import Benchmark, Role
from servers.models.runs.run import ManagedServer
from tests import factories, measurements
from tests.cases import Cases, table

RECORDED = Path(__file__).parent / "recorded"
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]


@pytest.fixture
def server() -> ManagedServer:
    made = factories.server(factories.box("rtx8"), expected={"tokens per second": "100-120"})
    factories.run(made)
    return made


@pytest.fixture
def client() -> Client:
    return factories.log_in(factories.person("otto", Role.OPERATOR))


def upload(client: Client, text: str, name: str = "card.json") -> str:
    file = SimpleUploadedFile(name, text.encode())
    answer = client.post(reverse("benchmark_upload"), {"file": file}, follow=True)
    return answer.content.decode()


def test_a_card_comes_back_and_says_what_one_gets_of_it(
    server: ManagedServer, client: Client
) -> None:
    author = measurements.benchmark(server, by=factories.person("ada"))
    text = export.export_text(author, "card")
    measured = read_points(author)
    author.delete()
    assert "rtx8" not in text
    assert server.slug not in text
    assert "ada" not in json.dumps(json.loads(text) | {"sha256": ""})
    here = measurements.MEASURED_ON | {"driver": "590.10", "engine_version": "0.21.0"}
    own = measurements.benchmark(server, speed=0.71, measured_on=here)

    page = upload(client, text)

    made = Benchmark.objects.get(source="card")
    assert read_points(made) == measured
    assert (made.box, made.is_clean, made.title) == (None, True, "20 seconds")
    compare = f"{reverse('benchmark_compare')}?of={made.pk}&of={own.pk}"
    assert compare.replace("&", "&amp;") in page
    page = client.get(compare).content.decode()
    assert "you get <strong>71 %</strong> of what A’s author had; 2 things differ." in page
    assert "29 % slower" in page
    page = client.get(reverse("benchmark", args=[own.pk])).content.decode()
    assert ">100-120</td>" in page
    assert '<span class="badge attention">80 %</span>' in page
    for name in ("benchmarks", "benchmark"):
        args = [made.pk] if name == "benchmark" else []
        assert "lukealonso/MiniMax" in client.get(reverse(name, args=args)).content.decode()
    client.post(reverse("benchmark_delete", args=[made.pk]))
    client.post(reverse("benchmark_delete", args=[own.pk]))
    assert list(Benchmark.objects.all()) == [own], "what was measured here stays"


BENCHY: dict[str, Any] = {
    "version": "0.4.0", "timestamp": "2026-11-20 10:00:00Z", "latency_mode": "generation",
    "latency_ms": 1.2, "model": "Qwen/Qwen3-8B", "prefix_caching_enabled": False,
    "max_concurrency": 4,
    "benchmarks": [
        {
            "concurrency": 1, "context_size": 4096, "prompt_size": 2048, "response_size": 32,
            "is_context_prefill_phase": False,
            "pp_throughput": {"mean": 5000, "std": 0, "values": [4900, 5100, 5000]},
            "tg_throughput": {"mean": 60, "std": 1, "values": [59, 60, 61]},
            "e2e_ttft": {"mean": 410, "std": 1, "values": [400, 410, 420]},
        },
        {
            "concurrency": 4, "context_size": 0, "prompt_size": 512, "response_size": 32,
            "is_context_prefill_phase": False,
            "tg_throughput": {"mean": 160, "std": 1, "values": [150, 170]},
            "tg_req_throughput": {"mean": 42, "std": 1, "values": [40, 40, 40, 40, 44, 44, 44, 44]},
            "e2e_ttft": {"mean": 90, "std": 1, "values": [90, 91, 92]},
        },
        {"concurrency": 1, "context_size": 4096, "prompt_size": 2048, "response_size": 32,
         "is_context_prefill_phase": True, "pp_throughput": None},
    ],
}  # fmt: skip
VLLM: dict[str, Any] = {
    "date": "20261120-101500", "endpoint_type": "openai-chat", "model_id": "Qwen/Qwen3-8B",
    "num_prompts": 32, "request_rate": "inf", "burstiness": 1.0, "max_concurrency": 8,
    "duration": 12.0, "completed": 32, "failed": 0, "total_input_tokens": 16000,
    "total_output_tokens": 4096, "request_throughput": 2.7, "output_throughput": 341.3,
    "total_token_throughput": 1674.6, "median_ttft_ms": 120.0, "p99_ttft_ms": 300.0,
    "mean_tpot_ms": 21.0, "median_tpot_ms": 20.0, "p99_tpot_ms": 25.0,
}  # fmt: skip
SGLANG: dict[str, Any] = {
    "backend": "sglang-oai-chat", "dataset_name": "random", "request_rate": 4.0,
    "max_concurrency": None, "server_info": {"model_path": "Qwen/Qwen3-8B"}, "duration": 60.0,
    "completed": 200, "total_input_tokens": 204800, "total_output_tokens": 25600,
    "input_throughput": 3413.0, "output_throughput": 426.0, "median_e2e_latency_ms": 2600.0,
    "median_ttft_ms": 90.0, "median_tpot_ms": 19.0, "p99_tpot_ms": 30.0,
}  # fmt: skip
LLAMA_BENCH: list[dict[str, Any]] = [
    {
        "model_filename": "/models/tiny.gguf", "build_number": 6000, "n_prompt": prompt,
        "n_gen": gen, "n_depth": depth, "avg_ts": sum(samples) / 2, "samples_ts": samples,
        "test_time": "2026-11-20T10:15:00Z",
    }
    for prompt, gen, depth, samples in (
        (512, 0, 0, [900.0, 910.0]), (0, 128, 0, [49.0, 51.0]), (0, 128, 4096, [40.0, 41.0]),
        (512, 128, 0, [300.0, 301.0]),  # of both it tells neither
    )
]  # fmt: skip


def test_files_of_other_programs_are_results() -> None:
    with Cases() as cases:
        with cases.named("llama-benchy"):
            found = read_upload(json.dumps(BENCHY).encode())
            long, crowd = found.points
            assert (found.source, found.subject) == ("llama-benchy", "Qwen/Qwen3-8B")
            assert (long.label, long.prompt_tokens) == ("Long prompt: 6k", 6144)
            assert [each.user_rate for each in long.rounds] == [59, 60, 61]
            assert long.rounds[2].ttft
            assert long.rounds[2].ttft.median == pytest.approx(0.42)
            assert [each.user_rate for each in crowd.rounds] == [40, 44]
            assert [each.ttft is None for each in crowd.rounds] == [False, True]
        with cases.named("vllm, appended twice"):
            text = f"{json.dumps(VLLM)}\n{json.dumps(VLLM | {'output_throughput': 350.0})}\n"
            [point] = read_upload(text.encode()).points
            assert (point.label, point.prompt_tokens, point.output_tokens) == (
                "People at once: 8", 500, 128,
            )  # fmt: skip
            assert [each.output_rate for each in point.rounds] == [341.3, 350.0]
            assert point.rounds[0].user_rate == pytest.approx(50)
            assert point.key == ("", 8, 500, 128), "comparable with an own point of this shape"
        with cases.named("sglang, by the clock"):
            found = read_upload(json.dumps(SGLANG).encode())
            assert (found.source, found.on["model"]) == ("sglang", "Qwen/Qwen3-8B")
            assert found.points[0].name == "4 requests a second"
            assert found.points[0].rounds[0].e2el
            assert found.points[0].rounds[0].e2el.median == pytest.approx(2.6)
        with cases.named("llama-bench"):
            found = read_upload(json.dumps(LLAMA_BENCH).encode())
            assert (found.source, found.subject) == ("llama-bench", "tiny.gguf")
            assert found.on == {
                "model": "tiny.gguf",
                "engine": "llamacpp",
                "engine_version": "b6000",
            }
            [short, long] = found.points
            assert [each.user_rate for each in short.rounds] == [49, 51]
            assert [each.prefill_rate for each in short.rounds] == [900, 910]
            assert (long.label, long.prompt_tokens) == ("Long prompt: 4k", 4096)
        with cases.named("as llama-bench itself has written it"):
            found = read_upload((RECORDED / "llama_bench.json").read_bytes())
            assert (found.source, found.on["engine_version"]) == ("llama-bench", "b11669")
            [point] = found.points
            assert (point.key, len(point.rounds)) == (("", 1, 512, 128), 3)
            assert point.rounds[0].user_rate == pytest.approx(119.119)
            assert point.rounds[0].prefill_rate == pytest.approx(3381.78)
        with cases.named("as vllm bench serve itself has written it"):
            found = read_upload((RECORDED / "vllm_bench_serve.jsonl").read_bytes())
            assert (found.source, found.at and found.at.year) == ("vllm", 2026)
            one, many = found.points
            assert [one.label, many.label] == ["One person", "People at once: 8"]
            assert many.rounds[0].output_tokens == 32 * many.output_tokens
            assert many.rounds[0].user_rate == pytest.approx(1000 / 3.32, rel=0.01)
        with cases.named("kept"):
            kept = uploads.keep(json.dumps(VLLM).encode(), by=factories.person())
            assert (kept.is_clean, kept.server_name) == (None, "Qwen/Qwen3-8B")
            assert kept.asked_at.year == 2026


CARD = {"kind": "inferdash result card", "schema": 1}


@table(
    ("data", "says"),
    [
        (b"", "empty"),
        (b"\xff\xfe\x00", "no text"),
        (b"<html>", "no JSON: it begins with “<html>”"),
        (b"[" * 100_000, "no"),
        (b"[]", "none of the files"),
        (b"[1, 2]", "none of the files"),
        (b'{"results": [1]}', "none of the files"),
        (b'{"measured_on": {}, "points": []}', "Download the result’s card"),
        (json.dumps(CARD | {"schema": 2}).encode(), "reads schema 1"),
        (json.dumps(CARD | {"points": [], "sha256": "0" * 64}).encode(), "its hash differs"),
        (json.dumps(LLAMA_BENCH[3:]).encode(), "nothing was measured"),
        (json.dumps(BENCHY | {"benchmarks": []}).encode(), "nothing was measured"),
        (json.dumps(BENCHY | {"benchmarks": [{}] * 501}).encode(), "no list of at most 500"),
        (json.dumps(VLLM | {"completed": 0}).encode(), "no request succeeded"),
        (json.dumps(VLLM | {"output_throughput": float("nan")}).encode(), "no measured figure"),
        (json.dumps(VLLM | {"duration": 10**300}).encode(), "no measured figure"),
    ],
)
def test_what_is_no_result_says_so(data: bytes, says: str) -> None:
    with pytest.raises(UploadError, match=says):
        read_upload(data)


def test_an_upload_that_is_none_is_said_on_the_page(client: Client, server: ManagedServer) -> None:
    author = measurements.benchmark(server)
    forged = export.export_text(author, "card").replace('"concurrency": 1', '"concurrency": 2')
    assert "its hash differs" in upload(client, forged)
    assert "llama.json was not read. It is no JSON" in upload(client, "pp512", "llama.json")
    assert not Benchmark.objects.exclude(source="").exists()
