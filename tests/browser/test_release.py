"""A stop proves that the memory came back; what an engine left behind is ended from the page."""

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.base_images import ENGINE
from tests.browser.chromium import PATIENCE
from tests.browser.steps import card, create_profile, eventually, fill_profile
from tests.installation import Installation
from tests.nvml import SimulatedMachine, profiles
from tests.orphans import has_ended, orphans

pytestmark = [pytest.mark.browser, pytest.mark.docker]

GIB = 2**30
WITHIN = 2 * PATIENCE


@pytest.fixture
def orphan() -> Iterator[Callable[[str], int]]:
    with orphans() as make:
        yield make


def container(place: Installation) -> tuple[str, int]:
    """Of the run that is ready: its id, and its process."""
    (found,) = [each for each in place.docker.list_ours() if each.state == "running"]
    assert found.pid is not None
    return found.id, found.pid


def holding(place: Installation, pid: int | None, gib: float) -> SimulatedMachine:
    """The first card has so much in use, by this process or by none."""
    machine = profiles.rtx_pro_6000()
    if pid is None:
        machine.cards[0].numbers["free"] -= int(gib * GIB)
    else:
        machine.cards[0].run(pid, int(gib * GIB))
    place.gpus.show(machine)
    return machine


def made(page: Page, place: Installation) -> Locator:
    """A server's card on the dashboard."""
    page.goto(f"{place.url}/profiles/new/")
    values = {"name": "Held", "checkpoint": "a/b", "image": ENGINE, "env": "ENGINE_SECONDS=0"}
    fill_profile(page, values)
    create_profile(page)
    page.goto(f"{place.url}/")
    return card(page, "held")


def started(page: Page, server: Locator, place: Installation, gib: float) -> str:
    """Ready, and so much is on the first card; the container's id."""
    server.get_by_role("button", name="Start", exact=True).click()
    expect(server).to_have_attribute("data-state", "ready", timeout=WITHIN)
    engine, pid = container(place)
    holding(place, pid, gib)
    expect(page.get_by_role("row", name="GPU 0 ")).to_contain_text(str(gib), timeout=WITHIN)
    return engine


def stopped(page: Page, server: Locator) -> None:
    server.get_by_role("button", name="Stop", exact=True).click()
    dialog = page.get_by_role("dialog")
    is_stopped = page.locator("[data-name=held][data-state=stopped]")
    expect(dialog.or_(is_stopped).first).to_be_visible(timeout=WITHIN)
    if dialog.is_visible():
        dialog.get_by_role("button", name="Stop now").click()
    expect(server).to_have_attribute("data-state", "stopped", timeout=WITHIN)


@pytest.mark.takes(120)
def test_a_stop_counts_the_memory_down_and_what_was_left_is_ended_from_the_page(
    page: Page, place: Installation, orphan: Callable[[str], int]
) -> None:
    server = made(page, place)
    page.evaluate("window.neverReloaded = true")
    started(page, server, place, 61.2)
    stopped(page, server)
    expect(server).to_contain_text("61.2 GiB of GPU memory still to come", timeout=WITHIN)
    expect(server.get_by_text("releasing", exact=True)).to_be_visible()
    holding(place, None, 20)
    expect(server).to_contain_text("20.0 GiB of GPU memory still to come", timeout=WITHIN)
    place.gpus.show(profiles.rtx_pro_6000())
    expect(server).to_contain_text(re.compile(r"Released 61\.2 GiB in \d+ s\."), timeout=WITHIN)

    worker = orphan(started(page, server, place, 61.5))
    stopped(page, server)
    holding(place, worker, 33)
    expect(server).to_contain_text("33.0 GiB of GPU memory still to come.", timeout=WITHIN)
    expect(server).to_contain_text("33.0 GiB were not released", timeout=WITHIN)
    assert page.evaluate("window.neverReloaded")

    server.get_by_role("link", name="See rtx8").click()
    page.wait_for_url(f"{place.url}/boxes/rtx8/")  # loaded: before that a button does nothing
    left = page.locator("[data-left]").filter(has_text=f"Process {worker} (")
    expect(left).to_contain_text("33.0 GiB", timeout=WITHIN)
    left.get_by_role("button", name="End it").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("whether it is still the same process")
    dialog.get_by_role("button", name="Cancel").click()
    assert not has_ended(worker)
    left.get_by_role("button", name="End it").click()
    dialog.get_by_role("button", name="End it").click()
    eventually(page, lambda: has_ended(worker))
    place.gpus.show(profiles.rtx_pro_6000())
    expect(left).to_have_count(0, timeout=WITHIN)
    done = page.get_by_role("list", name="What was done")
    expect(done).to_contain_text("has ended after SIGTERM", timeout=WITHIN)

    page.goto(f"{place.url}/servers/held/")
    told = re.compile(rf"Released 61\.5 GiB in .* Process {worker} ")
    expect(page.locator("main")).to_contain_text(told, timeout=WITHIN)
    page.goto(f"{place.url}/activity/")
    ended = page.get_by_role("listitem").filter(has_text="has ended after SIGTERM")
    expect(ended).to_contain_text("ended")


@pytest.mark.takes(60)
def test_a_container_that_an_older_database_does_not_know_is_adopted(
    page: Page, place: Installation
) -> None:
    server = made(page, place)
    server.get_by_role("button", name="Start", exact=True).click()
    expect(server).to_have_attribute("data-state", "ready", timeout=WITHIN)
    place.run("Server.objects.update(run=None); Run.objects.all().delete()")

    page.goto(f"{place.url}/boxes/rtx8/")
    left = page.locator("[data-left]").filter(has_text="no run in the database names it")
    expect(left).to_be_visible(timeout=WITHIN)
    left.get_by_role("button", name="Adopt").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("the latest run of held")
    dialog.get_by_role("button", name="Adopt").click()
    expect(left).to_have_count(0, timeout=WITHIN)

    page.goto(f"{place.url}/servers/held/")
    expect(page.locator("main header [data-state=ready]")).to_be_visible(timeout=WITHIN)
    page.get_by_role("button", name="Stop", exact=True).click()
    dialog.or_(page.locator("main header [data-state=stopped]")).first.wait_for()
    if dialog.is_visible():
        dialog.get_by_role("button", name="Stop now").click()
    expect(page.locator("main header [data-state=stopped]")).to_be_visible(timeout=WITHIN)
    page.get_by_role("link", name="Log", exact=True).click()
    # From its first line on, which the watcher had stored in the database before.
    expect(page.locator("#log-lines")).to_contain_text("Application startup", timeout=WITHIN)
