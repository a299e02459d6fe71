"""GPUs that somebody is on: a start that waits for them, and one that takes their place."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.base_images import ENGINE
from tests.browser.axe import faults
from tests.browser.chromium import PATIENCE
from tests.browser.steps import eventually, fill_profile
from tests.installation import Installation
from tests.nvml import profiles

pytestmark = [pytest.mark.browser, pytest.mark.docker]

GIB = 2**30
WITHIN = 2 * PATIENCE


def made(page: Page, place: Installation, name: str) -> None:
    page.goto(f"{place.url}/profiles/new/")
    values = {"name": name, "checkpoint": "a/b", "image": ENGINE, "env": "ENGINE_SECONDS=0"}
    fill_profile(page, {**values, "gpus": "0"})
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()


def is_ready(page: Page, place: Installation, server: Locator, gib: float) -> None:
    """The server is ready, and its engine fills the first card."""
    expect(server).to_have_attribute("data-state", "ready", timeout=WITHIN)
    (engine,) = [each for each in place.docker.list_ours() if each.state == "running"]
    assert engine.pid is not None
    machine = profiles.rtx_pro_6000()
    machine.cards[0].run(engine.pid, int(gib * GIB))
    place.gpus.show(machine)
    expect(page.get_by_role("row", name="GPU 0 ")).to_contain_text(str(gib), timeout=WITHIN)


def start(server: Locator) -> None:
    server.get_by_role("button", name="Start", exact=True).click()


@pytest.mark.takes(120)
def test_a_start_waits_until_its_gpu_is_free_or_takes_the_place_of_who_has_it(
    page: Page, place: Installation
) -> None:
    made(page, place, "Holder")
    made(page, place, "Waiter")
    page.goto(f"{place.url}/")
    page.evaluate("window.neverReloaded = true")
    holder, waiter = (page.locator(f"article[data-name={name}]") for name in ("holder", "waiter"))
    start(holder)
    is_ready(page, place, holder, 61.2)
    expect(holder).to_contain_text("by ana")

    dialog = page.get_by_role("dialog")
    said = r"holder, started by ana .*, no requests yet, ready .* ago, 61\.2 GiB on GPU 0\."

    def is_asked() -> bool:
        """A dialog says what was known when it opened; the engine is asked every other second."""
        start(waiter)
        expect(dialog.get_by_role("heading")).to_have_text("GPU 0 is taken")
        if re.search(said, " ".join(dialog.inner_text().split())):
            return True
        dialog.get_by_role("button", name="Cancel").click()
        return False

    eventually(page, is_asked)
    assert faults(page) == []
    dialog.get_by_role("button", name="Cancel").click()
    expect(waiter).to_have_attribute("data-state", "idle")

    start(waiter)
    dialog.get_by_label("Wait for it").select_option("for 30 minutes")
    dialog.get_by_role("button", name="Wait until free").click()
    expect(waiter).to_have_attribute("data-state", "queued", timeout=WITHIN)
    expect(waiter).to_contain_text("It waits for GPU 0, held by holder (ana).", timeout=WITHIN)
    expect(waiter).to_contain_text(re.compile(r"Gives up at (\d+ \w{3} )?\d\d:\d\d\."))
    expect(holder).to_contain_text("waiter of ana waits for its GPUs until", timeout=WITHIN)

    holder.get_by_role("button", name="Stop", exact=True).click()
    stopped = page.locator("[data-name=holder][data-state=stopped]")
    expect(dialog.or_(stopped).first).to_be_visible(timeout=WITHIN)
    if dialog.is_visible():
        dialog.get_by_role("button", name="Stop now").click()
    expect(stopped).to_be_visible(timeout=WITHIN)
    place.gpus.show(profiles.rtx_pro_6000())
    is_ready(page, place, waiter, 62.3)
    expect(holder).not_to_contain_text("waits for")

    start(holder)
    expect(dialog).to_contain_text("waiter is yours")
    dialog.get_by_role("button", name="Stop now, then start").click()
    expect(waiter).to_have_attribute("data-state", "stopped", timeout=WITHIN)
    is_ready(page, place, holder, 61.5)
    assert page.evaluate("window.neverReloaded")

    page.goto(f"{place.url}/boxes/rtx8/")
    expect(page.get_by_role("group", name="GPU 0 ")).to_contain_text("started by ana")
