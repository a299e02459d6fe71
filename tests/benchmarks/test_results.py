"""Results of check-ups: compared, exported, shown, and forgotten in the end."""

import csv
import io
import json
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from typing import Any
from xml.etree import ElementTree

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from servers.contexts.benchmark_history import describe_history
from servers.contexts.benchmarks import describe_comparison
from servers.judge.benchmarks.cards import build_figures
from servers.judge.benchmarks.comparison import MeasuredPoint, compare_points
from servers.judge.benchmarks.plots import list_charts
from servers.lifecycle.benchmarks import export
from servers.lifecycle.benchmarks.results import read_points
from servers.models import Benchmark, Key, Profile, ProfileVersion, Role
from servers.models.runs.run import ManagedServer
from tests import factories, measurements

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]


@pytest.fixture
def server() -> ManagedServer:
    made = factories.server(factories.box("rtx8"))
    factories.run(made)
    return made


def test_a_difference_is_told_from_noise(server: ManagedServer) -> None:
    usual, same, slower = (
        read_points(measurements.benchmark(server, speed=speed)) for speed in (1.0, 1.005, 0.8)
    )

    alike = compare_points(usual, same)
    worse = {each.figure.key: each for each in compare_points(usual, slower)[:4]}

    assert {each.verdict for each in alike} == {"no difference that can be told"}
    assert {each.verdict for each in worse.values()} == {"worse"}
    assert worse["user_rate"].change == "−20.0 %"  # noqa: RUF001
    low, high = worse["user_rate"].difference.low, worse["user_rate"].difference.high
    assert low < -0.2 < high < 0
    assert worse["ttft"].difference.change == pytest.approx(0.25, abs=0.001)


