"""The pages as a server renders them: who sees what, with how many queries."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from servers import events
from servers.contexts import alerts, pages
from servers.lifecycle.runs import starts
from servers.models import (
    Box,
    HostResources,
    ImageInventory,
    ModelInventory,
    Profile,
    Role,
    Run,
    Server,
    StoredImage,
)
from servers.models.runs.run import RunState
from servers.state.samples import chart_points
from tests import factories, samples

ROOT: dict[str, Any] = {
    "path": "/models",
    "is_usual": True,
    "refused": "",
    "found": 0,
    "hidden": [],
    "is_cut": False,
    "absent": False,
}


@pytest.fixture(autouse=True)
def redis_of_this_test(own_redis: redis.Redis) -> redis.Redis:
    return own_redis


@pytest.fixture
def ada(db: None, client: Client) -> Client:
    client.force_login(factories.person("ada"))
    return client


def text(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200
    return response.content.decode()


def queries(client: Client, path: str, of: str = "") -> int:
    """How many it takes, or how many that name a table."""
    assert client.get(path).status_code == 200, path  # sessions and content types are read once
    with CaptureQueriesContext(
        connection,
    ) as captured:
        client.get(path)
    return sum(of in each["sql"] for each in captured)


def test_the_dashboard_asks_as_often_for_50_servers_as_for_3(ada: Client) -> None:
    factories.many(3)
    few = queries(ada, "/")
    factories.clear()
    factories.many(50)

    assert queries(ada, "/") == few


@pytest.mark.parametrize("path", ["/models/", "/images/", "/gateway/", "/boxes/rtx8/"])
def test_a_page_asks_as_often_for_30_servers_models_and_images_as_for_3(
    ada: Client, path: str
) -> None:
    counted = []
    for number in (3, 30):
        factories.clear()
        box = factories.many(number)
        for profile in Profile.objects.all():
            launch = replace(profile.launch, start_on_request=True, restart_tries=2)
            profile.save_version(launch, by=None)
        for each in range(number):
            factories.stored(box, f"Org/Model-{each}", path=f"/home/ada/models/{each}")
            StoredImage.objects.create(
                box=box, image_id=f"sha256:{each:064d}", tags=[f"vllm/vllm-openai:v0.{each}"],
                digests=[], size=10**9, engine="vllm",
            )  # fmt: skip
        counted.append(queries(ada, path))

    assert counted[1] == counted[0]


BOX_PAGES = (
    "/", "/boxes/box-0/", "/boxes/box-0/history/", "/servers/", "/profiles/", "/activity/", "/alerts/",
    "/settings/boxes/",
)  # fmt: skip


def test_pages_ask_as_often_for_8_boxes_as_for_2(ada: Client) -> None:
    counted = []
    for number in (2, 8):
        factories.clear()
        for each in range(number):
            box = factories.box(f"box-{each}")
            events.publish_sample(
                box.slug, box.pk, samples.sample([samples.card(card, []) for card in range(8)], [])
            )
            factories.observation(HostResources, box, found={"listening": [22]})
            factories.run(factories.server(box, f"server-{each}"))
        counted.append({path: queries(ada, path) for path in BOX_PAGES})

    assert counted[0] == counted[1]


def test_a_page_asks_once_for_what_was_seen_of_each_box(ada: Client) -> None:
    """Both pages have a mark, too, which is short however much was seen."""
    counted, marks = list[list[int]](), set[str]()
    for number in range(3):
        box = factories.box(f"box-{number}")
        factories.observation(HostResources, box, found={"listening": list(range(100))})
        factories.observation(ImageInventory, box)
        factories.observation(ModelInventory, box, roots=[{**ROOT, "path": "/mnt/models"}])
        paths = ("/images/", "/models/")
        counted.append([queries(ada, each, "boxobservation") for each in paths])
        marks.add(ModelInventory.objects.mark())
    ModelInventory.objects.get(box=box).write(roots=[ROOT])
    marks.add(ModelInventory.objects.mark())

    assert counted[0] == counted[1] == counted[2]
    assert len(marks) == 4
    assert max(map(len, marks)) == 16


def test_the_socket_asks_as_often_for_50_servers_as_for_3(ada: Client) -> None:
    person = factories.person("ada")
    counted = []
    for number in (3, 50):
        factories.clear()
        factories.many(number)
        with CaptureQueriesContext(connection) as captured:
            pages.render({("everything", None)}, person)
        counted.append(len(captured))

    assert counted[0] == counted[1]


def test_a_servers_page_asks_as_often_for_40_runs_as_for_2(ada: Client) -> None:
    server = factories.server(factories.box())
    counted = []
    for number in (2, 38):
        for _each in range(number):
            factories.run(server, RunState.STOPPED)
        counted.append([queries(ada, f"/servers/qwen3-8b/{tab}") for tab in ("", "runs/")])

    assert counted[0] == counted[1]


def test_a_first_visit_says_what_to_do_next(ada: Client) -> None:
    said = text(ada, "/")

    assert "No box yet." in said
    assert "No server yet." in said
    for way in ("profile_paste", "found", "recipes", "models", "profile_new"):
        assert reverse(way) in said, way


def test_a_viewer_is_not_offered_to_make_a_profile(client: Client, db: None) -> None:
    client.force_login(factories.person("vera", Role.VIEWER))

    said = text(client, "/")

    assert reverse("profile_new") not in said
    assert "An editor can make the first profile" in said


def test_a_silent_box_comes_first_and_says_what_to_do(ada: Client) -> None:
    factories.box("spark-1", seen_at=timezone.now() - timedelta(minutes=2))

    said = text(ada, "/")

    assert "is away: its watcher gives no sign of life" in said
    assert "health-silent" in said


def test_what_a_box_lacks_is_one_sentence_with_the_way_to_get_it(ada: Client) -> None:
    fix = "Install it: sudo apt install docker.io."
    factories.box("rtx8", facts={"problems": [{"what": "Docker is missing", "fix": fix}]})

    for path in ("/", "/boxes/rtx8/"):
        said = text(ada, path)
        assert "Docker is missing." in said
        assert fix in said


def test_a_machine_short_of_memory_needs_attention(ada: Client) -> None:
    box = factories.box("spark-1")
    factories.tell(box, samples.sample([samples.unified(3.2, [])], []))

    assert "only 3.2 GiB of memory are left" in text(ada, "/")


def test_a_box_without_gpus_can_still_start_engines(ada: Client) -> None:
    factories.tell(factories.box(), samples.sample([], [], driver=None))

    assert "No GPU is seen on this box." in text(ada, "/")


def test_a_figure_that_a_card_does_not_report_is_not_shown_as_0(ada: Client) -> None:
    silent = dict.fromkeys(("util", "temperature_c", "power_w", "fan", "sm_mhz", "throttle"))
    gpu = samples.card(0, [], **silent)
    factories.tell(factories.box(), samples.sample([gpu], []))

    overview, hardware = text(ada, "/boxes/rtx8/"), text(ada, "/boxes/rtx8/hardware/")

    for what in ("utilisation", "temperature", "power"):
        assert f"{what} not reported" in overview
    assert hardware.count('">–</span>') >= 3
    assert "0 °C" not in overview


def test_memory_is_put_to_the_server_whose_container_holds_it(ada: Client) -> None:
    box = factories.box()
    server = factories.server(box, "glm-5")
    run = factories.run(server)
    held = samples.sample([samples.card(0, [(11, 40.0)])], [samples.process(11, run.container_id)])
    factories.tell(box, held)

    for page in ("/", "/boxes/rtx8/"):
        assert "<title>glm-5 40.0 GiB</title>" in text(ada, page), page
    assert '<span class="owner-words">glm-5<' in text(ada, "/boxes/rtx8/")


def test_an_engine_that_others_can_reach_without_a_key_says_so(ada: Client) -> None:
    box = factories.box()
    factories.run(factories.server(box, "open", network="host", flags=("--host", "0.0.0.0")))
    factories.run(factories.server(box, "closed"))

    assert text(ada, "/").count("open to the network, no key") == 1


def test_a_removed_server_leaves_the_dashboard_and_keeps_its_page(ada: Client) -> None:
    server = factories.server(factories.box())
    factories.run(server, RunState.STOPPED)
    Server.objects.update(removed_at=timezone.now())

    assert "qwen3-8b" not in text(ada, "/")
    assert "Removed from the dashboard" in text(ada, "/servers/qwen3-8b/")


def test_a_failed_run_shows_docker_s_words_its_signal_and_its_last_lines(ada: Client) -> None:
    server = factories.server(factories.box())
    factories.run(
        server,
        RunState.FAILED,
        exit_code=137,
        oom_killed=True,
        failure="The kernel killed the engine.",
        failure_detail="OCI runtime says no",
        last_lines=["\x1b[31mKilled\x1b[0m <b>"],
    )

    said = text(ada, "/servers/qwen3-8b/")

    for part in ("The kernel killed the engine.", "OCI runtime says no", "SIGKILL", "OOMKilled"):
        assert part in said
    assert "Killed &lt;b&gt;" in said


def test_a_run_of_another_server_is_not_shown_under_this_one(ada: Client) -> None:
    box = factories.box()
    factories.server(box, "glm-5")
    other = factories.run(factories.server(box, "qwen3-8b"))

    assert ada.get(f"/servers/glm-5/?run={other.pk}").status_code == 404
    assert ada.get("/servers/glm-5/?run=x").status_code == 404


def test_the_stop_dialog_counts_what_would_be_lost(ada: Client) -> None:
    server = factories.server(factories.box())
    factories.run(server, requests_running=3, started_by=factories.person("grace"))

    said = text(ada, "/servers/qwen3-8b/stop/ask/")

    assert "grace" in said
    assert "3 requests are running" in said
    assert "Stop after the running requests" in said


def test_a_stop_asks_unless_it_is_known_that_it_cuts_nobody_off(ada: Client) -> None:
    server = factories.server(factories.box())
    run = factories.run(server, started_by=factories.person("ada"))
    asks = "/servers/qwen3-8b/stop/ask/"
    long_ago, just_now = timezone.now() - timedelta(hours=1), timezone.now()
    failed = []
    for values, is_asked in (
        ({"requests_running": 0, "ready_at": long_ago}, False),
        ({"requests_running": 2, "ready_at": long_ago}, True),
        # Its engine does not say.
        ({"requests_running": None, "ready_at": long_ago}, True),
        ({"requests_running": None, "ready_at": just_now}, False),
    ):
        Run.objects.filter(pk=run.pk).write(
            ready_at=values["ready_at"], health__requests_running=values["requests_running"]
        )
        if (asks in text(ada, "/")) != is_asked:
            failed.append(values)
    assert failed == []


def test_a_failed_card_first_says_why_and_links_to_the_profile(ada: Client) -> None:
    server = factories.server(factories.box())
    factories.run(server, RunState.FAILED)

    said = text(ada, "/")

    why, start = said.index(">Why</a>"), said.index(">Start</button>")
    assert why < start
    assert said.count('class="button soft" href="/servers/qwen3-8b/"') == 1
    assert 'class="soft" hx-post="/servers/qwen3-8b/start/"' not in said
    assert 'href="/profiles/qwen3-8b/edit/"' in said


def test_charts_get_the_last_quarter_of_an_hour(ada: Client) -> None:
    box = factories.box()
    newest = samples.sample([samples.card(0, [(1, 40.0)])], [])
    factories.past(box, newest, seconds=20)
    factories.tell(box, newest)

    found = ada.get("/boxes/rtx8/history.json").json()

    (figures,) = found["gpus"].values()
    assert len(found["t"]) == len(figures["util"]) == len(figures["used"]) == 21


def test_a_repeated_sample_of_a_hanging_driver_is_no_point_of_a_chart(ada: Client) -> None:
    box = factories.box()
    factories.tell(box, samples.sample([samples.card(0, [])], []))
    factories.tell(box, samples.sample([samples.card(0, [])], [], stale_s=7.0, error="Hangs."))

    assert len(chart_points("rtx8")) == 1
    assert "Hangs." in text(ada, "/")


@pytest.mark.parametrize(
    ("page", "target"),
    [
        ("dashboard", '"#server-{server}"'),
        ("server", '"#server-head-{server}"'),
        ("chat", '"#chat-servers"'),
    ],
)
def test_the_socket_sends_a_page_what_it_shows(ada: Client, page: str, target: str) -> None:
    server = factories.server(factories.box())
    factories.run(server)

    html = pages.render({("server", server.pk)}, factories.person("ada"), page=page, pk=server.pk)

    assert target.format(server=server.pk) in html
    assert "csrf" not in html


def test_the_socket_sends_a_box_page_its_own_box_only(ada: Client) -> None:
    mine, other = factories.box("rtx8"), factories.box("spark-1")

    html = pages.render({("everything", None)}, factories.person("ada"), page="box", pk=mine.pk)

    assert f'"#box-detail-{mine.pk}"' in html
    assert f'"#box-detail-{other.pk}"' not in html
    assert f'"#box-dot-{other.pk}"' in html
    hardware = pages.render({("boxes", None)}, factories.person("ada"), page="hardware", pk=mine.pk)
    assert f'"#box-hardware-{mine.pk}"' in hardware
    assert f'"#box-hardware-{other.pk}"' not in hardware
    servers = pages.render({("servers", None)}, factories.person("ada"), page="box", pk=mine.pk)
    assert f'"#box-beside-{mine.pk}"' in servers
    assert f'"#box-detail-{mine.pk}"' not in servers


def test_a_card_is_rendered_for_the_role_of_who_looks(db: Any) -> None:
    server = factories.server(factories.box())
    key = ("server", server.pk)

    assert ">Start<" in pages.render({key}, factories.person("grace", Role.OPERATOR))
    assert ">Start<" not in pages.render({key}, factories.person("vera", Role.VIEWER))


def test_timings_of_a_run_are_told_by_the_moments_of_its_moves(db: Any) -> None:
    run = factories.run(factories.server(factories.box()), RunState.QUEUED, age=10)
    runs = Run.objects.filter(pk=run.pk)

    assert runs.move(old=[RunState.QUEUED], new=RunState.PULLING)
    assert runs.move(old=[RunState.PULLING], new=RunState.CREATING)
    run.refresh_from_db()

    assert [step.state for step in starts.list_steps(run) if step.began] == [
        "queued",
        "pulling",
        "creating",
    ]


def test_a_box_that_was_never_seen_is_no_failure(db: Any) -> None:
    box = Box.objects.create(slug="new")

    (notice,) = alerts.attention([box], {"new": None})

    assert notice.level == "attention"
    assert "has never been seen" in notice.what


def test_the_socket_looks_at_every_box_when_it_is_asked_to(db: Any) -> None:
    box = factories.box(seen_at=timezone.now() - timedelta(minutes=2))

    html = pages.render({("boxes", None)}, factories.person("ada"))

    assert f'"#box-{box.pk}"' in html
    assert "health-silent" in html
    assert '"#servers"' not in html


@pytest.mark.parametrize("name", ["groups", "recipes", "profiles"])
def test_the_sidebar_knows_the_pages_of_profiles(name: str, ada: Client) -> None:
    page = text(ada, reverse(name))
    assert f'<a href="{reverse("profiles")}" aria-current="page">' in page


def test_the_sidebar_marks_one_page_alone(ada: Client) -> None:
    sidebar = text(ada, reverse("settings")).split('aria-label="Main pages"')[0]
    assert sidebar.count('aria-current="page"') == 1
    assert f'<a href="{reverse("settings")}" aria-current="page">' in sidebar
