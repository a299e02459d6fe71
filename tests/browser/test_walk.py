"""The main job, as people do it: from the first link to the log of a container that is gone."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, ViewportSize, expect

from tests.base_images import ENGINE
from tests.browser.chromium import new_page
from tests.browser.steps import (
    WalkedSite,
    admitted,
    allow_mounts,
    card,
    choose,
    eventually,
    fill_profile,
    kill_engine,
)
from tests.engine.replay import HOLDS
from tests.installation import Installation

pytestmark = [pytest.mark.browser, pytest.mark.docker]

DESK: ViewportSize = {"width": 1280, "height": 900}


@pytest.fixture
def complaints() -> Iterator[list[str]]:
    found: list[str] = []
    yield found
    assert found == []


@pytest.fixture
def admin(browser: Browser, place: Installation) -> BrowserContext:
    """The browser of ana, who opened the first link."""
    return admitted(browser.new_context(viewport=DESK), place)


@pytest.fixture
def operator(browser: Browser, place: Installation) -> BrowserContext:
    """The browser of a second person."""
    return admitted(browser.new_context(viewport=DESK), place, "ben", "OPERATOR")


@pytest.fixture
def page(admin: BrowserContext, complaints: list[str]) -> Page:
    return new_page(admin, complaints)


@pytest.fixture
def second(operator: BrowserContext, complaints: list[str]) -> Page:
    return new_page(operator, complaints)


@pytest.fixture
def make(page: Page, place: Installation) -> Callable[..., str]:
    """Fill in the profile form; returns the server's slug."""

    def make(name: str, **fields: str) -> str:
        page.goto(f"{place.url}/profiles/new/")
        values = {
            "name": name,
            "checkpoint": "Qwen/Qwen3-8B",
            "served_name": "qwen3-8b",
            "image": ENGINE,
            **fields,
        }
        fill_profile(page, values)
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()
        return name.lower().replace(" ", "-")

    return make


def test_the_form_asks_the_box_which_folders_it_has(
    page: Page, place: Installation, tmp_path: Path
) -> None:
    (tmp_path / "GLM-5").mkdir()
    allow_mounts(place, tmp_path)
    page.goto(f"{place.url}/profiles/new/")
    page.locator("#id_name").fill("Mounted")
    page.locator("#id_checkpoint").fill("/models/GLM-5")
    page.locator("#id_image").fill(ENGINE)
    mounts = f"{tmp_path}/GLM-5:/models/GLM-5\n{tmp_path}/x/GLM-5:/other"
    fill_profile(page, {"volumes": mounts})

    said = page.locator("#check .places li:not(:has-text('huggingface'))")
    expect(said.nth(0)).to_contain_text(f"{tmp_path}/GLM-5 is there")
    expect(said.nth(1)).to_contain_text(f"is not there; the same name lies at {tmp_path}/GLM-5")


def servers_with_containers(place: Installation) -> set[str]:
    return {container.labels["inferdash.server"] for container in place.docker.list_ours()}


def go_on(place: Installation, slug: str) -> None:
    """The server's engine, which was made with ENGINE_HOLDS, has loaded."""
    container = str(place.ask(f"Server.objects.get(slug='{slug}').run.container_id"))
    for _stamp, _stream, text in place.docker.logs(container, follow=True):
        if HOLDS.encode() in text:  # before that, the signal would end it
            break
    place.docker.signal(container, "SIGUSR1")


def start(page: Page, place: WalkedSite, slug: str, *, until: str = "ready") -> Locator:
    page.goto(f"{place.url}/")
    found = card(page, slug)
    found.get_by_role("button", name="Start").click()
    expect(found).to_have_attribute("data-state", until)
    return found


def test_two_browsers_see_a_start_and_a_stop_without_a_reload(
    page: Page, second: Page, place: Installation, make: Callable[..., str]
) -> None:
    slug = make("Seen by two", env="ENGINE_HOLDS=1")
    for each in (page, second):
        each.goto(f"{place.url}/")
        each.evaluate("window.neverReloaded = true")

    card(page, slug).get_by_role("button", name="Start").click()

    for each in (page, second):
        expect(card(each, slug)).to_contain_text("starting")
    go_on(place, slug)
    for each in (page, second):
        expect(card(each, slug)).to_contain_text("ready")
    expect(card(second, slug)).to_contain_text("by ana")
    expect(card(second, slug)).to_contain_text(re.compile(r"127\.0\.0\.1:18\d\d\d"))

    card(page, slug).get_by_role("button", name="Stop").click()
    for each in (page, second):
        expect(card(each, slug)).to_have_attribute("data-state", "stopped")
        assert each.evaluate("window.neverReloaded")


