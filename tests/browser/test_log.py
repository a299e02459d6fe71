import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.axe import faults, faults_in_both_colours
from tests.browser.chromium import PATIENCE
from tests.browser.layout import rest, until
from tests.browser.steps import eventually
from tests.chat_stack import Stack, seeded
from tests.web_stack import WebStack

pytestmark = pytest.mark.browser

AT = "2026-11-21T08:00:00.000000001Z"


@pytest.fixture
def stack(web: WebStack) -> Stack:
    return seeded(web, 9)


@pytest.fixture
def context(stack: Stack, browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(PATIENCE)
    context.add_cookies([{"name": stack.cookie, "value": stack.session, "url": stack.url}])
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    complaints: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "console",
        lambda said: complaints.append(said.text) if "Security Policy" in said.text else None,
    )
    yield page
    assert complaints == []


def write(stack: Stack, lines: list[tuple[str, str]]) -> None:
    """Store these lines (stream, text) after those that are there, and tell the browsers."""
    path = Path(stack.env["INFERDASH_DATA"]) / "lines.json"
    path.write_text(json.dumps(lines))
    stack.shell(
        "import json\n"
        "from servers import events\n"
        f"lines = json.load(open({str(path)!r}))\n"
        f"after = Run.objects.get(pk={stack.run}).log.lines\n"
        f"records = [f'{AT} {{s}} {{text}}'.encode() for s, text in lines]\n"
        f"events.publish_log_growth({stack.run}, LogChunk.objects.append({stack.run}, after, records))"
    )


def open_log(page: Page, stack: Stack, anchor: str = "") -> None:
    page.goto(f"{stack.url}/servers/tiny/log/{anchor}")
    expect(page.locator(".log-status")).to_have_text("live")


def choose(page: Page, name: str) -> None:
    """Presses something of the log's menu, and closes it where it is a tick."""
    page.get_by_role("button", name="More", exact=True).click()
    item = page.locator("#log-menu").get_by_text(name)
    item.click()
    if page.locator("#log-menu:popover-open").count():
        page.keyboard.press("Escape")
    expect(item).to_be_hidden()


def numbered(count: int) -> list[tuple[str, str]]:
    return [("o", f"line {n}") for n in range(1, count + 1)]


def shown(page: Page) -> list[int]:
    return [int(text) for text in page.locator(".log-number").all_inner_texts()]


def is_whole(numbers: list[int]) -> bool:
    """No line between the first and the last is missing or there twice."""
    return bool(numbers) and numbers == list(range(numbers[0], numbers[-1] + 1))


def test_colours_are_kept_and_nothing_in_a_line_is_obeyed(page: Page, stack: Stack) -> None:
    hostile = '<img src=x onerror=alert(1)><b data-hx-post="/logout/" data-hx-trigger="load">x</b>'
    write(
        stack,
        [
            ("o", "\x1b[31mred\x1b[0m \x1b[38;5;208morange\x1b[0m \x1b[38;2;1;2;3mtrue\x1b[0m"),
            ("e", hostile),
            ("o", "w" * 20_000),
        ],
    )
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    open_log(page, stack)
    page.locator(".log-scroller").press("g")

    expect(page.locator(".log-f1")).to_have_text("red")
    expect(page.locator(".log-fx")).to_have_text(["orange", "true"])
    expect(page.locator(".log-row-e .log-text")).to_have_text(hostile)
    expect(page.locator(".log-row-e .log-level")).to_have_text("stderr")
    expect(page.locator(".log-row img, .log-row b")).to_have_count(0)
    page.get_by_role("button", name="16,000 more characters").click()
    expect(page.locator(".log-row-o .log-text").last).to_have_text("w" * 20_000)
    assert not [url for url in asked if "logout" in url]


def test_the_refreshes_of_a_bar_share_one_row_a_rank(page: Page, stack: Stack) -> None:
    refreshes = [
        ("e", f"\r(Worker_TP{rank} pid={rank}) Loading: {p:3d}%|{'█' * (p // 10)}| {p}/100 [00:01<00:02, 3it/s]")
        for p in range(0, 101, 10)
        for rank in (0, 1)
    ]  # fmt: skip
    write(stack, [("o", "before"), *refreshes, ("o", "a\r10%\r100% done"), ("o", "after")])
    open_log(page, stack)

    bars = page.locator(".log-row-e .log-text")
    expect(bars).to_have_count(2)
    expect(bars.first).to_have_text(re.compile(r"^\(Worker_TP0 pid=0\) Loading: 100%"))
    expect(page.locator(".log-text").nth(3)).to_have_text("100% done")
    expect(page.locator(".log-refreshes").first).to_have_text("11 updates")
    choose(page, "Show all updates")
    expect(page.locator(".log-row-e .log-text")).to_have_count(22)


