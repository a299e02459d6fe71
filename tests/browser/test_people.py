"""Joining, settings and being shown out, in a browser."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.axe import SCHEMES, faults
from tests.browser.chromium import new_page
from tests.web_stack import WebStack

pytestmark = pytest.mark.browser

DESK: Any = {"width": 1280, "height": 900}
PHONE: Any = {"width": 390, "height": 844}
PASSWORD = "a long enough one"
# A folder for pictures of each step, for who wants to look.
PICTURES = os.environ.get("PICTURES", "")

INVITE = """
from django.core.management import call_command
call_command("invite", first_admin=True, base_url="")
"""


@pytest.fixture
def complaints() -> Iterator[list[str]]:
    found: list[str] = []
    yield found
    # A refusal is an answer here, and its status an error only to the console.
    assert [said for said in found if "the server responded with a status of 4" not in said] == []


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport=DESK)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext, complaints: list[str]) -> Page:
    return new_page(context, complaints)


def picture(page: Page, name: str) -> None:
    if PICTURES:
        page.screenshot(path=Path(PICTURES) / f"{name}.png", full_page=True)


def as_(stack: WebStack, context: BrowserContext, name: str, role: str = "ADMIN") -> None:
    cookie: Any = stack.cookie(name, role)
    context.add_cookies([cookie])


def join(page: Page, name: str, password: str = PASSWORD) -> None:
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password", exact=True).fill(password)
    page.get_by_label("Password again").fill(password)
    page.get_by_role("button", name="Join").click()


@pytest.mark.takes(60)
def test_the_first_admin_joins_and_invites_a_colleague(
    stack: WebStack, page: Page, browser: Browser, complaints: list[str]
) -> None:
    page.goto(stack.url + stack.run(INVITE).strip())
    picture(page, "join")
    assert faults(page) == []
    join(page, "ada", "short")
    expect(page.get_by_text("This password is too short")).to_be_visible()
    picture(page, "join-wrong")
    join(page, "ada")
    expect(page).to_have_url(f"{stack.url}/")
    expect(page.locator("#person-button")).to_have_text("ada")

    page.get_by_role("link", name="Settings").click()
    page.get_by_role("link", name="People").click()
    invite = page.get_by_role("link", name="Invite")
    invite.click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(invite).to_be_focused()
    invite.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.get_by_label("Operator").check()
    assert faults(page) == []
    page.get_by_role("button", name="Make a link", exact=True).click()
    link = page.locator("#link").inner_text()
    picture(page, "settings-link")
    assert faults(page) == []
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == link

    colleague = browser.new_context(viewport=PHONE)
    theirs = new_page(colleague, complaints)
    theirs.goto(link)
    join(theirs, "grace")
    expect(theirs).to_have_url(f"{stack.url}/")
    theirs.goto(link)
    expect(theirs.get_by_role("heading", name="Link expired")).to_be_visible()
    picture(theirs, "link-over-phone")
    colleague.close()


def test_logging_in_with_a_wrong_password_and_then_the_right_one(
    stack: WebStack, page: Page
) -> None:
    stack.run(f"User.objects.create_user('ada', password={PASSWORD!r})")
    page.goto(f"{stack.url}/profiles/")
    page.get_by_label("Name").fill("ada")
    page.get_by_label("Password").fill("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Name and password do not match")).to_be_visible()
    picture(page, "login-wrong")
    assert faults(page) == []

    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")

    expect(page).to_have_url(f"{stack.url}/profiles/")
    page.locator("#person-button").click()
    page.get_by_role("button", name="Log out").click()
    expect(page).to_have_url(f"{stack.url}/login/")


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_axe_finds_nothing_on_the_pages_of_people(
    stack: WebStack, browser: Browser, complaints: list[str], size: Any
) -> None:
    stack.run(
        "box = factories.box('rtx8', hf_token=Secret.seal('HF_TOKEN', 'hf_abcdefgh', None));"
        "ada = factories.person('ada');"
        "[factories.person(n, r) for n, r in (('grace', Role.EDITOR), ('lin', Role.OPERATOR))];"
        "User.objects.filter(username='lin').update(is_active=False);"
        "Secret.seal('VLLM_API_KEY', 'sk-abcdefgh', ada); Invite.make(role=Role.VIEWER, by=ada);"
        "AuditEntry.note(ada, 'change role', 'grace', old='viewer', new='editor');"
        "AuditEntry.note(None, 'invite', 'a new admin')"
    )
    context = browser.new_context(viewport=size)
    as_(stack, context, "ada")
    page = new_page(context, complaints)
    settings = [f"/settings/{each}" for each in ("", "people/", "secrets/", "boxes/")]
    for path in (*settings, "/activity/", "/password/", "/nothing/"):
        page.goto(stack.url + path)
        expect(page.locator("h1")).to_be_visible()
        name = path.strip("/").replace("/", "-")
        for scheme, rules in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            picture(page, f"{name}-{scheme}-{size['width']}")
            assert faults(page, rules) == [], f"{path} {scheme}"


def test_settings_is_worked_without_a_mouse_hand_in_sight(stack: WebStack, page: Page) -> None:
    stack.run("factories.box('rtx8'); factories.person('grace', Role.VIEWER)")
    as_(stack, page.context, "ada")
    page.goto(f"{stack.url}/settings/#people-title")
    expect(page).to_have_url(f"{stack.url}/settings/people/")

    change = page.get_by_role("button", name="Change the role of grace")
    expect(change).to_be_hidden()
    page.get_by_label("Role of grace", exact=True).select_option("editor")
    change.press("Enter")
    expect(page.get_by_text("grace is now an editor.")).to_be_visible()

    page.get_by_role("link", name="Secrets").press("Enter")
    page.get_by_role("link", name="Add a secret").press("Enter")
    page.get_by_label("Name").fill("HF_TOKEN")
    page.get_by_label("Value", exact=True).fill("hf_AbCdEfGh")
    page.keyboard.press("Enter")
    expect(page.get_by_text("HF_TOKEN is kept, encrypted.")).to_be_visible()
    assert "hf_AbCdEfGh" not in page.content()

    page.get_by_role("navigation", name="Settings").get_by_role("link", name="Boxes").press("Enter")
    page.get_by_role("link", name="Edit rtx8").press("Enter")
    page.get_by_label("Hugging Face token").select_option(index=1)
    page.get_by_role("button", name="Save rtx8").press("Enter")
    expect(page.get_by_text("rtx8 is changed.")).to_be_visible()
    page.get_by_role("link", name="Secrets").press("Enter")
    expect(page.get_by_role("row", name="HF_TOKEN")).to_contain_text("rtx8")

    page.get_by_role("link", name="People").press("Enter")
    page.get_by_role("button", name="More for ada").press("Enter")
    page.get_by_role("button", name="Disable ada").press("Enter")
    expect(page.get_by_text("ada is the last active admin")).to_be_visible()
    picture(page, "settings-last-admin")


def test_an_open_page_hears_at_once_that_its_person_is_shown_out(
    stack: WebStack, page: Page
) -> None:
    stack.run("factories.box('rtx8'); factories.person('ada')")
    as_(stack, page.context, "grace", "OPERATOR")
    page.goto(f"{stack.url}/")
    expect(page.locator("#connection")).to_be_hidden()

    stack.run(
        "grace = User.objects.get(username='grace');"
        "User.objects.change(grace.pk, is_active=False); events.publish_person_change(grace.pk)"
    )

    expect(page.locator("#connection")).to_contain_text("You are signed out")
    picture(page, "signed-out")


def test_a_refusal_says_which_role_is_missing(stack: WebStack, page: Page) -> None:
    as_(stack, page.context, "vera", "VIEWER")

    page.goto(f"{stack.url}/profiles/new/")

    expect(page.get_by_text("This needs the role editor; you are viewer.")).to_be_visible()
    picture(page, "forbidden")


def test_a_key_is_shown_once_and_can_be_revoked(
    stack: WebStack, context: BrowserContext, page: Page
) -> None:
    as_(stack, context, "kim", "OPERATOR")
    page.goto(f"{stack.url}/")
    page.locator("#person-button").click()
    page.get_by_role("link", name="Keys for programs").click()
    expect(page.get_by_text("No keys yet.")).to_be_visible()
    page.get_by_role("link", name="New key").click()
    page.get_by_label("Name").fill("my laptop")
    page.get_by_label("Scope").select_option("do what viewers may")
    page.get_by_role("button", name="Create key").click()

    token = page.locator("#token").inner_text()
    assert token.startswith("ifd_")
    assert f"login {stack.url}" in page.locator("#login").inner_text()
    row = page.get_by_role("row").filter(has_text="my laptop")
    expect(row).to_contain_text("what viewers may")
    picture(page, "keys")
    assert faults(page) == []

    said = context.request.get(
        f"{stack.url}/api/v1/servers", headers={"Authorization": f"Bearer {token}"}
    )
    assert said.status == 200
    page.goto(f"{stack.url}/keys/")
    expect(page.locator("#token")).to_have_count(0)
    expect(row).not_to_contain_text("never")
    row.get_by_role("link", name="Revoke my laptop").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(row).to_contain_text("revoked")

    # A chat program's key.
    page.get_by_role("link", name="New key").click()
    expect(page.get_by_label("Scope")).to_have_value("0")
    page.get_by_label("Name").fill("Open WebUI")
    page.get_by_role("button", name="Create key").click()
    expect(page.locator("#address")).to_have_text(f"{stack.url}/v1")
    expect(page.get_by_role("row").filter(has_text="Open WebUI")).to_contain_text("use models only")
    picture(page, "keys-models-only")
    asks = {"Authorization": f"Bearer {page.locator('#token').inner_text()}"}
    assert context.request.get(f"{stack.url}/v1/models", headers=asks).status == 200
    assert context.request.get(f"{stack.url}/api/v1/servers", headers=asks).status == 403
    page.set_viewport_size(PHONE)
    picture(page, "keys-phone")
    assert faults(page) == []
