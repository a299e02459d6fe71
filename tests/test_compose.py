"""docker-compose.yml, built and started: the walk of `make up`, on PostgreSQL and in containers."""

import os
import re
import signal
import ssl
from collections.abc import Callable, Iterator
from urllib.request import urlopen

import httpx
import psutil
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, StorageState, expect

from tests.browser.chromium import new_page
from tests.browser.steps import PASSWORD, card, join
from tests.browser.test_walk import (  # noqa: F401 - the same steps, against this installation
    DESK,
    complaints,
    make,
    page,
    second,
    start,
    test_a_death_while_serving_is_seen_with_its_last_lines,
    test_a_folder_outside_what_the_box_allows_is_refused,
    test_a_folder_that_is_not_there_is_told_and_not_made,
    test_from_an_empty_page_to_a_streamed_answer_in_four_clicks,
    test_restart_and_remove_and_the_log_stays,
    test_start_in_two_browsers_at_once_makes_one_container,
    test_stopping_somebody_elses_server_asks_first,
    test_two_browsers_see_a_start_and_a_stop_without_a_reload,
)
from tests.compose.boxes import LET_IN, REVOKE, START, box_of, hub_of
from tests.compose.installation import (
    SERVICES,
    SHELL,
    ComposeError,
    ComposeInstallation,
    installation,
)
from tests.compose.sources import build_arguments
from tests.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.compose, pytest.mark.docker, pytest.mark.browser, pytest.mark.takes(480)]

KEY = "Key.make(User.objects.get(username='far'), 'far', Role.OPERATOR, expires_at=None)[1]"


@pytest.fixture(scope="module")
def place(docker_host: str) -> Iterator[ComposeInstallation]:
    with installation(docker_host) as made:
        yield made


@pytest.fixture(scope="module")
def entered(only_chromium: Browser, place: ComposeInstallation) -> dict[str, StorageState]:
    """What the browsers keep of ana, who opened the first link, and of ben, who logged in."""
    with only_chromium.new_context() as context:
        join(new_page(context, []), place)
        ana = context.storage_state()
    place.run(f"User.objects.create_user('ben', password='{PASSWORD}', role=Role.OPERATOR)")
    with only_chromium.new_context() as context:
        opened = new_page(context, [])
        opened.goto(f"{place.url}/login/")
        opened.get_by_label("Name").fill("ben")
        opened.get_by_label("Password").fill(PASSWORD)
        opened.locator("main form button").click()
        opened.wait_for_url(f"{place.url}/")
        ben = context.storage_state()
    return {"ana": ana, "ben": ben}


@pytest.fixture
def admin(browser: Browser, entered: dict[str, StorageState]) -> BrowserContext:
    return browser.new_context(viewport=DESK, storage_state=entered["ana"])


@pytest.fixture
def operator(browser: Browser, entered: dict[str, StorageState]) -> BrowserContext:
    return browser.new_context(viewport=DESK, storage_state=entered["ben"])


def processes(place: ComposeInstallation, service: str) -> list[psutil.Process]:
    """Those of a service's container, as the box sees them."""
    first = psutil.Process(place.inspect(service)["State"]["Pid"])
    return [first, *first.children(recursive=True)]


def is_root(process: psutil.Process) -> bool:
    try:
        return 0 in process.uids()
    except psutil.NoSuchProcess:  # a connection's process has ended since it was listed
        return False


@pytest.mark.parametrize("service", SERVICES)
def test_every_service_is_healthy_and_nobody_in_it_is_root(
    place: ComposeInstallation, service: str
) -> None:
    wait_until(lambda: place.is_healthy(service), f"{service} is healthy")

    found = processes(place, service)

    assert found
    assert [each for each in found if is_root(each)] == []


