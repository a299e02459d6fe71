"""The dashboard, box and server pages in a browser: live, by keyboard, for everybody's eyes."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from tests.browser.axe import COLOURS, faults
from tests.browser.chromium import PATIENCE, new_page
from tests.browser.steps import choose, eventually
from tests.web_stack import WebStack

pytestmark = pytest.mark.browser

DESK = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
PAGES = (
    "/",
    "/boxes/rtx8/",
    "/boxes/spark-1/",
    "/boxes/rtx8/hardware/",
    "/boxes/rtx8/permissions/",
    "/servers/glm-5/",
    "/servers/minimax-m27/",
    "/servers/minimax-m27/log/",
    "/servers/minimax-m27/metrics/",
    "/servers/minimax-m27/configuration/",
    "/servers/glm-5/runs/",
    "/profiles/",
    "/profiles/minimax-m27/",
    "/profiles/minimax-m27/edit/",
    "/profiles/minimax-m27/versions/1/",
    "/profiles/minimax-m27/export/docker/",
    "/profiles/minimax-m27/overlays/",
    "/profiles/paste/",
    "/models/",
    "/keys/",
    "/recipes/?all=on",
    "/recipes/glm5-nvfp4/",
)


@pytest.fixture
def ada(stack: WebStack) -> Any:
    return stack.cookie("ada")


@pytest.fixture
def busy(stack: WebStack) -> WebStack:
    stack.run("factories.busy_team()")
    return stack


@pytest.fixture
def complaints() -> Iterator[list[str]]:
    found: list[str] = []
    yield found
    assert found == []


@pytest.fixture
def context(browser: Browser, ada: Any) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport=DESK)  # type: ignore[arg-type]
    context.add_cookies([ada])
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext, complaints: list[str]) -> Page:
    return new_page(context, complaints)


def until(page: Page, claim: str) -> None:
    """Wait for a claim in JavaScript to hold; Playwright's own way needs an eval in the page."""
    eventually(page, lambda: bool(page.evaluate(claim)))


@pytest.mark.parametrize("paths", [PAGES[::2], PAGES[1::2]], ids=["half", "other-half"])
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.takes(60)
def test_axe_finds_nothing_on_any_page(
    busy: WebStack,
    browser: Browser,
    ada: Any,
    complaints: list[str],
    paths: Sequence[str],
    size: Any,
) -> None:
    context = browser.new_context(viewport=size)
    context.add_cookies([ada])
    page = new_page(context, complaints)
    for path in paths:
        page.goto(busy.url + path)
        expect(page.locator("main")).to_be_visible()
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            rules = COLOURS if scheme == "dark" else None
            assert faults(page, rules) == [], f"{path} {scheme}"


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
    expect(page.get_by_role("link", name="New profile")).to_be_visible()
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
    assert said.count() == before + 1
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
    until(page, "document.querySelector('gpu-line').steps.size > 55")
    last = page.evaluate("document.querySelector('gpu-line').last")

    busy.run(
        "box = Box.objects.get(slug='rtx8'); sample = box_samples.newest('rtx8')\n"
        "sample['t'] += 1; sample['gpus'][0] |= {'util': 99}\n"
        "events.publish_sample('rtx8', box.pk, sample)"
    )

    until(page, f"document.querySelector('gpu-line').last > {last}")
    expect(page.locator(".gpu-row").first).to_contain_text("99 %")
    expect(line.locator("path")).to_be_visible()


def test_values_that_stop_coming_are_greyed(busy: WebStack, page: Page) -> None:
    page.clock.install()
    page.goto(busy.url)
    expect(page.locator("gpu-line path").first).to_be_visible()

    page.clock.run_for(15_000)

    expect(page.get_by_text("No new values for").first).to_be_visible()
    expect(page.locator(".box").first).to_have_class("box panel is-stale")


