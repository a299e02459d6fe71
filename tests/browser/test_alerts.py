"""A start that fails is told once, to the page and to a webhook, and somebody acknowledges it."""

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.alerts.receiver import Receiver, ReceiverResponse, receiver
from tests.base_images import ENGINE
from tests.browser.axe import faults
from tests.browser.chromium import PATIENCE
from tests.browser.steps import card, create_profile, eventually, fill_profile
from tests.installation import Installation

pytestmark = [pytest.mark.browser, pytest.mark.docker]

WITHIN = 2 * PATIENCE
TITLE = "tight on rtx8 failed to start"


@pytest.fixture
def there() -> Iterator[Receiver]:
    with receiver() as made:
        yield made


def events(there: Receiver) -> list[tuple[str, str]]:
    said = [json.loads(each.body) for each in there.got]
    return [(each["event"], each["title"]) for each in said]


def test_a_failed_start_reaches_the_page_the_title_and_a_webhook_once(
    page: Page, place: Installation, there: Receiver
) -> None:
    page.goto(f"{place.url}/alerts/")
    expect(page.get_by_text("No open alerts.")).to_be_visible()
    assert faults(page) == []

    # --- where it is sent, and whether it arrives ---
    page.get_by_role("link", name="Notification channels").click()
    expect(page.get_by_text("No channel yet.")).to_be_visible()
    page.get_by_role("link", name="Add a channel").click()
    page.get_by_label("Name").fill("Team hook")
    page.get_by_label("Kind").select_option("JSON webhook")
    page.get_by_label("Address").fill(f"{there.url}/a-secret-path")
    with page.expect_navigation():  # until its scripts are there, too
        page.get_by_role("button", name="Add it").click()
    row = page.locator("[data-channel='Team hook']")
    expect(row).to_contain_text(f"127.0.0.1:{there.port}")
    there.answers.append(ReceiverResponse(status=404, body=b"no_such_hook"))
    row.get_by_role("button", name="Test").click()
    expect(row.locator(".test")).to_contain_text("no_such_hook")
    row.get_by_role("button", name="Test").click()
    expect(row.locator(".test")).not_to_contain_text("not taken")
    expect(row.locator(".test")).to_contain_text("taken")
    assert "a-secret-path" not in page.content()
    assert faults(page) == []
    there.got.clear()

    # --- what is told ---
    values = {"name": "Tight", "checkpoint": "a/b", "image": ENGINE}
    values |= {"env": "ENGINE_SECONDS=0.5\nENGINE_FITS=0.9"}
    page.goto(f"{place.url}/profiles/new/")
    fill_profile(page, values)
    create_profile(page)
    page.goto(f"{place.url}/")
    expect(page).to_have_title("Dashboard · inferdash")
    card(page, "tight").get_by_role("button", name="Start", exact=True).click()

    eventually(page, lambda: bool(there.got))
    [got] = there.got
    said = json.loads(got.body)
    assert (said["event"], said["kind"], said["title"]) == ("raised", "failed", TITLE)
    assert "GPU memory ran out" in said["detail"]
    assert (said["server"], said["box"], said["checkpoint"]) == ("tight", "rtx8", "a/b")

    expect(page).to_have_title("(1) Dashboard · inferdash")
    expect(page.locator("#attention .notice")).to_have_count(1)
    expect(page.locator("#bell")).to_have_text("1")

    # --- somebody knows of it ---
    page.locator("#bell").click()
    alert = page.locator("[data-alert]")
    expect(alert).to_contain_text(TITLE)
    expect(alert).to_contain_text("GPU memory ran out")
    expect(page).to_have_title("(1) Alerts · inferdash")
    assert faults(page) == []
    alert.get_by_role("button", name="Acknowledge").click()
    expect(alert).to_contain_text("ana acknowledged it")
    expect(page).to_have_title("Alerts · inferdash")
    expect(alert.get_by_role("button")).to_have_count(0)

    # --- when it is over it is kept, and who heard of it hears that ---
    place.run("from servers import lifecycle; lifecycle.remove(Server.objects.get(), by=None)")
    earlier = page.get_by_role("region", name="Earlier alerts").get_by_role("row")
    expect(earlier.filter(has_text=TITLE)).to_contain_text("ana")
    expect(page.get_by_text("No open alerts.")).to_be_visible()
    earlier.get_by_role("link", name=TITLE).click()
    expect(page.get_by_role("region", name="Why it failed")).to_contain_text("OutOfMemory")
    assert place.ask("Alert.objects.count()") == 1
    eventually(page, lambda: events(there) == [("raised", TITLE), ("cleared", TITLE)])