def test_only_worker_and_watcher_reach_docker_and_the_limits(place: ComposeInstallation) -> None:
    for path in ("/var/run/docker.sock", "/limits", "/host"):
        holders = {
            service
            for service in SERVICES
            if path in {mount["Destination"] for mount in place.inspect(service)["Mounts"]}
        }
        assert holders == {"worker", "watcher"}, path
    assert not place.inspect("web")["HostConfig"]["GroupAdd"]


def test_web_can_read_the_keys_and_put_no_others_in_their_place(place: ComposeInstallation) -> None:
    for name in ("secrets.key", "install.id", "django.key"):
        assert place.compose("exec", "-T", "web", "cat", f"/data/{name}").strip()
        with pytest.raises(ComposeError, match="Read-only file system"):
            place.compose("exec", "-T", "web", "sh", "-c", f"echo another >>/data/{name}")
    with pytest.raises(ComposeError, match="Read-only file system"):
        place.compose("exec", "-T", "web", "touch", "/data/another", "/database/another")


def test_the_role_in_the_database_is_no_superuser_and_has_a_password(
    place: ComposeInstallation,
) -> None:
    code = """
import psycopg
from django.db import connection
with connection.cursor() as cursor:
    cursor.execute("select current_user, rolsuper or rolcreaterole or rolcreatedb from pg_roles where rolname = current_user")
    print(cursor.fetchone())
for words in ("user=inferdash_app", "user=inferdash_app password=guessed", "user=inferdash", "user=postgres"):
    try:
        psycopg.connect(f"host=/run/postgresql dbname=inferdash {words}")
    except psycopg.OperationalError as error:
        print(words, "-", error)
    else:
        print(words, "is let in")
"""
    for service in ("web", "worker"):
        said = place.compose("exec", "-T", service, "python", "-c", SHELL + code)
        first, no_password, guessed, superuser, nobody = re.split(r"\n(?=\(|user=)", said.strip())
        assert first == "('inferdash_app', False)"
        assert "no password supplied" in no_password
        assert "password authentication failed" in guessed
        assert "eer authentication failed" in superuser
        assert "no pg_hba.conf entry" in nobody


def test_the_collector_sees_the_processes_of_the_box(place: ComposeInstallation) -> None:
    def sample() -> object:
        return place.ask("__import__('servers.state.samples', fromlist=['newest']).newest('rtx8')")

    wait_until(lambda: sample() is not None, "the collector has sent a sample")
    assert isinstance(found := sample(), dict)
    assert found["sees_host_pids"]


def test_the_image_holds_nothing_of_how_it_was_built(place: ComposeInstallation) -> None:
    variables = place.inspect("web")["Config"]["Env"]
    commands = place.history("web")
    for name, value in build_arguments().items():
        assert not any(name in each or value in each for each in [*variables, *commands])


def test_what_dies_comes_back_and_takes_up_its_work(
    page: Page,  # noqa: F811
    place: ComposeInstallation,
    make: Callable[..., str],  # noqa: F811
) -> None:
    slug = make("Heals", env="ENGINE_SECONDS=1")
    page.goto("about:blank")  # an open page would complain, rightly
    for service in ("worker", "watcher"):
        before = place.inspect(service)["State"]["Pid"]
        os.kill(before, signal.SIGKILL)
        wait_until(
            lambda service=service, before=before: (  # type: ignore[misc]
                place.inspect(service)["State"]["Pid"] not in (0, before)
            ),
            f"{service} is started again",
        )
    place.compose("restart", "-t", "5", "web")
    wait_until(place.is_up, "web answers after its restart")

    started = start(page, place, slug)

    started.get_by_role("button", name="Stop").click()
    expect(started).to_have_attribute("data-state", "stopped")


