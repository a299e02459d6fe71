"""How soon pages show that something was pressed: interaction to next paint, in Chromium.

The dashboard of a team with 50 servers, and a server's page while its log runs. What is pressed is
found by its kind, so that a page may be rebuilt: chips, find, tabs, menus, sort and filter.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Page

from tests.bench.result import BenchResult, percentile, progress
from tests.browser.chromium import chromium
from tests.web_stack import WebStack, web_stack

ROWS = {"servers": 50, "profiles": 60, "runs": 500}
SERVER = "model-00"  # it is ready
LINES = 100_000
EACH_TIME, EVERY = 50, 0.25  # lines, and seconds between
LIMIT = 100.0  # ms
TURNS = 3
SHORTEST = 16.0  # ms; of what is faster browsers tell nothing
WATCH = """
() => {
  window.paints = new Map();
  new PerformanceObserver((list) => {
    for (const { interactionId, duration } of list.getEntries()) {
      if (!interactionId) continue;
      paints.set(interactionId, Math.max(duration, paints.get(interactionId) ?? 0));
    }
  }).observe({ type: "event", durationThreshold: 16, buffered: true });
}
"""
PRESSED = """
#main :is(
  button[popovertarget], [role=tab], summary, th button, [data-level]:enabled,
  [data-action=find], [data-action=follow]
)
"""
TYPED = "#main input:is([type=search], [name=q], [name=text]):not([disabled])"
KEYS = ("Control+k", "Escape", "?", "Escape")  # the palette; the list of keys
LOG_KEYS = ("e", "e", "/", "Escape", "g", "G", "w", "w", "t", "t", "f", "Escape")
FILL = """
import json
from tests.bench import rows
from servers import events
rows.fill(**{rows!r})
rows.tell_sample()
run = Server.objects.get(slug={server!r}).run
levels = ["INFO"] * 97 + ["WARNING"] * 2 + ["ERROR"]
for start in range(0, {lines}, 20000):
    records = [f"2026-11-21T08:00:00.000000001Z o {{levels[n % 100]}} 11-21 08:00:00 [core.py:1] line {{n}}".encode()
               for n in range(start, start + 20000)]
    LogChunk.objects.append(run.pk, start, records)
print(run.pk)
"""
GROW = """
from servers import events
after = Run.objects.get(pk={run}).log.lines
records = [f"2026-11-21T09:00:00.000000001Z o INFO 11-21 09:00:00 [core.py:1] later {{n}}".encode()
           for n in range({count})]
events.publish_log_growth({run}, LogChunk.objects.append({run}, after, records))
"""


def bench() -> Iterator[BenchResult]:
    with web_stack() as web, chromium() as browser:
        run = int(web.run(FILL.format(rows=ROWS, server=SERVER, lines=LINES)))
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        cookie = web.cookie("ada")
        context.add_cookies([{key: cookie[key] for key in ("name", "value", "url")}])  # type: ignore[list-item]
        page = context.new_page()
        progress(
            f"a button that does nothing, on a page without scripts: {_find_floor(page):.0f} ms"
        )
        with _growing(web, run):
            yield _measure(page, web.url, "the dashboard of 50 servers", "/")
            for tab in ("", "log/"):
                path = f"/servers/{SERVER}/{tab}"
                answer = page.goto(web.url + path)
                if answer is not None and answer.ok and page.locator("run-log").count():
                    yield _measure(page, web.url, "a log of 100,000 lines that runs", path)
                    return
    raise AssertionError(f"no page of {SERVER} shows its log")


def _measure(page: Page, url: str, what: str, path: str) -> BenchResult:
    page.goto(url + path)
    page.wait_for_load_state("networkidle") if path == "/" else page.locator(
        "[data-level=error]:enabled"
    ).wait_for()
    page.evaluate(WATCH)
    count = 0
    for _turn in range(TURNS):
        count += _press_all(page) + _type_all(page) + _press_keys(page)
    page.wait_for_timeout(300)  # for the last entries
    found = list(page.evaluate("[...window.paints.values()]"))
    # Faster ones leave no entry.
    times = found + [SHORTEST] * (count - len(found))
    slowest = max(times)
    progress(f"{what}: {count} clicks and keys, the slowest {slowest:.0f} ms")
    return BenchResult(
        name=f"interaction: {what}, click or key to next paint, p95",
        value=percentile(times, 95),
        unit="ms",
        limit=LIMIT,
    )


def _find_floor(page: Page) -> float:
    """What this machine takes whatever a page does, in the middle."""
    page.set_content("<button>Press</button>")
    page.evaluate(WATCH)
    for _turn in range(20):
        page.get_by_role("button").click()
    page.wait_for_timeout(300)
    times = list(page.evaluate("[...window.paints.values()]"))
    return percentile(times + [SHORTEST] * (20 - len(times)), 50)


def _press_all(page: Page) -> int:
    count = 0
    found = page.locator(PRESSED)
    for number in range(min(found.count(), 40)):
        button = found.nth(number)
        if button.is_visible() and button.is_enabled():
            button.click()
            page.keyboard.press("Escape")  # what it has opened
            count += 2
    return count


def _type_all(page: Page) -> int:
    count = 0
    for field in page.locator(TYPED).all():
        if field.is_visible():
            field.press_sequentially("mod", delay=30)
            field.press("Backspace")
            field.fill("")
            count += 4
    return count


def _press_keys(page: Page) -> int:
    log = page.locator(".log-scroller")
    keys = LOG_KEYS if log.count() else KEYS
    for key in keys:
        if log.count() and key != "Escape":
            log.press(key)
        else:
            page.keyboard.press(key)
        page.wait_for_timeout(30)
    return len(keys)


@contextmanager
def _growing(web: WebStack, run: int) -> Iterator[None]:
    """The log of this run, meanwhile."""
    ended = threading.Event()

    def grow() -> None:
        while not ended.wait(EVERY):
            web.run(GROW.format(run=run, count=EACH_TIME))

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
