from playwright.sync_api import Page, expect

from tests.browser.steps import unfold
from tests.web_stack import WebStack

DESK = {"width": 1280, "height": 900}
VLLM = "vllm/vllm-openai:v0.33.0"


def opened(page: Page, stack: WebStack, image: str = VLLM) -> Page:
    page.goto(f"{stack.url}/profiles/new/")
    page.locator("#id_engine").select_option("vllm")
    page.locator("#id_image").fill(image)
    unfold(page, "flags", "env")
    return page


def knows(page: Page, said: str) -> None:
    """Wait until the list of this version is there."""
    expect(page.locator("#id_flags_source")).to_contain_text(said)


def write(page: Page, box: str, text: str) -> None:
    page.locator(box).focus()
    page.keyboard.press("Control+End")
    page.keyboard.type(text)
