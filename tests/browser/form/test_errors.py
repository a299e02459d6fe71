"""What is wrong stands beside its field while it is typed, and goes once it is mended."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, Route, expect

from tests.browser.axe import faults_in_both_colours
from tests.browser.chromium import new_page
from tests.browser.steps import eventually, fill_profile, unfold
from tests.web_stack import WebStack

pytestmark = pytest.mark.browser

OPEN_QUOTE = "Line 1: a quotation mark is opened and never closed."


@pytest.fixture
def page(context: BrowserContext, stack: WebStack) -> Iterator[Page]:
    complaints: list[str] = []
    page = new_page(context, complaints)
    page.goto(f"{stack.url}/profiles/new/")
    expect(page.locator("#check")).to_contain_text("Still to be filled in")
    yield page
    assert complaints == []


def error(page: Page, name: str) -> Locator:
    return page.locator(f"#id_{name}_error .error")


def all_errors(page: Page) -> Locator:
    return page.locator(".field .error")


def checked(page: Page, says: str) -> None:
    """Wait until the check has come to this."""
    expect(page.locator("#check")).to_contain_text(says)


def test_an_error_stands_beside_its_field_while_it_is_typed_and_goes_when_mended(
    page: Page,
) -> None:
    box = page.locator("#id_flags")
    unfold(page, "flags")
    box.focus()
    page.keyboard.type("--model-loader-extra-config '{")

    expect(error(page, "flags")).to_have_text(OPEN_QUOTE)
    expect(box).to_have_attribute("aria-invalid", "true")
    expect(box).to_have_accessible_description(re.compile(OPEN_QUOTE))
    # Where one types, one goes on typing.
    expect(box).to_be_focused()
    assert box.evaluate("box => box.selectionStart") == len("--model-loader-extra-config '{")

    page.keyboard.type("}'")

    expect(all_errors(page)).to_have_count(0)
    expect(box).not_to_have_attribute("aria-invalid", "true")
    expect(box).to_have_value("--model-loader-extra-config '{}'")
    expect(box).not_to_have_attribute("aria-describedby", re.compile(r"\bid_flags_error\b"))
    expect(box).to_have_attribute("aria-describedby", re.compile(r"\bid_flags_marks\b"))


def test_a_new_profile_is_not_scolded_for_what_nobody_has_come_to(page: Page) -> None:
    fill_profile(page, {"tags": "moe", "shm_size": "much"})
    checked(page, "Shared memory:")
    expect(error(page, "shm_size")).to_have_count(1)

    # Name, model and image are open, but nobody has been there.
    expect(all_errors(page)).to_have_count(1)
    expect(page.locator("#check")).to_contain_text("Image")


def test_what_must_be_there_is_asked_for_once_the_field_is_left(page: Page) -> None:
    name = page.locator("#id_name")
    name.fill("Coder")
    name.fill("")
    checked(page, "Name")
    expect(all_errors(page)).to_have_count(0)

    page.keyboard.press("Tab")

    expect(error(page, "name")).to_have_text("This field is required.")
    expect(all_errors(page)).to_have_count(1)
    expect(name).to_have_attribute("aria-invalid", "true")

    name.fill("Coder")
    expect(all_errors(page)).to_have_count(0)


def test_a_recipes_unfinished_profile_is_not_scolded_either(page: Page, stack: WebStack) -> None:
    page.goto(f"{stack.url}/profiles/new/?from=qwen3-8b")
    page.locator("#id_checkpoint").fill("")
    checked(page, "Still to be filled in")
    expect(all_errors(page)).to_have_count(0)


def test_a_saved_profile_shows_all_of_its_errors_at_once(page: Page, stack: WebStack) -> None:
    page.goto(f"{stack.url}/profiles/qwen3-8b/edit/")
    checked(page, "docker run")

    page.locator("#id_checkpoint").fill("")

    expect(error(page, "checkpoint")).to_have_text("This field is required.")


def test_after_a_save_in_vain_errors_go_one_by_one(page: Page) -> None:
    page.locator("#id_gpus").fill("some")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("alert").filter(has_text="Not saved.")).to_be_visible()
    expect(error(page, "name")).to_have_text("This field is required.")
    expect(error(page, "image")).to_have_text("This field is required.")
    expect(all_errors(page)).to_have_count(4)

    page.locator("#id_name").fill("Coder")

    expect(error(page, "name")).to_have_count(0)
    expect(all_errors(page)).to_have_count(3)
    expect(page.locator("#id_name")).not_to_have_attribute("aria-invalid", "true")


def test_an_error_does_not_move_the_button_that_is_being_pressed(page: Page) -> None:
    unfold(page, "expected")
    page.locator("#id_expected").focus()
    page.keyboard.type("no figure")
    expect(error(page, "expected")).to_have_count(1)
    held: list[Route] = []
    is_pressed = False

    def hold(route: Route) -> None:
        if is_pressed:
            route.continue_()
        else:
            held.append(route)

    page.route("**/profiles/check/", hold)
    page.locator("#id_gpus").fill("some")
    save = page.get_by_role("button", name="Save", exact=True)
    save.scroll_into_view_if_needed()
    place = save.bounding_box()
    assert place is not None
    page.mouse.move(place["x"] + 10, place["y"] + place["height"] - 3)
    page.mouse.down()
    eventually(page, lambda: bool(held))
    is_pressed = True
    for route in held:
        route.continue_()  # of one that the page has replaced nothing comes
    # The check's answer has come, and the page has had time to draw what it makes of it.
    expect(page.locator('#check [data-field="id_gpus"]')).to_be_attached()
    page.evaluate(
        "new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))"
    )
    assert save.bounding_box() == place

    page.mouse.up()

    expect(page.get_by_role("alert").filter(has_text="Not saved.")).to_be_visible()


def test_fields_with_errors_can_be_read_by_everybody(page: Page) -> None:
    unfold(page, "privileged")
    page.locator("#id_privileged").check()
    page.locator("#id_gpus").fill("some")
    expect(error(page, "privileged")).to_contain_text("Only an admin")
    expect(error(page, "gpus")).to_have_count(1)

    assert faults_in_both_colours(page) == []
