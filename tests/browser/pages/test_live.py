"""The dashboard, box and server pages in a browser: live, for everybody's eyes."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.axe import faults
from tests.browser.chromium import new_page
from tests.browser.layout import until
from tests.browser.pages.sizes import DESK, PHONE
from tests.web_stack import WebStack

pytestmark = pytest.mark.browser


# What a page moved by itself since then: what, and how far.
SHIFTS = """() => {
    window.shifts = [];
    new PerformanceObserver((list) => {
        for (const { value, sources } of list.getEntries()) {
            const parts = sources.map(({ node }) => (node?.parentElement ?? node)?.className ?? "");
            if (value > 0.0001) window.shifts.push([value, ...parts]);
        }
    }).observe({ type: "layout-shift" });
}"""


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_long_names_missing_figures_and_old_values_fit_and_can_be_read(
    stack: WebStack, browser: Browser, ada: Any, complaints: list[str], size: Any
) -> None:
    box = stack.run("print(factories.awkward().slug)").strip()
    context = browser.new_context(viewport=size)
    context.add_cookies([ada])
    page = new_page(context, complaints)
    for path in ("/", f"/boxes/{box}/"):
        page.goto(stack.url + path)
        expect(page.get_by_text("NVML has not answered for 7 s").first).to_be_visible()
        expect(page.get_by_text("utilisation not reported").first).to_be_visible()
        assert faults(page) == [], path
    context.close()


def test_hostile_text_in_a_failure_is_only_text(stack: WebStack, page: Page) -> None:
    stack.run("factories.awkward()")
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))

    page.goto(stack.url)
    page.locator(".card.is-failed h3 a").click()
    page.get_by_text("In Docker’s or the engine’s own words").click()

    expect(page.locator(".failure pre")).to_contain_text("data-hx-post")
    assert page.locator(".failure [data-hx-post], .failure img").count() == 0
    assert [url for url in requests if "boom" in url] == []


def test_a_box_without_servers_says_what_to_do_next(stack: WebStack, page: Page) -> None:
    page.goto(stack.url)

    expect(page.get_by_text("No box yet.")).to_be_visible()
    expect(page.get_by_role("link", name="fill in a profile")).to_be_visible()
    assert faults(page) == []


def test_a_change_reaches_every_open_page_without_a_reload(busy: WebStack, page: Page) -> None:
    page.goto(busy.url)
    card = page.locator("article", has=page.get_by_role("heading", name="gpt-oss-120b"))
    expect(card).to_have_attribute("data-state", "starting")

    busy.run(
        "run = Run.objects.get(server__slug='gpt-oss-120b')\n"
        "Run.objects.filter(pk=run.pk).move(old=[RunState.STARTING], new=RunState.READY,"
        " ready_at=timezone.now())\n"
        "events.publish_change('server', run.server_id)"
    )

    expect(card).to_have_attribute("data-state", "ready")
    expect(card.get_by_role("link", name="Chat")).to_be_visible()
    expect(page.locator("#announcements")).to_have_text("gpt-oss-120b is ready")


def test_a_failure_is_told_on_every_open_page(
    busy: WebStack, context: BrowserContext, page: Page
) -> None:
    page.goto(busy.url)
    other = context.new_page()
    other.goto(f"{busy.url}/servers/gpt-oss-120b/")
    expect(other.locator(".steps [aria-current=step]")).to_contain_text("starting")
    card = page.locator("article", has=page.get_by_role("heading", name="gpt-oss-120b"))
    expect(card).to_have_attribute("data-state", "starting")

    before = page.locator("#attention .notice").count()
    busy.run(
        "run = Run.objects.get(server__slug='gpt-oss-120b')\n"
        "Run.objects.filter(pk=run.pk).move(old=[RunState.STARTING], new=RunState.FAILED,"
        " ended_at=timezone.now(), exit_code=139, failure='It fell over.', log__last_lines=['bye'])\n"
        "events.publish_change('server', run.server_id)"
    )

    expect(card.locator(".card-failure")).to_have_text("It fell over.")
    expect(card.get_by_role("link", name="Why")).to_be_visible()
    expect(page.locator("#attention")).to_contain_text("gpt-oss-120b failed. It fell over.")
    said = page.locator("#attention .notice")
    expect(said).to_have_count(before + 1)
    expect(page).to_have_title(f"({before + 1}) Dashboard · inferdash")
    expect(other.locator(".failure")).to_contain_text("SIGSEGV")
    expect(other.locator(".last-lines")).to_contain_text("bye")


def test_what_is_unfolded_stays_so_when_the_page_is_renewed(busy: WebStack, page: Page) -> None:
    page.goto(f"{busy.url}/servers/minimax-m27/")
    page.get_by_text(re.compile("^Ready in ")).click()
    expect(page.locator(".steps")).to_be_visible()

    busy.run(
        "run = Run.objects.get(server__slug='minimax-m27')\n"
        "RunHealth.objects.filter(run=run.pk).update(requests_running=7)\n"
        "events.publish_change('server', run.server_id)"
    )

    expect(page.locator(".now .figures")).to_contain_text("7")
    expect(page.locator(".steps")).to_be_visible()


def test_a_new_sample_moves_the_meter_and_adds_a_point(busy: WebStack, page: Page) -> None:
    page.goto(busy.url)
    line = page.locator("gpu-line").first
    expect(line.locator("path")).to_be_visible()
    until(page, "() => document.querySelector('gpu-line').steps.size > 55")
    last = page.evaluate("document.querySelector('gpu-line').last")
    page.evaluate(SHIFTS)

    busy.run(
        "box = Box.objects.get(slug='rtx8'); sample = box_samples.newest('rtx8')\n"
        "sample['t'] += 1; sample['gpus'][0] |= {'util': 99}\n"
        "events.publish_sample('rtx8', box.pk, sample)\n"
        "run = Run.objects.get(server__slug='minimax-m27')\n"
        "RunHealth.objects.filter(run=run.pk).update(requests_running=1234, tokens_per_second=98765)\n"
        "events.publish_change('server', run.server_id)"
    )
    expect(page.locator(".card[data-name='minimax-m27']")).to_contain_text("98765")

    until(page, "(before) => document.querySelector('gpu-line').last > before", last)
    expect(page.locator(".gpu-row").first).to_contain_text("99 %")
    expect(line.locator("path")).to_be_visible()
    assert page.evaluate("shifts") == [], "what stands beside another figure stays where it was"


def test_values_that_stop_coming_are_greyed(busy: WebStack, page: Page) -> None:
    page.clock.install()
    page.goto(busy.url)
    expect(page.locator("gpu-line path").first).to_be_visible()

    page.clock.run_for(15_000)

    expect(page.get_by_text("No new values for").first).to_be_visible()
    expect(page.locator(".box").first).to_have_class("box panel is-stale")


@pytest.mark.takes(45)
def test_a_box_that_falls_silent_is_marked_without_a_reload(busy: WebStack, page: Page) -> None:
    page.goto(busy.url)
    dot = page.get_by_role("link", name="spark-1 (all is well)")
    expect(dot).to_be_visible()

    busy.run("Box.objects.filter(slug='spark-1').update(seen_at=None)")

    silent = page.get_by_role("link", name="spark-1 (away)")
    expect(silent).to_be_visible()
    expect(page.locator("#attention")).to_contain_text("spark-1")

    # The link that the server sends anew keeps what the page knows.
    page.goto(f"{busy.url}/boxes/spark-1/")
    page.get_by_role("button", name="Sidebar labels").click()
    expect(silent).to_have_attribute("aria-current", "page")
    busy.run(
        "box = Box.objects.get(slug='spark-1'); box.seen_at = timezone.now(); box.save()\n"
        "events.publish_change('box', box.pk)"
    )
    expect(dot).to_be_visible()
    expect(dot).to_have_attribute("aria-current", "page")
    expect(page.locator(".boxes li[title=spark-1]")).to_be_visible()


def test_stop_asks_when_it_would_take_something_from_others(busy: WebStack, page: Page) -> None:
    page.goto(busy.url)
    card = page.locator("article", has=page.get_by_role("heading", name="qwen3-8b"))
    card.get_by_role("button", name="Stop").click()
    dialog = page.get_by_role("dialog")

    expect(dialog).to_contain_text("grace started it")
    expect(dialog).to_contain_text("1 request is running")
    expect(dialog).to_contain_text("30 min 20 s")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    assert faults(page) == []

    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(card.get_by_role("button", name="Stop")).to_be_focused()

    page.keyboard.press("Enter")
    dialog.get_by_role("button", name="Stop after the running requests").click()
    expect(card).to_contain_text("draining")
    expect(card).to_contain_text("Waits for 1 request")
    expect(dialog).to_be_hidden()


def test_one_s_own_idle_server_stops_at_once(busy: WebStack, page: Page) -> None:
    busy.run("RunHealth.objects.filter(run__server__slug='minimax-m27').update(requests_running=0)")
    page.goto(busy.url)
    card = page.locator("article", has=page.get_by_role("heading", name="minimax-m27"))

    card.get_by_role("button", name="Stop").click()

    expect(card).to_have_attribute("data-state", "stopping")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_a_viewer_sees_everything_and_is_offered_nothing_to_press(
    busy: WebStack, browser: Browser
) -> None:
    context = browser.new_context(viewport=DESK)
    context.add_cookies([busy.cookie("vera", "VIEWER")])  # type: ignore[list-item]
    page = context.new_page()
    page.goto(busy.url)

    expect(page.locator(".card").first).to_be_visible()
    assert page.locator(".card button:not(.card-star)").count() == 0
    assert page.get_by_role("link", name="Chat").count() == 0
    assert page.get_by_role("link", name="Log").count() > 0
    context.close()


def test_an_earlier_runs_page_stays_as_it_was(busy: WebStack, page: Page) -> None:
    said = busy.run(
        "import json\nserver = Server.objects.get(slug='glm-5')\n"
        "old = server.run; factories.run(server, RunState.STARTING, age=5)\n"
        "print(json.dumps({'old': old.pk}))"
    )
    page.goto(f"{busy.url}/servers/glm-5/?run={json.loads(said)['old']}")

    expect(page.get_by_text("An earlier run")).to_be_visible()
    expect(page.locator(".failure-sentence")).to_contain_text("exit code 1")
    page.get_by_role("link", name="To the latest one").click()
    expect(page.locator(".steps [aria-current=step]")).to_contain_text("starting")
