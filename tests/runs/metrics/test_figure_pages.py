"""Engines' figures on cards, on a server's page, and over time."""

import csv
import io
import time

import pytest
from asgiref.sync import async_to_sync
from django.http import StreamingHttpResponse
from django.test import Client

from servers.host.http.prometheus import totals
from servers.judge.runs.metrics import Figures
from servers.models import Key, Profile, Role, Run
from servers.state import samples
from servers.state.samples import EngineMetrics
from servers.templatetags.figures import latency, share, small_line, tokens
from tests import factories
from tests.runs.metrics import shown

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]


@pytest.fixture
def client() -> Client:
    return factories.log_in(factories.person())


@pytest.fixture
def run() -> Run:
    return factories.run(factories.server(factories.box("rtx8"), "glm-5"))


def html(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200
    return str(response.content.decode())


def test_a_card_tells_requests_and_tokens_with_a_small_line(client: Client, run: Run) -> None:
    told = EngineMetrics(
        at=time.time(),
        source="metrics",
        figures=Figures(running=2, generation=142.64, first_p95=0.64, kv=0.34),
        line=(0, 100, None, 140),
    )
    samples.keep_figures(run.pk, told)
    page = html(client, "/")

    assert "<dt>Running</dt><dd>2</dd>" in page
    assert "<dt>TTFT p95</dt><dd>640 ms</dd>" in page
    assert "<dt>KV cache</dt><dd>34 %</dd>" in page
    assert "<dt>Tok/s</dt><dd>143</dd>" in page
    assert 'class="sparkline"' in page
    assert "These figures are of" not in page


def test_an_idle_engine_is_calm(client: Client, run: Run) -> None:
    shown.tell(run, busy=0.0)
    page = html(client, "/")

    assert "<dt>Tok/s</dt><dd>0</dd>" in page
    assert "sparkline" not in page.replace("figures.css", "")


def test_old_figures_are_said_to_be_old(client: Client, run: Run) -> None:
    shown.tell(run, ago=60)

    assert "These figures are of" in html(client, "/")
    assert "the engine has told nothing since" in html(client, "/servers/glm-5/metrics/")


def test_a_card_without_figures_tells_what_the_run_says(client: Client, run: Run) -> None:
    page = html(client, "/")
    assert "<dt>Running</dt><dd>0</dd>" in page
    assert "<dt>queued</dt>" not in page


def test_the_page_tells_latencies_and_caches(client: Client, run: Run) -> None:
    shown.tell(run)
    page = html(client, "/servers/glm-5/metrics/")

    for title in ("Output", "Time to first token", "Time between tokens", "Prompts", "KV cache"):
        assert f">{title}</h3>" in page
    for figure in ("<strong>17.9 ms</strong> p50", "26 ms p95", "62 % prefix hits"):
        assert figure in page
    assert page.count("<engine-charts") == 1
    overview = html(client, "/servers/glm-5/")
    assert "<dt>KV cache</dt>" in overview
    assert "<engine-charts" not in overview, "a chart stands once"
    assert 'href="/boxes/rtx8/history/?server=glm-5"' in page


def test_an_engine_without_metrics_says_which_flag_gives_them(client: Client) -> None:
    server = factories.server(factories.box("rtx8"), "glm-5", engine="sglang")
    run = factories.run(server)
    page = html(client, "/servers/glm-5/metrics/")
    assert "Without --enable-metrics" in page
    assert f"/profiles/{server.profile.slug}/fix/metrics-missing/" in page
    assert "Whole answer" not in page
    assert 'data-chart="first" hx-morph-skip hidden' in page
    shown.tell(run, source="log")
    assert "Read from its log" in html(client, "/servers/glm-5/metrics/")

    fix = f"/profiles/{server.profile.slug}/fix/metrics-missing/?about=flags"
    assert client.post(fix, {"box": "rtx8"}).status_code == 302
    assert "--enable-metrics" in Profile.objects.get(pk=server.profile.pk).launch.flags
    assert "switches them on from the next start" in html(client, "/servers/glm-5/metrics/")


def test_one_servers_last_minutes_come_as_columns(client: Client, run: Run) -> None:
    shown.past(run, hours=0.5)
    found = client.get("/servers/glm-5/figures.json").json()

    assert len(found["t"]) in (90, 91)
    generation = [each for each in found["columns"]["generation"] if each is not None]
    assert len(generation) > 85
    assert max(found["columns"]["kv"][:-5]) <= 1


def test_a_boxs_history_tells_each_server(client: Client, run: Run) -> None:
    other = factories.run(factories.server(run.server.box, "qwen3"))
    shown.past(run, hours=2)
    shown.past(other, hours=2, busy=0.0)
    now = int(time.time())
    asked: dict[str, int | str] = {"from": now - 7200, "to": now}

    found = client.get("/boxes/rtx8/history/points.json", asked).json()["engines"]
    assert set(found["servers"]) == {"glm-5", "qwen3"}
    assert found["width"] == 10
    assert len(found["t"]) == len(found["servers"]["glm-5"]["first_p95"])
    assert max(each or 0 for each in found["servers"]["qwen3"]["generation"]) == 0

    one = client.get("/boxes/rtx8/history/points.json", {**asked, "server": "qwen3"}).json()
    assert set(one["engines"]["servers"]) == {"qwen3"}
    page = html(client, "/boxes/rtx8/history/")
    assert '<option value="glm-5">' in page


def test_a_boxs_figures_are_handed_out_as_csv(client: Client, run: Run) -> None:
    shown.past(run, hours=1)
    now = int(time.time())
    asked: dict[str, int | str] = {"from": now - 1800, "to": now, "of": "servers"}
    response = client.get("/boxes/rtx8/history/points.csv", asked)
    assert isinstance(response, StreamingHttpResponse)
    assert "rtx8-servers-" in response["Content-Disposition"]

    async def read() -> str:
        return b"".join([part async for part in response]).decode()

    head, *lines = csv.reader(io.StringIO(async_to_sync(read)()))
    assert head[:4] == ["time", "server", "requests running", "greatest requests running"]
    assert len(lines) in (179, 180)
    first = dict(zip(head, lines[0], strict=True))
    assert first["server"] == "glm-5"
    assert float(first["prefix cache hits %"]) == 62
    assert float(first["between tokens p50 ms"]) == 17.9


def test_words_and_lines() -> None:
    assert [tokens(each) for each in (None, 0.0, 7.44, 1240.3)] == ["–", "0", "7.4", "1240"]
    assert [latency(each) for each in (None, 0.0179, 0.64, 8.2)] == [
        "–",
        "17.9 ms",
        "640 ms",
        "8.2 s",
    ]
    assert [share(each) for each in (None, 0.0, 0.62)] == ["–", "0 %", "62 %"]
    assert (
        small_line(EngineMetrics(at=0, source="metrics", figures=Figures(), line=(0.0, None)))
        is None
    )
    drawn = small_line(
        EngineMetrics(at=0, source="metrics", figures=Figures(), line=(5.0, None, 10.0))
    )
    assert drawn is not None
    assert drawn.path.count("M") == 2
    assert drawn.words == "Generated tokens a second in the last minute, at most 10"
    assert drawn.path.startswith("M98.2 ")  # two minutes have all of the width


def test_the_api_and_prometheus_are_told_the_same(client: Client, run: Run) -> None:
    shown.tell(run)
    _key, token = Key.make(factories.person(), "programs", Role.VIEWER, expires_at=None)
    programs = Client(headers={"authorization": f"Bearer {token}"})

    said = programs.get("/api/v1/servers/glm-5").json()["figures"]
    assert said["source"] == "metrics"
    assert not said["is_stale"]
    assert said["prefix_cache_hits"] == 0.62
    assert said["first_token_p50"] < said["first_token_p95"]

    text = programs.get("/metrics").content.decode()
    names = ["inferdash_server_prefix_cache_hit_ratio", "inferdash_server_inter_token_seconds"]
    assert totals(text, names)[names[0]] == 0.62
    assert (
        'inferdash_server_inter_token_seconds{box="rtx8",quantile="0.95",server="glm-5"} 0.026'
        in text
    )

    shown.tell(run, ago=60)
    assert programs.get("/api/v1/servers/glm-5").json()["figures"]["is_stale"]
    assert names[0] not in programs.get("/metrics").content.decode()