def test_it_follows_until_somebody_scrolls_up_and_again_at_the_end(
    page: Page, stack: Stack
) -> None:
    write(stack, numbered(3000))
    open_log(page, stack)
    expect(page.locator(".log-number").last).to_have_text("3000")

    page.locator(".log-scroller").hover()
    page.mouse.wheel(0, -4000)
    follow = page.get_by_role("button", name="Follow", exact=True)
    expect(follow).to_have_attribute("aria-pressed", "false")
    news = page.locator(".log-follow")
    expect(news).to_be_hidden()
    top = rest(page, ".log-scroller")
    write(stack, numbered(5))
    expect(news).to_have_text("▼ 5 new lines")
    assert rest(page, ".log-scroller") == top

    news.click()
    expect(page.locator(".log-number").last).to_have_text("3005")
    expect(news).to_be_hidden()
    expect(follow).to_have_attribute("aria-pressed", "true")
    follow.click()
    expect(follow).to_have_attribute("aria-pressed", "false")


def test_a_long_log_is_walked_searched_and_linked_to_with_few_elements(
    page: Page, stack: Stack
) -> None:
    write(stack, [*numbered(150_000), ("e", "a NEEDLE here"), *numbered(50_000)])
    open_log(page, stack, "#L100000")
    expect(page.locator(".is-target .log-text")).to_have_text("line 100000")

    scroller = page.locator(".log-scroller")
    scroller.press("g")
    expect(page.locator(".log-number").first).to_have_text("1")
    page.get_by_role("link", name="Metrics").press("/")
    page.keyboard.type("needle")
    expect(page.locator(".log-count")).to_have_text("1 of 1")
    expect(page.locator(".is-target mark")).to_have_text("NEEDLE")
    page.keyboard.press("Escape")
    scroller.press("G")
    expect(page.locator(".log-number").last).to_have_text("200001")
    page.evaluate("document.querySelector('.log-scroller').scrollTop /= 2")
    expect(page.locator(".log-number").first).to_have_text(re.compile(r"^(9\d{4}|10\d{4})$"))
    eventually(page, lambda: is_whole(shown(page)))
    assert len(shown(page)) < 300


def test_no_line_is_lost_or_doubled_when_the_socket_drops(
    page: Page, context: BrowserContext, stack: Stack
) -> None:
    write(stack, numbered(50))
    open_log(page, stack)
    expect(page.locator(".log-number").last).to_have_text("50")

    page.evaluate("document.querySelector('run-log').reader.socket.socket.close()")
    expect(page.locator(".log-status")).not_to_have_text("live")
    write(stack, numbered(30))

    expect(page.locator(".log-number").last).to_have_text("80")
    expect(page.locator(".log-status")).to_have_text("live")
    lines = page.evaluate("document.querySelector('run-log').reader.model.lines.map(l => l.number)")
    assert lines == list(range(1, 81))


LAUNCH = [
    "INFO 11-21 10:00:00 [core.py:12] Starting up",
    "(VllmWorker TP0 pid=7) INFO 11-21 10:00:01 [loader.py:9] Loading shard 1 of 2",
    "(VllmWorker TP1 pid=8) INFO 11-21 10:00:01 [loader.py:9] Loading shard 1 of 2",
    "WARNING 11-21 10:00:02 [config.py:3] Falling back to the slow path",
    "(VllmWorker TP1 pid=8) ERROR 11-21 10:00:03 [worker.py:5] CUDA out of memory",
]


