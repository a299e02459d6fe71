"""A report on a telephone: written, looked through and saved, and what is saved is what was shown."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.axe import faults_in_both_colours
from tests.browser.chromium import new_page
from tests.web_stack import WebStack

pytestmark = pytest.mark.browser

SEED = """
from servers.lifecycle.logs import diagnoses
from servers.models import LogChunk
box = factories.box("rtx8")
server = factories.server(box, "odd", model="minimax-m2.7")
run = factories.run(
    server, RunState.FAILED, container_id="c" * 64, is_complete=True, exit_code=1,
    failure="The engine ended by itself before it was ready, with exit code 1.",
)
said = "(EngineCore pid=64) ERROR 11-21 08:00:03 [core.py:936] RuntimeError: gremlin <b>in</b> /home/barbara/x"
LogChunk.objects.append(run.pk, 0, [f"2026-11-21T08:00:00.000000000Z e {said}".encode()] * 30)
diagnoses.look(box)
"""


@pytest.fixture
def page(web: WebStack, browser: Browser) -> Iterator[Page]:
    web.run(SEED)
    complaints: list[str] = []
    context = browser.new_context(viewport={"width": 390, "height": 844})
    context.add_cookies([web.cookie("ada")])  # type: ignore[list-item]
    yield new_page(context, complaints)
    context.close()
    assert complaints == []


def test_what_is_saved_is_what_was_shown(page: Page, web: WebStack) -> None:
    page.goto(f"{web.url}/servers/odd/")
    page.get_by_role("link", name="Report", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Report a failure")
    file = page.get_by_label("Text of the file")
    expect(file).to_contain_text(
        "| (EngineCore pid=64) ERROR 11-21 08:00:03 [core.py:936] RuntimeError"
    )
    expect(file).to_contain_text("gremlin <b>in</b> /home/user1/x")
    assert faults_in_both_colours(page) == []

    page.get_by_label("What was it really?").fill("It was a loose cable.")
    expect(file).to_contain_text("truth: It was a loose cable.")
    page.get_by_label("Hide these words, too").fill("gremlin")
    expect(file).not_to_contain_text("gremlin")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the file").first.click()

    assert Path(download.value.path()).read_text() == file.text_content()
