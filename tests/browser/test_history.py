"""A box's history in a browser: zoom, pan, another card, and what goes wrong."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.axe import faults
from tests.browser.chromium import new_page
from tests.web_stack import WebStack

pytestmark = pytest.mark.browser

DESK = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
FILL = """
import time
from tests import past
from tests.runs.metrics import shown
factories.busy_team()
box = Box.objects.get(slug="rtx8")
cards = [{"index": index, "uuid": past.key(index), "name": "RTX PRO 6000"} for index in range(2)]
Box.objects.filter(pk=box.pk).update(facts={**box.facts, "gpus": cards})
shown.past(Run.objects.get(server__slug="minimax-m27"))
past.fill(box, int(time.time()) - 30, gpus=2, kept={1: 600, 10: 7200, 60: 86400, 600: 3 * 86400})
"""


@pytest.fixture
def stack(web: WebStack) -> WebStack:
    web.run(FILL)
    return web


@pytest.fixture
def complaints() -> list[str]:
    return []


@pytest.fixture(params=[DESK, PHONE], ids=["desk", "phone"])
def page(
    stack: WebStack, browser: Browser, request: pytest.FixtureRequest, complaints: list[str]
) -> Iterator[Page]:
    context = browser.new_context(viewport=request.param)
    context.add_cookies([stack.cookie("ada")])  # type: ignore[list-item]
    page = new_page(context, complaints)
    page.goto(f"{stack.url}/boxes/rtx8/history/")
    expect(page.locator("[data-chart=memory] canvas")).to_be_visible()
    settled(page)
    yield page
    context.close()
    assert complaints == []


on_a_desk = pytest.mark.parametrize("page", [DESK], indirect=True, ids=["desk"])


def settled(page: Page) -> None:
    expect(page.locator("box-history")).to_have_attribute("aria-busy", "false")


def shown(page: Page) -> dict[str, Any]:
    settled(page)
    code = "(({from, to, width, columns}) => ({from, to, width, names: Object.keys(columns)}))"
    found: dict[str, Any] = page.evaluate(f"{code}(document.querySelector('box-history').view)")
    return found


def drag(page: Page, first: float, last: float) -> None:
    area = page.locator("[data-chart=memory] .u-over")
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * first, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * last, y, steps=5)
    with page.expect_response("**/points.json*"):
        page.mouse.up()


def test_a_day_can_be_zoomed_into_and_out_of(stack: WebStack, page: Page) -> None:
    day = shown(page)
    assert round((day["to"] - day["from"]) / 3600) == 24
    expect(page.locator("[data-legend]")).to_contain_text("minimax-m27")

    drag(page, 0.5, 0.6)

    near = shown(page)
    assert 2.2 < (near["to"] - near["from"]) / 3600 < 2.6
    assert abs((near["from"] - day["from"]) / 3600 - 12) < 0.2
    assert near["width"] < day["width"]
    expect(page).to_have_url(re.compile(f"from={near['from']}"))
    area = page.locator("[data-chart=memory] .u-over")
    reset = page.get_by_role("button", name="Reset zoom")
    ways: list[Callable[[], object]] = [
        area.dblclick,
        reset.click,
        lambda: page.keyboard.press("Escape"),
    ]
    for back in ways:
        expect(reset).to_be_enabled()
        with page.expect_response("**/points.json*"):
            back()
        far = shown(page)
        assert abs(far["to"] - far["from"] - (day["to"] - day["from"])) < 2
        expect(reset).to_be_disabled()
        expect(page).to_have_url(re.compile("span=1d"))
        drag(page, 0.5, 0.6)
        page.locator("[data-chart=memory]").focus()
    assert faults(page) == []


@on_a_desk
def test_it_is_moved_and_zoomed_by_buttons_and_keys(stack: WebStack, page: Page) -> None:
    with page.expect_response("**/points.json*"):
        page.get_by_role("button", name="1 h").click()
    expect(page).to_have_url(re.compile("span=1h"))
    hour = shown(page)
    expect(page.get_by_role("button", name="1 h")).to_have_attribute("aria-pressed", "true")
    with page.expect_response("**/points.json*"):
        page.get_by_role("button", name="Earlier").click()
    earlier = shown(page)
    assert 1750 < hour["to"] - earlier["to"] < 1850
    chart = page.locator("[data-chart=memory]")
    chart.focus()
    for key, share in (("ArrowLeft", -0.25), ("ArrowRight", 0.25)):
        before = shown(page)
        with page.expect_response("**/points.json*"):
            page.keyboard.press(key)
        moved = shown(page)["to"] - before["to"]
        assert abs(moved / 3600 - share) < 0.01
    with page.expect_response("**/points.json*"):
        page.keyboard.press("+")
    near = shown(page)
    assert 1780 < near["to"] - near["from"] < 1820
    with page.expect_response("**/points.json*"):
        page.keyboard.press("End")
    assert shown(page)["to"] >= hour["to"]
    expect(page).to_have_url(re.compile("span="))


@on_a_desk
def test_one_card_can_be_looked_at_and_the_address_keeps_it(stack: WebStack, page: Page) -> None:
    with page.expect_response("**/points.json*"):
        page.get_by_label("GPU", exact=True).select_option(label="GPU 0 RTX PRO 6000")
    alone = shown(page)
    assert "=server:gpt-oss-120b" not in alone["names"]

    page.reload()

    expect(page.locator("[data-chart=memory] canvas")).to_be_visible()
    assert shown(page)["names"] == alone["names"]
    expect(page.get_by_label("GPU", exact=True)).to_have_value(
        "GPU-00000000-1111-2222-3333-444444444444"
    )
    page.get_by_role("button", name="More", exact=True).click()
    link = page.get_by_role("link", name="CSV of GPUs").get_attribute("href")
    assert link is not None
    assert "gpu=GPU-00000000" in link


def test_runs_are_listed_and_one_can_be_shown(stack: WebStack, page: Page) -> None:
    rows = page.locator("[data-runs] tbody tr")
    expect(rows).to_have_count(4)
    with page.expect_response("**/points.json*"):
        rows.filter(has_text="glm-5").get_by_role("button").click()
    near = shown(page)
    assert near["to"] - near["from"] < 3600


def test_a_time_in_which_nothing_was_recorded_says_so(stack: WebStack, page: Page) -> None:
    page.goto(f"{stack.url}/boxes/rtx8/history/?from=1700000000&to=1700003600")

    expect(page.get_by_text("Nothing was recorded in this time.")).to_be_visible()
    expect(page.locator(".history-charts")).to_be_hidden()
    assert faults(page) == []
    with page.expect_response("**/points.json*"):
        page.get_by_role("button", name=re.compile(r"^Show \d+ \w+ \d\d:\d\d – ")).click()
    expect(page.locator("[data-chart=memory] canvas")).to_be_visible()


@on_a_desk
def test_a_failure_is_said_and_can_be_tried_again(
    stack: WebStack, page: Page, complaints: list[str]
) -> None:
    def broken(route: Route) -> None:
        route.fulfill(status=503, body="no")

    page.route("**/points.json*", broken)
    page.get_by_role("button", name="7 d").click()
    expect(page.get_by_text("could not be loaded (the server answered 503)")).to_be_visible()
    expect(page.locator("[data-chart=memory] canvas")).to_be_visible()

    page.unroute("**/points.json*", broken)
    page.get_by_role("button", name="Try again").click()

    expect(page.locator("[data-error]")).to_be_hidden()
    assert all("503" in each for each in complaints)
    complaints.clear()


def test_what_its_servers_did_is_drawn_beneath_the_cards(page: Page, stack: WebStack) -> None:
    page.get_by_role("button", name="1 h").click()
    settled(page)
    for name in ("requests", "tokens", "first", "kv", "prefix"):
        expect(page.locator(f"[data-chart=engine-{name}] canvas")).to_be_visible()
    first = page.locator("[data-figures] div", has=page.get_by_text("First token", exact=True))
    expect(first).to_contain_text("p95")
    expect(page.locator("[data-download=servers]")).to_have_attribute(
        "href", re.compile(r"points\.csv\?.*of=servers")
    )


@on_a_desk
def test_one_readout_says_what_all_charts_say_where_the_pointer_is(
    page: Page, stack: WebStack
) -> None:
    when = page.locator("[data-when]")
    expect(when).to_have_text("Latest")
    area = page.locator("[data-chart=engine-tokens] .u-over")
    area.scroll_into_view_if_needed()
    area.hover()

    expect(when).to_have_text(re.compile(r"^\d\d:\d\d:\d\d$|^\d+ \w+ \d\d:\d\d$"))
    for title in ("Utilisation", "Tokens/s"):
        figure = page.locator("[data-figures] div", has=page.get_by_text(title, exact=True))
        expect(figure.locator("dd")).to_have_text(re.compile(r"\d|–"))
    expect(page.locator(".lane-cursor")).to_be_attached()
    page.mouse.move(0, 0)
    expect(when).to_have_text("Latest")


def test_a_chip_hides_what_it_names(page: Page, stack: WebStack) -> None:
    chip = page.locator("[data-legend]").get_by_role("button", name="minimax-m27")
    expect(page.locator("[data-chart=engine-tokens] canvas")).to_be_visible()
    chip.focus()
    page.keyboard.press("Enter")

    expect(chip).to_have_attribute("aria-pressed", "false")
    expect(chip).to_be_focused()
    expect(page.locator("[data-chart=engine-tokens]")).to_be_hidden()
    assert faults(page) == []
    chip.click()
    expect(page.locator("[data-chart=engine-tokens] canvas")).to_be_visible()


def test_marks_lead_to_what_happened(page: Page, stack: WebStack) -> None:
    mark = page.locator("[data-lane] button").last
    mark.focus()
    page.keyboard.press("Enter")
    events = page.locator(".lane-menu:popover-open").get_by_role("link")
    expect(events.first).to_be_visible()
    assert faults(page) == []
    page.keyboard.press("Escape")
    expect(events).to_have_count(0)
    expect(mark).to_be_focused()

    mark.click()
    events.last.click()
    page.wait_for_url(re.compile(r"/servers/.+run=\d+|/alerts/"))


def test_a_server_s_page_shows_what_its_engine_tells_live(page: Page, stack: WebStack) -> None:
    tell = (
        "from tests.runs.metrics import shown\nrun = Run.objects.get(server__slug='minimax-m27')\n"
    )
    stack.run(f"{tell}shown.tell(run)")
    page.goto(f"{stack.url}/servers/minimax-m27/metrics/")
    work = page.get_by_role("region", name="Metrics", exact=True)
    expect(work).to_contain_text("62 % prefix hits")
    expect(work.locator("engine-charts canvas")).to_have_count(6)
    assert faults(page) == []

    stack.run(f"{tell}shown.tell(run, busy=0.0)\nevents.publish_change('server', run.server_id)")
    expect(work).not_to_contain_text("prefix hits")
    expect(work.locator("engine-charts canvas")).to_have_count(6)
    stack.run(f"{tell}shown.tell(run, ago=60)\nevents.publish_change('server', run.server_id)")
    expect(work).to_contain_text("has told nothing since")
    assert faults(page) == []
