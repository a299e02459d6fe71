"""The walk of a loss on a DGX Spark: a crash, what is missing, what helps, and what does not."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests import page_cache
from tests.base_images import ENGINE
from tests.browser.chromium import PATIENCE
from tests.browser.steps import card, create_profile, fill_profile
from tests.installation import Installation, installation
from tests.spark import Spark

pytestmark = [pytest.mark.browser, pytest.mark.docker]

WITHIN = 2 * PATIENCE
# As on a real one, where each lasts for minutes.
SOON = "grace=6 falling_grace=6 enter_after=3 leave_after=2 reclaim_takes=4 booting=0"


@pytest.fixture
def spark(tmp_path: Path) -> Spark:
    return Spark(root=tmp_path / "root")


@pytest.fixture
def place(docker_host: str, spark: Spark, tmp_path: Path) -> Iterator[Installation]:
    """Its own: another box, whose kernel and patience stand in the environment of its processes."""
    limits = tmp_path / "box.toml"
    # The Hugging Face cache, which a machine may have or not, is in the home.
    limits.write_text(f'reclaim = true\nmount_roots = ["{Path.home()}"]\n')
    settings = {
        "INFERDASH_BOX": "spark-1",
        "INFERDASH_BOX_FILE": str(limits),
        "INFERDASH_KERNEL_ROOT": str(spark.root),
        "INFERDASH_MEMORY_THRESHOLDS": SOON,
    }
    with installation(docker_host, spark.machine(), **settings) as made:
        spark.gpus = made.gpus
        spark.show()
        yield made


def verdict(page: Page) -> Locator:
    return page.locator("[data-verdict]")


@pytest.mark.takes(150)
def test_a_crash_that_takes_memory_with_it_is_followed_to_the_reboot(
    page: Page, place: Installation, spark: Spark
) -> None:
    page.goto(f"{place.url}/profiles/new/")
    values = {"name": "Coder", "checkpoint": "a/b", "image": ENGINE, "env": "ENGINE_SECONDS=0"}
    fill_profile(page, values)
    create_profile(page)
    page.goto(f"{place.url}/")
    server = card(page, "coder")
    server.get_by_role("button", name="Start", exact=True).click()
    expect(server).to_have_attribute("data-state", "ready", timeout=WITHIN)
    (engine,) = [each for each in place.docker.list_ours() if each.state == "running"]
    assert engine.pid is not None
    spark.load(engine.pid, engine.id, 61.0)

    page.goto(f"{place.url}/boxes/spark-1/")
    page.evaluate("window.neverReloaded = true")
    gpu = page.get_by_role("group", name="GPU 0 ")
    expect(gpu).to_contain_text(re.compile(r"coder\s*61\.0"), timeout=WITHIN)
    expect(verdict(page)).to_have_count(0)

    place.docker.signal(engine.id, "SIGKILL")
    spark.crash(losing=33.0)
    expect(verdict(page)).to_have_attribute("data-verdict", "settling", timeout=WITHIN)
    expect(verdict(page)).to_contain_text("still on their way back")

    expect(verdict(page)).to_have_attribute("data-verdict", "reclaimable", timeout=WITHIN)
    cure = page.locator("[data-cure=reclaimable]")
    expect(cure).to_contain_text("33.0 GiB")
    cure.get_by_role("button", name="Reclaim memory").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Reclaim memory on spark-1?")
    done = page.get_by_role("list", name="What was done")
    with page_cache.to_itself():
        dialog.get_by_role("button", name="Reclaim memory").click()
        expect(done).to_contain_text("It freed next to nothing", timeout=WITHIN)

    expect(verdict(page)).to_have_attribute("data-verdict", "leaked", timeout=WITHIN)
    cure = page.locator("[data-cure=leaked]")
    expect(cure).to_contain_text("reboot")
    assert page.evaluate("window.neverReloaded")
    page.goto(f"{place.url}/")
    attention = page.locator("#attention")
    expect(attention).to_contain_text("spark-1", timeout=WITHIN)
    expect(attention).to_contain_text("33.0 GiB")

    spark.reboot("the-second-boot")
    expect(attention).not_to_contain_text("33.0 GiB", timeout=WITHIN)
    page.goto(f"{place.url}/boxes/spark-1/")
    expect(gpu).to_be_visible(timeout=WITHIN)
    expect(verdict(page)).to_have_count(0)
    expect(page.locator("[data-cure]")).to_have_count(0)
