"""A profile's page and its form follow the asking of an image, without a reload."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.axe import faults
from tests.browser.chromium import new_page
from tests.browser.steps import unfold
from tests.factories import ASKED
from tests.web_stack import WebStack

pytestmark = pytest.mark.browser


@pytest.fixture
def stack(web: WebStack) -> WebStack:
    web.run(f"factories.server(factories.box(), 'coder', 'gpt-oss-120b', image='{ASKED}')")
    return web


@pytest.fixture
def eva(browser: Browser, stack: WebStack) -> Iterator[Page]:
    complaints: list[str] = []
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.add_cookies([stack.cookie("eva", "EDITOR")])  # type: ignore[list-item]
    yield new_page(context, complaints)
    context.close()
    assert complaints == []


def note(stack: WebStack, asking: str, **values: Any) -> None:
    """As the watcher does it."""
    stack.run(
        f"ImageFacts.objects.note(Box.objects.get(), 'vllm', '{ASKED}', '{asking}', **{values})\n"
        "events.publish_change('images')"
    )


ANSWER = """
from servers.launch.engines.flaglist import load_shipped
ImageFacts.objects.all().delete()
factories.image_facts(Box.objects.get(), load_shipped("vllm", "0.32.0"))
events.publish_change('images')
"""


def test_the_page_of_a_profile_follows_the_asking(eva: Page, stack: WebStack) -> None:
    eva.goto(f"{stack.url}/profiles/coder/")
    says = eva.locator(".image-says")
    expect(says).to_contain_text("Image not inspected yet on rtx8")
    eva.evaluate("window.neverReloaded = true")

    note(stack, "absent")
    expect(says).to_contain_text("The image is not on rtx8")
    note(stack, "asking", entrypoint=["vllm", "serve"])
    expect(says).to_contain_text(re.compile(r"Asking the image for its flags… [1-9]\d* s"))
    expect(eva.locator("pre.command")).to_contain_text(f"{ASKED} openai/gpt-oss-120b")
    assert faults(eva) == []
    stack.run(ANSWER)

    expect(says).to_contain_text("vLLM 0.32.0, 317 flags, read just now")
    expect(says).not_to_contain_text("Asking")
    expect(eva.locator("pre.command")).to_contain_text("--disable-access-log-for-endpoints")
    assert eva.evaluate("window.neverReloaded")


def test_the_form_goes_by_the_answer_as_soon_as_it_is_there(eva: Page, stack: WebStack) -> None:
    eva.goto(f"{stack.url}/profiles/coder/edit/")
    image = eva.locator("#image-note")
    expect(eva.locator("#check")).to_contain_text("docker run")
    source = eva.locator("#id_flags_source")
    expect(source).to_contain_text("This image has not been asked yet")
    box = eva.locator("#id_flags")
    unfold(eva, "flags")
    box.focus()
    eva.keyboard.type("--max-model-len 4096 ")

    note(stack, "asking")
    expect(image).to_contain_text(re.compile(r"Asking the image for its flags… \d+ s"))
    stack.run(ANSWER)

    expect(image).to_contain_text("vLLM 0.32.0, 317 flags")
    expect(source).to_contain_text(
        "Help knows the 317 flags of vLLM 0.32.0, as this image lists them"
    )
    expect(box).to_be_focused()
    eva.keyboard.type("--enforce-eager")
    expect(box).to_have_value("--max-model-len 4096 --enforce-eager")