def test_a_box_that_falls_silent_is_marked_without_a_reload(busy: WebStack, page: Page) -> None:
    page.goto(busy.url)
    dot = page.get_by_role("link", name="spark-1 (all is well)")
    expect(dot).to_be_visible()

    busy.run("Box.objects.filter(slug='spark-1').update(seen_at=None)")

    silent = page.get_by_role("link", name="spark-1 (silent)")
    expect(silent).to_be_visible()
    expect(page.locator("#attention")).to_contain_text("spark-1")

    # The link that the server sends anew keeps what the page knows.
    page.goto(f"{busy.url}/boxes/spark-1/")
    page.get_by_role("button", name="Sidebar labels").click()
    expect(silent).to_have_attribute("aria-current", "page")
    busy.run("Box.objects.filter(slug='spark-1').update(seen_at=timezone.now())")
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
    context = browser.new_context(viewport=DESK)  # type: ignore[arg-type]
    context.add_cookies([busy.cookie("vera", "VIEWER")])  # type: ignore[list-item]
    page = context.new_page()
    page.goto(busy.url)

    expect(page.locator(".card").first).to_be_visible()
    assert page.locator(".card button:not(.card-star)").count() == 0
    assert page.get_by_role("link", name="Chat").count() == 0
    assert page.get_by_role("link", name="Log").count() > 0
    context.close()


def test_the_keyboard_reaches_the_search_and_the_content(busy: WebStack, page: Page) -> None:
    page.goto(busy.url)

    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("/")
    field = page.get_by_role("combobox", name="Search servers, profiles")
    expect(field).to_be_focused()
    hits = page.get_by_role("listbox", name="Results").get_by_role("option")
    expect(hits.first).to_have_accessible_name("Dashboard")
    page.keyboard.type("glm")
    expect(hits.first).to_have_accessible_name(re.compile("^glm-5 "))
    assert field.get_attribute("aria-expanded") == "true"
    assert faults(page) == []
    page.keyboard.press("Escape")
    expect(field).to_be_hidden()
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("Control+k")
    expect(field).to_have_value("glm")
    # Up from the first is the last one: the list of profiles.
    expect(hits.first).to_have_accessible_name(re.compile("^glm-5 "))
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_url("**/profiles/?q=glm")
    expect(page.get_by_role("link", name="glm-5").first).to_be_visible()

    page.keyboard.press("/")
    page.keyboard.type("rtx8")
    box = hits.filter(has_text=re.compile("^rtx8"))
    expect(box).to_be_visible()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowDown")
    expect(hits.first).to_have_attribute("aria-selected", "true")
    while box.get_attribute("aria-selected") != "true":
        page.keyboard.press("ArrowDown")
    assert field.get_attribute("aria-activedescendant") == box.get_attribute("id")
    page.keyboard.press("Enter")
    page.wait_for_url("**/boxes/rtx8/")

    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(dialog.get_by_role("button", name="Close")).to_be_focused()
    assert faults(page) == []
    page.keyboard.press("Escape")
    expect(dialog).not_to_be_visible()


def test_the_palette_acts_on_servers(busy: WebStack, page: Page) -> None:
    page.goto(f"{busy.url}/profiles/")
    hits = page.get_by_role("listbox", name="Results").get_by_role("option")
    page.keyboard.press("Control+k")
    page.keyboard.type("stop qwen3-8b")
    expect(hits.first).to_have_accessible_name(re.compile("^Stop qwen3-8b"))
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Stop qwen3-8b?")
    expect(dialog).to_contain_text("grace started it")
    # What a page stops by Escape goes on below a dialog.
    page.evaluate("document.addEventListener('keydown', ({key}) => (document.title = key))")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert page.title() != "Escape"
    page.keyboard.press("Escape")
    assert page.title() == "Escape"

    page.keyboard.press("Control+k")
    expect(hits.first).to_have_accessible_name(re.compile("^Stop qwen3-8b"))
    page.keyboard.press("Enter")
    dialog.get_by_role("button", name="Stop now").click()
    expect(page.locator("#toasts")).to_contain_text("qwen3-8b is being stopped.")

    page.get_by_role("button", name="Search").click()
    page.keyboard.type("start gemma")
    expect(hits.first).to_have_accessible_name(re.compile("^Start gemma-tiny"))
    hits.first.click()
    page.wait_for_url("**/servers/gemma-tiny/")
    expect(page.get_by_role("heading", level=1)).to_have_text("gemma-tiny")


