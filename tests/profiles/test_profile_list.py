from dataclasses import replace
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from servers.launch.engines.flaghelp import parse_help
from servers.lifecycle.profiles import record
from servers.lifecycle.profiles.preflight import Count, of_profiles
from servers.models import ImageFacts, Profile, Role, Run, Server
from servers.models.profiles.profile import ProfileFilter, ProfileHealth
from servers.models.runs.run import RunState
from servers.watcher.runs.runs import Runs
from tests import factories, samples

pytestmark = pytest.mark.django_db

GIB = 2**30
CARD = {"name": "RTX PRO 6000", "compute_capability": "12.0", "total": 96 * GIB, "kind": "discrete"}
HELP = """\
options:
  --model MODEL         Which. (default: None)
  --port PORT           Where. (default: 8000)
  --max-modle-len N     How long. (default: None)
"""


@pytest.fixture(autouse=True)
def _profiles() -> None:
    box = factories.box()
    works = factories.server(box, "works", "gpt-oss-120b", hardware="4x RTX PRO 6000")
    factories.run(works, RunState.FAILED, age=9000)
    factories.run(works, RunState.READY)
    factories.run(factories.server(box, "breaks", "glm-5"), RunState.FAILED)
    factories.run(factories.server(box, "begins"), RunState.STARTING)
    factories.server(box, "rests")
    Profile.objects.filter(slug="rests").update(tags="moe nvfp4")


def found(**wanted: str) -> list[str]:
    listed = Profile.objects.for_list(factories.person(), ProfileFilter(**wanted))
    return [profile.slug for profile in listed]


def test_the_latest_start_is_a_profiles_health() -> None:
    listed = Profile.objects.for_list(factories.person())

    assert {profile.slug: profile.health for profile in listed} == {
        "works": ProfileHealth.WORKED,
        "breaks": ProfileHealth.FAILING,
        "begins": ProfileHealth.OPEN,
        "rests": ProfileHealth.NEVER,
    }


@pytest.mark.parametrize("health", ProfileHealth)
def test_the_list_can_be_filtered_by_health(health: ProfileHealth) -> None:
    listed = Profile.objects.for_list(factories.person(), ProfileFilter(health=health))

    assert [profile.health for profile in listed] == [health]


def test_the_list_can_be_searched_by_tag_hardware_and_engine() -> None:
    assert found(text="nvfp4") == ["rests"]
    assert found(text="rtx 4x") == ["works"]
    assert found(engine="sglang", text="glm") == ["breaks"]
    assert found(engine="llamacpp") == []


def test_favourites_come_first_for_who_chose_them() -> None:
    ada, ben = Client(), Client()
    ada.force_login(factories.person())
    ben.force_login(factories.person("ben", Role.VIEWER))

    ben.post("/profiles/works/favourite/", {"is": "yes"})

    assert found()[0] == "begins"
    assert "one of your favourites" not in ada.get("/profiles/").content.decode()
    assert "one of your favourites" in ben.get("/profiles/").content.decode()
    ben.post("/profiles/works/favourite/", {"is": "no"})
    assert "one of your favourites" not in ben.get("/profiles/").content.decode()


def test_a_filter_that_finds_nothing_says_so() -> None:
    client = factories.log_in(factories.person())

    text = client.get("/profiles/?q=nowhere&engine=vllm&health=nonsense").content.decode()

    assert "No profile fits “nowhere”, vLLM" in text


def test_runs_show_what_a_profile_is_worth() -> None:
    profile = Profile.objects.get(slug="works")
    Run.objects.filter(state=RunState.READY).write(
        health__peak_memory=80 * GIB, health__peak_tokens_per_second=93.5
    )

    shown = record.compute_record(profile)

    assert (shown.starts, shown.ready, shown.success) == (2, 1, 50)
    assert shown.memory == 80 * GIB
    assert shown.tokens_per_second == 93.5
    assert shown.time_to_ready is not None
    assert abs(shown.time_to_ready - timedelta(seconds=1440)) < timedelta(seconds=2)


def test_a_profile_that_never_ran_claims_nothing() -> None:
    shown = record.compute_record(Profile.objects.get(slug="rests"))

    assert (shown.starts, shown.success, shown.memory) == (0, None, None)


def test_the_most_memory_that_a_run_held_is_remembered() -> None:
    run = Run.objects.get(server__slug="works", state=RunState.READY)
    runs = Runs(run.server.box)
    container = run.container_id
    processes = [samples.process(100, container), samples.process(101, container)]

    for size in (30.0, 40.0, 20.0):
        cards = [samples.card(0, [(100, size)]), samples.card(1, [(101, size)])]
        runs.measure(samples.sample(cards, processes))

    run.refresh_from_db()
    assert run.health.peak_memory == 80 * GIB


def test_a_long_list_has_pages_that_keep_the_filter() -> None:
    client = factories.log_in(factories.person())
    for number in range(101):
        name = f"bulk-{number:03d}"
        profile = Profile.objects.create(slug=name, name=name, owner=factories.person())
        profile.save_version(Profile.objects.get(slug="works").launch, by=None)

    first = client.get("/profiles/?q=bulk").content.decode()
    second = client.get("/profiles/?q=bulk&page=2").content.decode()

    assert "1 to 100 of 101" in first
    assert "?q=bulk&amp;page=2" in first
    assert "bulk-100" not in first
    assert "bulk-100" in second


def listing() -> str:
    client = factories.log_in(factories.person())
    return " ".join(client.get("/profiles/").content.decode().split())


def test_the_list_counts_what_is_known_to_fail() -> None:
    assert "badge-error" not in listing()
    server = factories.server(
        factories.box("other"),
        "gemma-tiny",
        engine="vllm",
        image="vllm/vllm-openai:v0.20.2",
        flags=("--max-modle-len", "8192"),
    )
    seen_by = ImageFacts(box=server.box, reference=server.profile.launch.image, engine="vllm")

    assert "1 error" in listing()

    seen_by.flags = parse_help("vllm", HELP, version="0.99.0").to_json()
    seen_by.version = "0.99.0"
    seen_by.asked_at = timezone.now()
    seen_by.save()
    assert "badge-error" not in listing(), "its image has that flag"


def test_a_profile_on_no_box_is_counted_by_what_is_known_without_one() -> None:
    profile = Profile.objects.get(slug="rests")
    profile.servers.all().delete()
    profile.save_version(replace(profile.launch, flags=("--max-modle-len", "8192")), by=None)

    # Its image needs a driver, and which one the box has is not known.
    assert of_profiles([profile])[profile.pk] == Count(errors=1, warnings=1)
    assert "1 error" in listing()


def test_the_box_where_it_looks_worst_counts() -> None:
    large, small = factories.box("large"), factories.box("small")
    for box, count in ((large, 2), (small, 1)):
        box.facts["gpus"] = [CARD | {"index": index} for index in range(count)]
        box.save()
    good = factories.server(large, "pair", gpus="all", flags=("--tensor-parallel-size", "2"))
    before = of_profiles([good.profile])[good.profile.pk]
    Server.objects.create(slug="pair-small", profile=good.profile, box=small)

    assert of_profiles([good.profile])[good.profile.pk].errors == before.errors + 1