def test_start_in_two_browsers_at_once_makes_one_container(
    page: Page, second: Page, place: Installation, make: Callable[..., str]
) -> None:
    slug = make("Clicked twice", env="ENGINE_SECONDS=1")
    buttons = []
    for each in (page, second):
        each.goto(f"{place.url}/")
        buttons.append(card(each, slug).get_by_role("button", name="Start").element_handle())
    for button in buttons:
        assert button is not None
        button.dispatch_event("click")

    expect(card(page, slug)).to_have_attribute("data-state", "ready")

    mine = [c for c in place.docker.list_ours() if c.labels["inferdash.server"] == slug]
    assert len(mine) == 1
    assert place.ask(f"Run.objects.filter(server__slug='{slug}').count()") == 1


def test_a_folder_that_is_not_there_is_told_and_not_made(
    page: Page, place: Installation, make: Callable[..., str]
) -> None:
    gone = Path(str(place.ask("Box.objects.get().home")), "models/not-there-at-all")
    slug = make("Missing folder", volumes="~/models/not-there-at-all:/models:ro")
    expect(page.locator("main")).to_contain_text(str(gone))

    failed = start(page, place, slug, until="failed")

    expect(failed).to_contain_text(f"{gone} does not exist on rtx8")
    assert not gone.exists()


def test_a_folder_outside_what_the_box_allows_is_refused(
    page: Page, place: Installation, make: Callable[..., str]
) -> None:
    slug = make("Wants etc", volumes="/etc:/host-etc:ro")
    page.goto(f"{place.url}/")

    card(page, slug).get_by_role("button", name="Start").click()

    asked = page.get_by_role("dialog")
    expect(asked).to_contain_text("outside the folders that this box lets profiles mount")
    expect(asked).to_contain_text("allow mount /etc")
    assert not place.ask(f"Run.objects.filter(server__slug='{slug}').exists()")


@pytest.mark.parametrize(
    ("script", "says"),
    [
        # As soon as its log was read: before that, that it ended by itself, with exit code 1.
        ("crash", "GPU memory ran out: 2.00 GiB more did not fit"),
        ("exit-zero", "Please try to increase --mem-fraction-static"),
        ("silent", "ended by SIGKILL"),
    ],
)
def test_a_start_that_ends_has_failed_and_says_how(
    page: Page, place: Installation, make: Callable[..., str], script: str, says: str
) -> None:
    slug = make(f"Fails by {script}", env=f"ENGINE_SCRIPT={script}")

    failed = start(page, place, slug, until="failed")
    expect(failed).to_contain_text(says)

    page.goto(f"{place.url}/servers/{slug}/log/")
    expect(page.locator("main")).to_contain_text("engine pid")


def test_a_death_while_serving_is_seen_with_its_last_lines(
    page: Page, place: Installation, make: Callable[..., str]
) -> None:
    slug = make("Dies later")
    dying = start(page, place, slug)
    kill_engine(dying)

    expect(dying).to_have_attribute("data-state", "failed")
    expect(dying).to_contain_text("exit code 3")
    page.goto(f"{place.url}/servers/{slug}/log/")
    expect(page.locator("main")).to_contain_text("Application startup complete")


def test_an_image_that_no_registry_gives_fails_with_advice(
    page: Page, place: Installation, make: Callable[..., str]
) -> None:
    slug = make("No such image", image="registry.invalid/engine:1")

    failed = start(page, place, slug, until="failed")

    expect(failed).to_contain_text("could not be reached")


def test_stopping_somebody_elses_server_asks_first(
    page: Page, second: Page, place: Installation, make: Callable[..., str]
) -> None:
    slug = make("Of ana")
    start(page, place, slug)

    second.goto(f"{place.url}/")
    card(second, slug).get_by_role("button", name="Stop").click()
    dialog = second.get_by_role("dialog")
    expect(dialog).to_contain_text("ana")
    dialog.get_by_role("button", name="Stop now").click()

    expect(card(page, slug)).to_have_attribute("data-state", "stopped")
    assert place.ask(f"Server.objects.get(slug='{slug}').run.stopped_by.username") == "ben"