def test_enter_waits_for_the_hits_of_the_words_and_starts_nothing_unseen(
    busy: WebStack, page: Page
) -> None:
    page.goto(f"{busy.url}/profiles/")
    field = page.get_by_role("combobox", name="Search servers, profiles")
    first = page.get_by_role("listbox", name="Results").get_by_role("option").first
    held: list[Route] = []
    page.route("**/search.json?*", lambda route: held.append(route))

    def answer() -> None:
        eventually(page, lambda: bool(held))
        held.pop().continue_()

    page.keyboard.press("Control+k")
    expect(first).to_have_accessible_name("Dashboard")
    field.fill("start gemma")
    page.keyboard.press("Enter")
    answer()
    expect(first).to_have_accessible_name(re.compile("^Start gemma-tiny"))
    expect(first).to_have_attribute("aria-selected", "true")
    expect(field).to_be_visible()
    page.keyboard.press("Escape")

    page.keyboard.press("Control+k")
    expect(first).to_be_hidden()
    page.keyboard.press("Enter")
    answer()
    expect(first).to_have_accessible_name(re.compile("^Start gemma-tiny"))
    field.fill("glm-5")
    page.keyboard.press("Enter")
    answer()
    page.wait_for_url("**/servers/glm-5/")
    assert busy.run("print(Run.objects.filter(server__slug='gemma-tiny').count())").strip() == "1"


def test_the_sidebar_stays_as_it_was_left_and_is_a_drawer_on_a_phone(
    busy: WebStack, page: Page
) -> None:
    page.goto(f"{busy.url}/design/")
    models = page.get_by_role("navigation", name="Pages").get_by_role("link", name="Models")
    wide = models.evaluate("link => link.offsetWidth")
    page.get_by_role("button", name="Sidebar labels").click()
    expect(models).to_have_attribute("title", "Models")
    page.reload()
    expect(page.get_by_role("button", name="Sidebar labels")).to_have_attribute(
        "aria-pressed", "false"
    )
    assert models.evaluate("link => link.offsetWidth") < wide / 2
    assert faults(page) == []

    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    expect(models).to_be_hidden()
    assert page.locator(".phone-bar").evaluate("bar => bar.offsetHeight") <= 56
    assert faults(page) == []
    page.get_by_role("button", name="Menu", exact=True).click()
    expect(models).to_be_visible()
    assert faults(page) == []
    page.keyboard.press("Escape")
    expect(models).to_be_hidden()
    expect(page.get_by_role("button", name="Menu", exact=True)).to_be_focused()


def test_what_is_pressed_beside_the_drawer_only_closes_it_and_the_bar_covers_nothing(
    busy: WebStack, browser: Browser, ada: Any, complaints: list[str]
) -> None:
    context = browser.new_context(viewport=PHONE, has_touch=True)  # type: ignore[arg-type]
    context.add_cookies([ada])
    page = new_page(context, complaints)
    page.goto(f"{busy.url}/design/")
    search = page.locator(".phone-bar [data-palette]")
    palette = page.get_by_role("dialog", name="Search and commands")
    drawer = page.locator("#sidebar")
    at = search.bounding_box()
    assert at
    for press in (page.touchscreen.tap, page.mouse.click):
        page.get_by_role("button", name="Menu", exact=True).click()
        expect(drawer).to_be_visible()
        press(at["x"] + 8, at["y"] + 8)
        expect(drawer).to_be_hidden()
        expect(palette).to_be_hidden()
        search.tap()
        expect(palette).to_be_visible()
        page.keyboard.press("Escape")
        expect(palette).to_be_hidden()

    trouble = page.get_by_role("button", name="Trouble")
    trouble.evaluate("button => button.scrollIntoView({block: 'end'})")
    bar, button = page.locator(".bottom-bar").bounding_box(), trouble.bounding_box()
    assert bar
    assert button
    assert button["y"] + button["height"] <= bar["y"] + 1  # a page scrolls by whole pixels
    context.close()


def test_a_toast_is_announced_and_goes_and_trouble_stays(busy: WebStack, page: Page) -> None:
    page.clock.install()
    page.goto(f"{busy.url}/design/")
    page.get_by_role("button", name="Toast", exact=True).click()
    page.get_by_role("button", name="Trouble").click()
    toast = page.get_by_role("status").filter(has_text="Version 3 saved.")
    trouble = page.get_by_role("alert").filter(has_text="Stop it first")
    expect(toast).to_be_visible()
    expect(trouble).to_be_visible()
    page.mouse.move(0, 0)
    page.get_by_role("tab", name="Log").click()
    expect(page.get_by_text("The second panel.")).to_be_visible()

    page.clock.run_for(9000)

    expect(toast).to_be_hidden()
    expect(trouble).to_be_visible()
    trouble.get_by_role("button", name="Close").click()
    expect(trouble).to_be_hidden()


