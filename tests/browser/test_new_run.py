"""An open page of a server follows to its new run: head, log, downloads, table, in every browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.browser.axe import faults
from tests.browser.chromium import new_page
from tests.chat_stack import Stack, seeded
from tests.web_stack import WebStack

pytestmark = pytest.mark.browser

SCREENS: list[ViewportSize] = [{"width": 1280, "height": 800}, {"width": 390, "height": 844}]
AT = "2026-11-21T08:00:00.000000001Z"
NEXT = """
from servers import events
server = Server.objects.get(slug="tiny")
Run.objects.filter(server=server).write(state=RunState.STOPPED, log__is_complete=True)
run = Run.objects.create(server=server, version=server.profile.current, state=RunState.STARTING,
                         container_id="c", started_by=User.objects.first())
Server.objects.filter(pk=server.pk).update(run=run)
records = [f"{at} o run {run.pk} line {n}".encode() for n in range(1, lines + 1)]
LogChunk.objects.append(run.pk, 0, records)
events.publish_change('server', server.pk)
print(run.pk)
"""
FAILED_BEFORE_ITS_CONTAINER = """
from servers import events
server = Server.objects.get(slug="tiny")
Run.objects.filter(pk=server.run_id).write(
    state=RunState.FAILED, container_id="", failure="It lies outside the folders of this box.",
    log__diagnosis={"summary": "It lies outside."}, ended_at=timezone.now())
events.publish_change('server', server.pk)
"""
NEVER_STARTED = """
Server.objects.filter(slug="tiny").update(run=None)
Run.objects.all().delete()
"""


@pytest.fixture
def stack(web: WebStack) -> Stack:
    return seeded(web, 9)


@pytest.fixture
def pages(stack: Stack, browser: Browser) -> Iterator[list[Page]]:
    """The server's page on a desk and on a phone."""
    complaints: list[str] = []
    contexts = [browser.new_context(viewport=screen) for screen in SCREENS]
    found = []
    for context in contexts:
        context.add_cookies([{"name": stack.cookie, "value": stack.session, "url": stack.url}])
        page = new_page(context, complaints)
        page.goto(f"{stack.url}/servers/tiny/log/")
        page.evaluate("window.neverReloaded = true")
        found.append(page)
    yield found
    for page in found:
        assert page.evaluate("window.neverReloaded")
    for context in contexts:
        context.close()
    assert complaints == []


def begin(stack: Stack, lines: int = 3) -> int:
    return int(stack.shell(f"at, lines = {AT!r}, {lines}\n{NEXT}"))


def is_shown(page: Page, run: int) -> None:
    expect(page.locator("run-log")).to_have_attribute("data-run", str(run))
    expect(page.get_by_role("log")).to_have_accessible_name(f"Log of run {run}")
    expect(page.locator(".log-download").first).to_have_attribute("href", f"/runs/{run}/log/")


def test_log_downloads_and_table_go_to_the_new_run(stack: Stack, pages: list[Page]) -> None:
    tables = [page.context.new_page() for page in pages]
    for page, table in zip(pages, tables, strict=True):
        expect(page.locator(".log-status")).to_have_text("live")
        table.goto(f"{stack.url}/servers/tiny/runs/")
        table.evaluate("window.neverReloaded = true")

    for count in (2, 3):
        run = begin(stack)
        for page, table in zip(pages, tables, strict=True):
            is_shown(page, run)
            expect(page.locator("main header [data-state]")).to_have_attribute(
                "data-state", "starting"
            )
            expect(page.locator("run-log")).to_contain_text(f"run {run} line 3")
            expect(page.locator(".log-status")).to_have_text("live")
            expect(page.locator(".log-newer")).to_be_hidden()
            rows = table.get_by_role("region", name="Runs").locator("tbody tr")
            expect(rows).to_have_count(count)
            expect(table.locator("tr.is-shown .state")).to_have_text("starting")

    for table in tables:
        for row in (0, 1):
            table.get_by_role("checkbox").nth(row).check()
        table.get_by_role("button", name="Compare", exact=True).click()
        compared = table.get_by_role("region", name="Compared", exact=True)
        expect(compared).to_contain_text("The same launch")
        assert faults(table) == []


def test_who_reads_at_a_place_of_the_old_run_stays_there_until_they_follow(
    stack: Stack, pages: list[Page]
) -> None:
    old = begin(stack, lines=2000)
    for page in pages:
        is_shown(page, old)
        expect(page.locator("run-log")).to_contain_text(f"run {old} line 2000")
        page.locator(".log-scroller").press("g")
        expect(page.locator("run-log")).to_contain_text(f"run {old} line 1")

    new = begin(stack)

    for page in pages:
        bar = page.locator(".log-newer")
        expect(bar).to_contain_text(f"Run {new} has begun.")
        is_shown(page, old)
        expect(page.get_by_text(f"run {old} line 1", exact=True)).to_be_in_viewport()
        assert faults(page) == []
        bar.get_by_role("button", name="Show it").click()
        is_shown(page, new)
        expect(page.locator("run-log")).to_contain_text(f"run {new} line 3")
        expect(bar).to_be_hidden()


def test_a_start_that_fails_before_its_container_is_not_waited_for(
    stack: Stack, pages: list[Page]
) -> None:
    for page in pages:
        expect(page.locator(".log-empty")).to_contain_text("Nothing yet")

    stack.shell(FAILED_BEFORE_ITS_CONTAINER)

    for page in pages:
        expect(page.locator(".log-empty")).to_have_text("No log: the container was not created.")
        expect(page.locator(".log-status")).to_have_text("complete")


def test_the_first_run_of_all_appears_without_a_reload(stack: Stack, pages: list[Page]) -> None:
    stack.shell(NEVER_STARTED)
    for page in pages:
        page.reload()
        page.evaluate("window.neverReloaded = true")
        expect(page.get_by_text("No log yet.")).to_be_visible()
    overview = pages[0].context.new_page()
    overview.goto(f"{stack.url}/servers/tiny/")
    expect(overview.get_by_text("Never started.")).to_be_visible()

    run = begin(stack)
    expect(overview.locator(".last-lines")).to_contain_text(f"run {run} line 3")

    for page in pages:
        is_shown(page, run)
        expect(page.locator("run-log")).to_contain_text(f"run {run} line 3")
        assert faults(page) == []