def test_a_pattern_finds_lines_and_only_those_are_shown(page: Page, stack: Stack) -> None:
    write(stack, [*numbered(5000), *(("o", text) for text in LAUNCH), *numbered(3000)])
    open_log(page, stack)
    page.locator(".log-scroller").press("/")
    page.keyboard.type(r"^line [12]\d00$")
    page.get_by_label("regular expression").check()
    expect(page.locator(".log-count")).to_contain_text("of 40")
    expect(page.locator(".is-target mark")).to_be_visible()

    page.get_by_label("Only these").check()
    expect(page.locator(".log-number").first).to_have_text("1000")
    expect(page.locator(".log-number").nth(20)).to_have_text("6005")
    write(stack, [("o", "line 1500")])
    expect(page.locator(".log-count")).to_contain_text("41")

    page.get_by_role("link", name="6005").click()
    expect(page.get_by_label("Only these")).not_to_be_checked()
    expect(page.locator(".is-target .log-text")).to_have_text("line 1000")
    page.get_by_label("Find in the whole log").fill("(oops")
    expect(page.locator(".log-count")).to_contain_text("This is no regular expression: missing )")


def test_errors_and_ranks_are_shown_alone(page: Page, stack: Stack) -> None:
    write(stack, [*numbered(3000), *(("o", text) for text in LAUNCH), *numbered(3000)])
    open_log(page, stack)
    errors, warnings = (
        page.get_by_role("button", name=name) for name in ("Errors 1", "Warnings 1")
    )
    warnings.click()
    expect(page.locator(".log-number")).to_have_text(["3004"])
    errors.click()
    expect(page.locator(".log-number")).to_have_text(["3004", "3005"])
    warnings.click()
    expect(page.locator(".log-number")).to_have_text(["3005"])
    expect(page.locator(".log-size")).to_have_text("1 of 6,005 lines")
    expect(page.locator(".log-row .log-level")).to_have_text(["ERROR"])

    # What is searched for is searched among these; a rank is one thing more to search for.
    page.get_by_role("button", name="Find", exact=True).click()
    page.get_by_label("Find in the whole log").fill("cuda")
    expect(page.locator(".log-count")).to_have_text("1 of 1")
    page.get_by_label("Find in the whole log").fill("shard")
    expect(page.locator(".log-count")).to_have_text("not in this log")
    page.keyboard.press("Escape")
    expect(page.locator(".log-find")).to_be_hidden()

    # Among its neighbours.
    page.get_by_role("link", name="3005").click()
    expect(page.locator(".log-row.is-target .log-number")).to_have_text("3005")
    expect(page.locator(".log-number", has_text="3003")).to_be_visible()
    expect(page.get_by_role("button", name="All", exact=True)).to_have_attribute(
        "aria-pressed", "true"
    )
    page.locator(".log-scroller").press("e")
    expect(page.locator(".log-number")).to_have_text(["3005"])


def test_it_is_as_high_as_the_page_until_escape_and_menus_are_walked_by_keys(
    page: Page, stack: Stack
) -> None:
    write(stack, [*numbered(300), *(("o", text) for text in LAUNCH)])
    open_log(page, stack)
    log, scroller = page.locator("run-log"), page.locator(".log-scroller")
    low = log.evaluate("log => log.offsetHeight")
    scroller.press("f")
    expect(log).to_have_class(re.compile("is-full"))
    assert low < 700
    until(
        page,
        """() => {
            const { width, height } = document.querySelector("run-log").getBoundingClientRect();
            return width > 1000 && height > 700;
        }""",
    )
    expect(scroller).to_be_focused()
    expect(page.locator(".log-number").last).to_have_text("305")
    assert faults(page) == []

    page.get_by_role("button", name="More", exact=True).press("Enter")
    menu = page.get_by_role("menu", name="Log")
    expect(menu.get_by_role("menuitemcheckbox", name="Full height")).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    wrap = menu.get_by_role("menuitemcheckbox", name="Wrap long lines")
    expect(wrap).to_have_attribute("aria-checked", "false")
    expect(scroller).not_to_have_class(re.compile("is-wrapped"))
    page.keyboard.press("r")
    page.keyboard.press("Enter")
    own = page.locator(".log-own", has_text="INFO 11-21 10:00:00")
    expect(own).to_be_visible()
    assert faults(page) == []
    page.keyboard.press("Escape")
    expect(menu).to_be_hidden()
    expect(page.get_by_role("button", name="More", exact=True)).to_be_focused()
    page.keyboard.press("Escape")
    expect(log).not_to_have_class(re.compile("is-full"))
    expect(page.locator("[inert]")).to_have_count(0)

    # Chosen for the next time, too.
    page.reload()
    expect(own).to_be_visible()
    expect(scroller).not_to_have_class(re.compile("is-wrapped"))