def test_an_engine_that_ignores_sigterm_is_killed_after_its_grace(
    page: Page, place: Installation, make: Callable[..., str]
) -> None:
    slug = make("Stubborn", env="ENGINE_SCRIPT=stubborn", grace="2")
    stubborn = start(page, place, slug)

    stubborn.get_by_role("button", name="Stop").click()

    expect(stubborn).to_have_attribute("data-state", "stopped")
    assert place.ask(f"Server.objects.get(slug='{slug}').run.exit_code") == 137


def test_restart_and_remove_and_the_log_stays(
    page: Page, place: Installation, make: Callable[..., str]
) -> None:
    slug = make("Comes and goes")
    found = start(page, place, slug)
    choose(found, "Restart")
    runs = f"list(Run.objects.filter(server__slug='{slug}').values_list('state', flat=True))"
    eventually(page, lambda: sorted(cast(list[str], place.ask(runs))) == ["ready", "stopped"])
    expect(found).to_have_attribute("data-state", "ready")
    found.get_by_role("button", name="Stop").click()
    expect(found).to_have_attribute("data-state", "stopped")

    choose(found, "Remove")
    expect(found).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(found).to_have_attribute("data-state", "stopped")
    choose(found, "Remove")
    expect(found).to_have_count(0)

    page.goto(f"{place.url}/servers/{slug}/log/")
    expect(page.locator("run-log")).to_contain_text("Application startup complete")
    eventually(page, lambda: slug not in servers_with_containers(place))


@pytest.mark.takes(60)
def test_engines_outlive_inferdash_and_no_line_is_lost(
    page: Page, place: Installation, make: Callable[..., str]
) -> None:
    slug = make("Outlives", env="ENGINE_SCRIPT=flood\nENGINE_LINES=20000")
    start(page, place, slug)
    before = place.up.said.count("starting it again")
    parts = place.up.children()
    for name in ("inferdash.up.web", "celery", "manage.py watch", "redis.sock"):
        parts[name].kill()
    place.up.waits_for("starting it again", times=before + 4)

    expect(card(page, slug)).to_have_attribute("data-state", "ready")
    page.goto(f"{place.url}/servers/{slug}/log/")
    expect(page.locator("run-log")).to_contain_text("line 19999 of the flood")
    text = page.request.get(
        f"{place.url}/runs/{place.ask(f'Server.objects.get(slug={slug!r}).run.pk')}/log/"
    ).text()
    flood = re.findall(r"line (\d+) of the flood", text)
    assert flood == [str(number) for number in range(20000)]


def test_from_an_empty_page_to_a_streamed_answer_in_four_clicks(
    page: Page, place: Installation
) -> None:
    clicks: list[Locator] = []

    def press(what: Locator) -> None:
        clicks.append(what)
        what.click()

    page.goto(f"{place.url}/profiles/")
    # The second where the installation has been used before.
    press(page.get_by_role("link", name=re.compile("^(Paste a command|New profile)$")))
    # So slow that its tokens do not come to the browser as one, however busy the machine is.
    command = f"docker run --gpus all -e ENGINE_TOKENS_PER_SECOND=2 {ENGINE} vllm serve a/b"
    page.get_by_label("Command or compose file").fill(command)
    press(page.get_by_role("button", name="Import", exact=True))
    press(page.get_by_role("button", name="Save and start"))
    press(page.get_by_role("link", name="Chat", exact=True))
    assert len(clicks) <= 4
    expect(page.locator("#chat-server")).to_contain_text("b")
    page.get_by_label("Message", exact=True).fill("A **bold** question")
    page.keyboard.press("Enter")

    answer = page.locator(".answer").last
    expect(answer).to_contain_text("You said: A bold question")
    expect(answer.locator("strong")).to_have_text("bold")
    expect(answer).to_contain_text("tok/s")


def test_a_secret_is_nowhere_to_be_read(
    page: Page, place: Installation, make: Callable[..., str]
) -> None:
    secret = "hunter2-is-the-value"
    slug = make("Keeps a secret", env=f"MY_API_KEY={secret}")
    assert secret not in page.content()
    start(page, place, slug)

    for path in (
        "",
        f"servers/{slug}/",
        f"servers/{slug}/configuration/",
        f"profiles/{slug}/",
        f"profiles/{slug}/edit/",
        "activity/",
    ):
        page.goto(f"{place.url}/{path}")
        assert secret not in page.content()
    container = next(c for c in place.docker.list_ours() if c.labels["inferdash.server"] == slug)
    assert container.state == "running"
    assert secret.encode() not in (place.data / "inferdash.sqlite3").read_bytes()