def test_a_table_is_sorted_filtered_and_walked_and_keeps_that_in_live_parts(
    busy: WebStack, page: Page
) -> None:
    page.goto(f"{busy.url}/design/")
    table = page.locator("list-table")
    names = table.locator("tbody tr:not([hidden]) td:first-child")
    size = table.get_by_role("columnheader", name="Size")
    size.get_by_role("button").click()
    expect(size).to_have_attribute("aria-sort", "descending")
    expect(names).to_have_text(["zai-org/GLM-5", "Qwen/Qwen3-8B", "openai/gpt-oss-20b"])
    size.get_by_role("button").click()
    expect(names).to_have_text(["Qwen/Qwen3-8B", "zai-org/GLM-5", "openai/gpt-oss-20b"])
    assert faults(page) == []

    # As a live part that brings a row does.
    table.locator("tbody").evaluate(
        "body => body.insertAdjacentHTML('beforeend', '<tr><td><a data-row href=\"#x\">a/b</a></td><td data-value=\"1\">1</td><td>new</td></tr>')"
    )
    expect(names.first).to_have_text("a/b")
    field = table.get_by_role("searchbox", name="Filter models")
    field.fill("B 15")
    expect(names).to_have_text(["Qwen/Qwen3-8B"])
    expect(table.get_by_role("status")).to_have_text("1 of 4")
    field.fill("nothing like it")
    expect(table.get_by_role("status")).to_have_text("Nothing matches.")
    field.fill("")
    field.press("ArrowDown")
    expect(names.first.get_by_role("link")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(table.get_by_role("link", name="Qwen/Qwen3-8B")).to_be_focused()
    table.get_by_text("new", exact=True).click()
    expect(page).to_have_url(re.compile("#x$"))


def test_the_chosen_colours_are_kept(busy: WebStack, page: Page) -> None:
    page.goto(busy.url)
    page.get_by_role("button", name="ada").click()
    page.get_by_label("Dark").check()

    page.reload()

    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate("getComputedStyle(document.body).colorScheme") == "dark"


def test_a_lost_connection_is_said_and_the_page_catches_up_by_itself(
    busy: WebStack, context: BrowserContext
) -> None:
    page = context.new_page()  # the browser's own complaints about refused connections are right
    page.goto(busy.url)
    card = page.locator("article", has=page.get_by_role("heading", name="gpt-oss-120b"))
    expect(card).to_have_attribute("data-state", "starting")
    expect(page.locator("#connection")).to_be_hidden()

    busy.stop_web()
    expect(page.locator("#connection")).to_contain_text("Connection lost, reconnecting")
    busy.run("Run.objects.filter(server__slug='gpt-oss-120b').update(state=RunState.READY)")
    busy.start_web()

    expect(card).to_have_attribute("data-state", "ready")
    expect(page.locator("#connection")).to_be_hidden()


def test_a_refused_button_says_why(busy: WebStack, context: BrowserContext) -> None:
    page = context.new_page()
    page.on("dialog", lambda asked: asked.accept())
    # Somebody else starts it in the same moment, and the card here has not heard of it yet.
    page.route_web_socket("**/ws/live/**", lambda silent: None)
    page.goto(busy.url)
    card = page.locator("article", has=page.get_by_role("heading", name="gemma-tiny"))
    expect(card).to_have_attribute("data-state", "stopped")
    busy.run("factories.run(Server.objects.get(slug='gemma-tiny'), RunState.STARTING)")

    choose(card, "Remove")

    expect(page.locator("#trouble")).to_contain_text("gemma-tiny is running. Stop it first")


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


def test_a_page_whose_script_did_not_arrive_is_loaded_again(
    context: BrowserContext, busy: WebStack
) -> None:
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    refused: list[str] = []

    def refuse_once(route: Route) -> None:
        if refused:
            route.continue_()
        else:
            refused.append(route.request.url)
            route.abort("internetdisconnected")

    page.route("**/hx-ws.min.js", refuse_once)
    with page.expect_websocket():
        page.goto(busy.url)

    assert len(refused) == 1