def test_a_choice_is_saved_as_a_file_and_printed(page: Page, stack: Stack) -> None:
    write(stack, [*numbered(3000), *(("o", text) for text in LAUNCH)])
    open_log(page, stack)
    expect(page.get_by_role("button", name="Errors 1")).to_be_enabled()

    def save(*ticks: str) -> tuple[str, str]:
        choose(page, "Download…")
        for tick in ticks:
            page.get_by_role("dialog").get_by_label(tick).check()
        with page.expect_download() as waiting:
            page.get_by_role("dialog").get_by_role("button", name="Download").click()
        return waiting.value.suggested_filename, waiting.value.url.removeprefix(stack.url)

    whole = f"/runs/{stack.run}/log/"
    assert save() == (f"tiny-run-{stack.run}.txt", whole)
    name, address = save("Timestamps", "Compressed")
    assert (name, address) == (f"tiny-run-{stack.run}.txt.gz", f"{whole}?timestamps&gz")
    page.get_by_role("button", name="Errors 1").click()
    choose(page, "Download…")
    page.get_by_label("Only the lines shown (1)").check()
    with page.expect_download() as waiting:
        page.get_by_role("dialog").get_by_role("button", name="Download").click()
    assert waiting.value.path().read_text() == f"{LAUNCH[-1]}\n"

    page.evaluate(
        "void (window.print = () => (window.printed = document.querySelector('.log-print').textContent))"
    )
    page.get_by_role("link", name="3005").click()
    page.get_by_role("button", name="Print").click()
    until(page, "() => window.printed")
    assert page.evaluate("window.printed") == f"3005  {LAUNCH[-1]}\n"


def test_keys_are_a_pagers_but_not_while_one_types(page: Page, stack: Stack) -> None:
    write(stack, numbered(3000))
    open_log(page, stack)
    scroller = page.locator(".log-scroller")
    scroller.press("/")
    page.keyboard.type("line 29ngGN/:")
    field = page.get_by_label("Find in the whole log")
    expect(field).to_have_value("line 29ngGN/:")
    field.fill("line 29")
    expect(page.locator(".log-count")).to_contain_text("of 111")
    scroller.press("g")
    expect(page.locator(".log-number").first).to_have_text("1")
    scroller.press("N")
    scroller.press("n")
    expect(page.locator(".is-target")).to_have_count(1)
    scroller.press(":")
    page.keyboard.type("1234")
    page.keyboard.press("Enter")
    expect(page.locator(".is-target .log-text")).to_have_text("line 1234")
    page.keyboard.press("Escape")
    expect(page.locator(".log-find")).to_be_hidden()


def test_lines_are_marked_linked_to_and_copied_with_their_numbers(
    page: Page, context: BrowserContext, stack: Stack
) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    write(stack, numbered(3000))
    open_log(page, stack)
    page.locator(".log-scroller").press("g")
    page.get_by_role("link", name="9", exact=True).click()
    expect(page.locator(".is-target")).to_have_count(1)
    page.get_by_role("link", name="12", exact=True).click(modifiers=["Shift"])
    expect(page.locator(".is-target")).to_have_count(4)
    expect(page.locator(".log-marked")).to_contain_text("Lines 9–12")

    page.get_by_role("button", name="Copy lines").click()
    expect(page.locator(".log-marked")).to_contain_text("Copied")
    read = "navigator.clipboard.readText()"
    assert page.evaluate(read) == " 9  line 9\n10  line 10\n11  line 11\n12  line 12\n"
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator("[data-action=copy-link]")).to_have_text("Copied")
    link = page.evaluate(read)
    assert link == f"{stack.url}/runs/{stack.run}/#L9-L12"

    other = context.new_page()
    other.goto(link)
    expect(other.locator(".is-target")).to_have_count(4)
    expect(other).to_have_url(f"{stack.url}/servers/tiny/log/?run={stack.run}#L9-L12")