def test_a_result_leaves_in_each_form(server: ManagedServer) -> None:
    made = measurements.benchmark(server, taints=("benchmarks.others",))

    whole = json.loads(export.export_text(made, "json"))
    lines = list(csv.DictReader(io.StringIO(export.export_text(made, "csv"))))
    post = export.export_text(made, "markdown").splitlines()

    drawn = ElementTree.fromstring(export.export_text(made, "svg"))  # noqa: S314 - our own
    one = export.export_text(made, "svg", plot=1)
    texts = [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert "Speed per person and together" in texts
    assert "Wait for the first token" in texts
    assert len(list(drawn.iter("{http://www.w3.org/2000/svg}circle"))) == 4
    assert "Speed per person" not in one
    assert "Wait for" in one
    with pytest.raises(ValueError, match="too few points"):
        export.export_text(made, "svg", plot=9)
    assert whole["schema"] == 1
    assert whole["measured_on"]["driver"] == "580.95.05"
    assert len(whole["points"][1]["rounds"]) == 3
    assert [line["round"] for line in lines] == ["1", "2", "3"] * 2
    assert float(lines[0]["user_rate tok/s"]) == pytest.approx(120 / 1.06 * 0.99, rel=1e-4)
    assert lines[0]["not clean because"] == "other people’s requests"
    assert "RTX PRO 6000" in post[0]
    assert post[2].startswith("| Point | Per person, tok/s |")
    assert post[4].startswith("| One person | 113 |")


def test_a_history_says_what_changed_and_what_that_did(server: ManagedServer) -> None:
    now, on = timezone.now(), measurements.MEASURED_ON
    newer = on | {"version": 4, "image_digest": "vllm/vllm-openai@sha256:77ab" + "1" * 60}
    for days, speed, measured_on in (
        (9, 1.0, on),
        (8, 1.005, on),
        (7, 0.8, newer),
        (6, 0.81, newer),
    ):
        measurements.benchmark(
            server, speed=speed, measured_on=measured_on, asked_at=now - timedelta(days=days)
        )
    measurements.benchmark(server, speed=0.1, taints=("benchmarks.others",))
    unread = measurements.benchmark(server, speed=0.8, measured_on=newer | {"driver": ""})

    shown = describe_history(Benchmark.objects.all())

    rows = shown["history"]
    assert [len(rows), rows[0].benchmark.pk] == [5, unread.pk], "clean ones alone"
    assert [[fact.name for fact in row.step.changed] for row in rows] == [
        [], [], ["Version", "Image digest"], [], [],
    ]  # fmt: skip
    assert rows[2].step.change.words == "20 % slower"
    assert rows[1].step.change.words == "no difference that can be told"
    [turn] = shown["history_turns"]
    assert turn.turn.change.is_faster is False
    assert turn.turn.first.changed[1].short_values == ("9c1b44444444", "77ab11111111")
    one, together = json.loads(shown["history_plots"])
    assert [len(each["points"]) for each in (*one["series"], *together["series"])] == [5, 5]
    assert [mark["words"] for mark in one["marks"]] == ["v4, image"]


def test_turns_are_plotted_by_themselves() -> None:
    turns = [
        MeasuredPoint(
            name=f"Turn {number}", concurrency=8, prompt_tokens=600, output_tokens=128,
            rounds=(build_figures(cached_share=share, user_rate=50, output_rate=400),), taints=(),
        )
        for number, share in ((1, 0.0), (2, 0.8), (3, 0.9))
    ]  # fmt: skip
    [chart] = list_charts([("", turns)])
    assert chart.title == "From cache, by turn"
    assert chart.series[0].points == ((1, 0.0), (2, 80.0), (3, 90.0))


def test_up_to_six_results_stand_against_the_first(server: ManagedServer) -> None:
    now, on = timezone.now(), measurements.MEASURED_ON
    made = [
        measurements.benchmark(
            server, preset, speed=speed, asked_at=now - timedelta(days=days),
            measured_on=on | {"driver": driver},
        )
        for days, preset, speed, driver in (
            (9, "quick", 1.0, "580.95.05"), (8, "quick", 1.005, "580.95.05"),
            (7, "quick", 0.8, "590.10"), (6, "crowd", 1.0, "590.10"), (5, "quick", 1.3, ""),
            (4, "quick", 1.0, "590.10"), (3, "quick", 1.0, "590.10"),
        )
    ]  # fmt: skip

    shown = describe_comparison(made[:6])

    assert [each.letter for each in shown["compared"]] == list("ABCDEF")
    assert [each.change and each.change.words for each in shown["compared"]] == [
        None, "no difference that can be told", "20 % slower", None, "30 % faster",
        "no difference that can be told",
    ]  # fmt: skip
    assert dict(shown["changed"])["Driver"][4] == ("E", "–")
    first = shown["rows"][0]
    assert [bool(cell) for _letter, cell in first.cells] == [True, True, False, True, True]
    assert shown["is_other_preset"]
    client = factories.log_in(factories.person("vera", Role.VIEWER))
    pages = [
        client.get(reverse("benchmark_compare"), {"of": [each.pk for each in chosen]})
        for chosen in (made[:1], made[:6], made)
    ]
    said = "Choose two to six results."
    assert [said in page.content.decode() for page in pages] == [True, False, True]


def test_compared_results_stand_beside_what_their_recipes_author_had(
    server: ManagedServer,
) -> None:
    profile, client = server.profile, factories.log_in(factories.person("vera", Role.VIEWER))
    published = replace(
        profile.launch, expected={"tokens per second": "150", "weights": "57 GB"},
        hardware="8x RTX PRO 6000", flags=("--api-key", "sk-secret"),
    )  # fmt: skip
    Profile.objects.filter(pk=profile.pk).update(source="https://example.org/recipe")
    first = ProfileVersion.objects.get(profile=profile)
    first.spec = published.to_json()
    first.save()
    ran = replace(published, flags=("--api-key", "sk-other", "--enforce-eager"), image="vllm:new")
    changed = profile.save_version(ran, by=None)
    other = factories.server(server.box, "other")
    made = [
        measurements.benchmark(server, speed=1.5, version=first),
        measurements.benchmark(server, speed=0.5, version=changed),
        measurements.benchmark(other),
    ]

    page = client.get(reverse("benchmark_compare"), {"of": [each.pk for each in made]})

    promised = page.context["promised"]
    assert [(each.letter, each.share, each.is_kept) for each in promised] == [
        ("A", "113 %", True), ("B", "38 %", False),
    ]  # fmt: skip
    gpus = "GPUs (8x RTX PRO 6000; here 2x RTX PRO 6000 Blackwell Server Edition)"
    assert promised[0].departures == (gpus,), "a quarter of the cards is another machine"
    assert promised[1].departures == (gpus, "image", "--api-key", "--enforce-eager")
    text = page.content.decode()
    assert "of what this recipe’s author had; these differ: " in text
    assert "sk-" not in text
    Profile.objects.filter(pk=profile.pk).update(source="")
    page = client.get(reverse("benchmark_compare"), {"of": [each.pk for each in made]})
    assert "of what its profile expects" in page.content.decode()


def test_pages_show_results_without_a_query_for_each(server: ManagedServer) -> None:
    client = factories.log_in(factories.person("vera", Role.VIEWER))
    history = reverse("benchmark_history")
    pages = [
        reverse("benchmarks"), reverse("server_checkup", args=[server.slug]),
        f"{history}?server={server.slug}", f"{history}?profile={server.profile.slug}",
        reverse("profile", args=[server.profile.slug]),
    ]  # fmt: skip
    counts = []
    for number in range(1, 3):
        measurements.benchmark(server, by=factories.person())
        if number == 1:
            measurements.benchmark(server, by=factories.person())
        for path in pages:
            with CaptureQueriesContext(
                connection,
            ) as queries:
                text = client.get(path).content.decode()
            counts.append(len(queries))
            if path in pages[:2]:
                assert text.count("20 seconds</a>") == number + 1
            assert "check-up/start" not in text, "viewers start none"
    assert counts[len(pages) :] == counts[: len(pages)]


def test_the_api_tells_every_result(server: ManagedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("servers.views.api.benchmarks"), "MOST", 2)
    made = [
        measurements.benchmark(server, preset, taints=taints)
        for preset, taints in (
            ("quick", ()), ("crowd", ()), ("quick", ("benchmarks.swap",)), ("quick", ()),
        )
    ]  # fmt: skip
    token = Key.make(factories.person("vera", Role.VIEWER), "key", Role.VIEWER, expires_at=None)[1]

    def ask(**query: str) -> list[dict[str, Any]]:
        headers = {"Authorization": f"Bearer {token}"}
        found = Client().get("/api/v1/benchmarks", query, headers=headers)
        assert found.status_code == 200
        listed: list[dict[str, Any]] = found.json()
        return listed

    first = ask(server=server.slug)
    rest = ask(before=str(first[-1]["id"]), points="true")
    assert [each["id"] for each in first + rest] == [each.pk for each in reversed(made)]
    assert (first[0]["points"], first[0]["source"]) == ([], "")
    assert len(rest[0]["points"]) == 8
    assert rest[0]["points"][0]["figures"]["ttft"]["rounds"] == 3
    assert [each["id"] for each in ask(preset="quick", is_clean="true")] == [made[3].pk, made[0].pk]


def test_old_results_lose_their_requests_and_then_go(
    server: ManagedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("servers.models.benchmarks.MOST_RESULTS", 2)
    long_ago = timezone.now() - timedelta(days=91)
    gone, old, new = (
        measurements.benchmark(server, asked_at=at) for at in (long_ago, long_ago, timezone.now())
    )

    Benchmark.objects.forget_old()

    assert not Benchmark.objects.filter(pk=gone.pk).exists()
    assert [point.requests for point in old.points.all()] == [[], []]
    assert old.points.first() is not None
    assert new.points.filter(requests=[]).count() == 0
    assert len(read_points(old)[0].rounds) == 3