def test_data_and_engines_outlive_down_and_up(
    page: Page,  # noqa: F811
    place: ComposeInstallation,
    make: Callable[..., str],  # noqa: F811
) -> None:
    slug = make("Outlives compose", env="ENGINE_SECONDS=1")
    start(page, place, slug)
    run = place.ask(f"Server.objects.get(slug='{slug}').run.pk")
    page.goto("about:blank")

    place.compose("down", "-t", "5")
    place.compose("up", "-d")
    wait_until(place.is_up, "web answers")

    page.goto(f"{place.url}/servers/{slug}/log/")
    expect(page.locator("run-log")).to_contain_text("Application startup complete")
    page.goto(f"{place.url}/")
    expect(card(page, slug)).to_have_attribute("data-state", "ready")
    assert place.ask(f"Server.objects.get(slug='{slug}').run.pk") == run
    card(page, slug).get_by_role("button", name="Stop").click()
    expect(card(page, slug)).to_have_attribute("data-state", "stopped")
    text = page.request.get(f"{place.url}/runs/{run}/log/").text()
    assert len(re.findall("Application startup complete", text)) == 1


def test_tls_of_its_own_is_served_and_the_container_is_healthy(place: ComposeInstallation) -> None:
    settings = place.compose.settings
    before = settings.read_text()
    authorities = []
    try:
        settings.write_text(f"{before}TLS=self\n")
        for _again in range(2):
            place.compose("up", "-d", "--force-recreate", "--no-deps", "web")
            wait_until(lambda: place.is_healthy("web"), "web is healthy")
            authorities.append(place.compose("exec", "-T", "web", "cat", "/own-tls/ca.crt"))
            context = ssl.create_default_context(cadata=authorities[-1])
            address = f"https://127.0.0.1:{place.compose.port}/ca.crt"
            with urlopen(address, context=context, timeout=PATIENCE) as answer:  # noqa: S310
                assert answer.read().decode() == authorities[-1]
        assert authorities[0] == authorities[1]
    finally:
        settings.write_text(before)
        place.compose("up", "-d", "--no-deps", "web")
        wait_until(place.is_up, "web answers without TLS")


def test_a_box_in_containers_joins_a_hub_in_containers(place: ComposeInstallation) -> None:
    """One test, as each of its steps begins where the last has ended."""
    states = "[str(each.state) for each in Run.objects.filter(server__slug='far')]"
    with hub_of(place), box_of(place) as box:
        wait_until(lambda: place.ask("BoxLink.objects.count()"), lambda: box.said)
        words = str(place.ask("BoxLink.objects.get().words"))
        wait_until(lambda: words in box.said, lambda: f"{words} are shown: {box.said}")
        place.run(LET_IN)
        wait_until(lambda: "Watching milo" in box.said, lambda: box.said)

        place.run(START)
        wait_until(
            lambda: place.ask(states) == ["ready"],
            lambda: f"{place.ask(states)}, while the box says {box.said[-4000:]}",
        )
        key = str(place.ask(KEY))
        body = {"model": "far", "messages": [{"role": "user", "content": "words"}]}
        headers = {"Authorization": f"Bearer {key}"}
        answer = httpx.post(
            f"{place.url}/v1/chat/completions", json=body, headers=headers, timeout=PATIENCE
        )
        assert answer.status_code == 200, answer.text
        assert answer.json()["choices"][0]["message"]["content"]
        wait_until(
            lambda: place.ask("LogChunk.objects.filter(run__server__slug='far').exists()"),
            "its log is on the hub",
        )
        for query in ("select * from servers_user", "select * from servers_key"):
            said = box.ask(f"Box.objects.raw('{query}')[0]").strip()
            assert said == "ProgrammingError", f"its role may not {query}"

        place.run(REVOKE)
        wait_until(lambda: "control ended with exit code 255" in box.said, lambda: box.said)
        roles = "__import__('servers.lifecycle.links.grants', fromlist=['x']).list_roles()"
        wait_until(lambda: place.ask(f"sorted({roles})") == [], "its role is gone")
    assert place.ask("__import__('servers.state.store', fromlist=['x']).client.acl_whoami()") == (
        "default"
    )