def test_lines_that_were_cut_out_are_one_row_and_the_others_keep_their_numbers(
    page: Page, stack: Stack
) -> None:
    write(stack, numbered(20_000))
    open_log(page, stack, "#L9000")
    expect(page.locator(".is-target .log-text")).to_have_text("line 9000")
    stack.shell(
        "from servers.watcher.logs import writer\n"
        f"writer._cut({stack.run}, 20_000, 200_000, 'a test wanted it')"
    )
    gap = stack.shell(f"g = Run.objects.get(pk={stack.run}).log.gap; print(g['first'], g['last'])")
    first, last = map(int, gap.split())
    assert first < 9000 < last

    # The page that is open learns of it.
    note = page.locator(".log-row-i .log-text")
    expect(note).to_contain_text(f"lines {first:,} to {last:,} were removed")
    expect(page.locator(".log-row-i.is-target")).to_have_count(1)
    page.locator(".log-scroller").press("g")
    expect(page.locator(".log-number").first).to_have_text("1")
    page.locator(".log-scroller").press(":")
    page.keyboard.type(str(last + 5))
    page.keyboard.press("Enter")
    expect(page.locator(".is-target .log-text")).to_have_text(f"line {last + 5}")
    numbers = shown(page)
    at = numbers.index(first)
    assert numbers[at - 1 : at + 2] == [first - 1, first, last + 1]
    page.locator(".log-scroller").press("G")
    expect(page.locator(".log-number").last).to_have_text("20000")


def test_errors_phases_and_evidence_stand_beside_the_log(page: Page, stack: Stack) -> None:
    write(stack, [*numbered(3000), *(("o", text) for text in LAUNCH), *numbered(3000)])
    moments = [["loading", 3002, ""], ["ready", 5000, ""]]
    found = {"outcome": "failed", "cause": "oom", "evidence": [[3005, "CUDA out of memory"]]}
    stack.shell(
        "reader = __import__('servers.judge.logs.phases.reader', fromlist=['Reader']).Reader('vllm').to_json()\n"
        f"reader['tracks']['vllm']['moments'] = {moments}\n"
        f"Run.objects.filter(pk={stack.run}).write(start__reader=reader, log__diagnosis={found})"
    )
    open_log(page, stack)

    marks = page.locator(".log-gutter i")
    expect(marks.first).to_be_attached()
    expect(page.locator(".log-places [role=menuitem]")).to_contain_text(
        [
            "Why it failed: CUDA out of memory",
            "loading weights",
            "ready",
            "First error",
            "First warning",
        ]
    )
    choose(page, "loading weights")
    expect(page.locator(".is-target .log-level")).to_have_text("PHASE")
    expect(page.locator(".is-target .log-level")).to_have_attribute("title", "loading weights")
    expect(page.locator(".log-row.is-evidence .log-number")).to_have_text("3005")
    expect(page.locator(".log-row.is-warning .log-number")).to_have_text("3004")
    page.locator(".log-scroller").press("G")
    page.locator(".log-gutter .is-evidence").hover()
    expect(page.locator(".log-tip")).to_contain_text("Line 3,005: ")
    page.locator(".log-gutter .is-evidence").click()
    expect(page.locator(".is-target .log-number")).to_have_text("3005")
    expect(page.locator(".is-target .log-level")).to_have_text("CAUSE")

    page.get_by_role("button", name="Find", exact=True).click()
    page.get_by_label("Rank").select_option("TP1")
    expect(page.locator(".log-count")).to_contain_text("of 2")


def test_lines_that_come_every_few_seconds_are_folded_on_demand(page: Page, stack: Stack) -> None:
    every = [
        f"[2026-03-30 14:2{n % 6}:44 TP{rank}] Decode batch, #running-req: {n}"
        for n in range(40)
        for rank in (0, 1)
    ]
    write(stack, [("o", text) for text in ["before", *every, "after"]])
    open_log(page, stack)
    expect(page.locator(".log-row")).not_to_have_count(4)

    choose(page, "Collapse repeats")
    expect(page.locator(".log-row")).to_have_count(4)
    expect(page.locator(".log-refreshes")).to_have_text(["40 like this", "40 like this"])
    write(stack, [("o", every[0]), ("o", every[0])])
    expect(page.locator(".log-row")).to_have_count(5)
    page.locator(".log-refreshes").first.click()
    expect(page.locator("[role=menuitemcheckbox][data-action=fold]")).to_have_attribute(
        "aria-checked", "false"
    )
    expect(page.locator(".log-row")).not_to_have_count(5)


def test_a_telephone_reaches_everything(page: Page, stack: Stack) -> None:
    write(stack, [*numbered(50), *(("o", text) for text in LAUNCH)])
    page.set_viewport_size({"width": 375, "height": 700})
    open_log(page, stack, "#L53")
    page.get_by_role("button", name="Find", exact=True).click()
    page.get_by_label("Find in the whole log").fill("shard")
    expect(page.locator(".log-count")).to_contain_text("of 2")

    assert faults_in_both_colours(page) == []
