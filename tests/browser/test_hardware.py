"""A box's hardware in a browser: what breaks appears while one looks, and goes again."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.axe import faults
from tests.browser.chromium import new_page
from tests.web_stack import WebStack

pytestmark = pytest.mark.browser

DESK = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}

# A sample of the collector, judged as the watcher does, with its sign of life.
TELL = """
from servers.judge.memory.hardware import HardwareJudge
box = Box.objects.get(slug="rtx8")
sample = box_samples.newest("rtx8")
sample["t"] += 1
{change}
findings = [each.to_json() for each in HardwareJudge().step(sample)]
Box.objects.update(seen_at=timezone.now())
events.publish_sample("rtx8", box.pk, sample | {{"findings": findings}})
"""
XID = """
uuid = sample["gpus"][2]["uuid"]
sample["happened"] = [{"what": "xid", "number": 79, "gpu": uuid, "pci": "0000:31:00", "count": 1,
    "first": sample["t"] - 90, "last": sample["t"] - 90, "sources": ["kernel", "nvml"],
    "said": "pid=4101, name=<b data-hx-post='/boom/'>, GPU has fallen off the bus."}]
"""
REBOOT = 'sample |= {"boot_id": "another", "happened": []}'
FILLS = 'sample["disks"]["cache"]["free"] = {free} * 2**30'
DEAF = """
sample["unseen"] = {"kernel_log": "The kernel's log is not here: give the watcher's container "
    "the device /dev/kmsg and the capability SYSLOG."}
"""


@pytest.fixture(params=[DESK, PHONE], ids=["desk", "phone"])
def page(stack: WebStack, browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    stack.run("factories.busy_team()")
    complaints: list[str] = []
    context = browser.new_context(viewport=request.param)
    context.add_cookies([stack.cookie("ada")])  # type: ignore[list-item]
    yield new_page(context, complaints)
    context.close()
    assert complaints == []


def tell(stack: WebStack, change: str) -> None:
    stack.run(TELL.format(change=change))


def test_an_xid_appears_on_its_card_and_clears_with_the_next_boot(
    stack: WebStack, page: Page
) -> None:
    tell(stack, "")
    page.goto(f"{stack.url}/boxes/rtx8/")
    health = page.get_by_role("region", name="Health")
    expect(health.get_by_text("nothing wrong")).to_be_visible()
    expect(page.locator("[data-mark]")).to_have_count(0)

    tell(stack, XID)

    found = health.locator('[data-rule="xid"]')
    expect(found).to_contain_text("GPU 2 reported XID 79: it fell off the bus")
    expect(found).to_contain_text("critical")
    expect(found).to_contain_text("name=<b data-hx-post='/boom/'>, GPU has fallen off the bus”.")
    mark = page.get_by_role("group", name="GPU 2").locator("[data-mark]")
    expect(mark).to_contain_text("critical")
    expect(mark).to_contain_text("reported XID 79")
    expect(page.locator("[data-mark]")).to_have_count(1)
    expect(found.get_by_text("shut the box down")).to_be_visible()
    assert faults(page) == []

    tell(stack, REBOOT)

    expect(health.get_by_text("nothing wrong")).to_be_visible()
    expect(page.locator("[data-mark]")).to_have_count(0)
    assert faults(page) == []


@pytest.mark.parametrize("page", [DESK], indirect=True, ids=["desk"])
def test_a_disk_that_fills_is_told_on_every_page_that_shows_the_box(
    stack: WebStack, page: Page
) -> None:
    page.goto(stack.url)
    box = page.get_by_role("region", name="rtx8", exact=True)
    expect(box).to_be_visible()
    expect(box.locator("[data-faults]")).to_have_count(0)

    tell(stack, FILLS.format(free=60))
    expect(box.locator("[data-faults=warning]")).to_have_text("1 warning")
    attention = page.get_by_role("region", name="Needs attention")
    expect(attention.locator("strong", has_text="is nearly full")).to_be_visible()

    tell(stack, FILLS.format(free=3))
    expect(box.locator("[data-faults=critical]")).to_have_text("1 critical")
    assert faults(page) == []

    box.locator("[data-faults=critical]").click()
    found = page.locator('[data-rule="disk"]')
    expect(found).to_contain_text("The disk of the models' folder (/home/ada/.cache/huggingface)")
    expect(found).to_contain_text("3.0 of 7449.0 GiB are free. No checkpoint can be downloaded")

    tell(stack, FILLS.format(free=4000))
    expect(found).to_have_count(0)


@pytest.mark.parametrize("page", [PHONE], indirect=True, ids=["phone"])
def test_the_hardware_page_says_what_is_checked_and_what_cannot_be_seen(
    stack: WebStack, page: Page
) -> None:
    tell(stack, "")
    page.goto(f"{stack.url}/boxes/rtx8/")
    expect(page.get_by_role("region", name="Health").get_by_text("nothing wrong")).to_be_visible()

    page.get_by_role("link", name="Hardware").click()
    checks = page.get_by_role("region", name="Checks")
    expect(checks.get_by_text("PCIe links under load")).to_be_visible()
    tell(stack, DEAF)

    expect(checks.get_by_text("XID errors")).to_be_visible()
    expect(checks.get_by_text("NVML reports them, but only what comes while")).to_be_visible()
    expect(checks.get_by_text("/dev/kmsg")).to_be_visible()
    assert faults(page) == []
