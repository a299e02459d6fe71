"""The page of a failed run, on a telephone too: nothing runs out of it, nothing is cut off."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.axe import faults, faults_in_both_colours
from tests.browser.chromium import new_page
from tests.browser.layout import find_excess, until
from tests.web_stack import WebStack

pytestmark = pytest.mark.browser

SEED = """
from servers.lifecycle.logs import diagnoses
from servers.models import LogChunk
box = factories.box("rtx8")
server = factories.server(box, "tight", model="minimax-m2.7", flags=("--tensor-parallel-size", "2"))
good = factories.run(server, RunState.STOPPED, age=90000, stopped_by=factories.person())
RunStart.objects.filter(run=good.pk).update(around={"driver": "580.82", "others": []})
run = factories.run(
    server, RunState.FAILED, container_id="c" * 64, is_complete=True, exit_code=1,
    failure="The engine ended by itself before it was ready, with exit code 1.",
    image_id="sha256:" + "7" * 64, around={"driver": "580.95", "others": ["a-server-with-a-long-name"]},
)
said = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
line = f"2026-11-21T08:00:00.000000000Z e (EngineCore pid=64) ERROR 11-21 08:00:03 [core.py:936] {said}"
LogChunk.objects.append(run.pk, 0, [line.encode()])
diagnoses.look(box)
"""


@pytest.fixture
def stack(web: WebStack) -> WebStack:
    web.run(SEED)
    return web


@pytest.fixture
def page(stack: WebStack, browser: Browser) -> Iterator[Page]:
    complaints: list[str] = []
    context = browser.new_context(viewport={"width": 390, "height": 844})
    context.add_cookies([stack.cookie("ada")])  # type: ignore[list-item]
    yield new_page(context, complaints)
    assert complaints == []


@pytest.mark.parametrize("path", ["/servers/tight/", "/profiles/tight/"])
def test_a_telephone_shows_all_of_it_without_going_sideways(
    page: Page, stack: WebStack, path: str
) -> None:
    page.goto(f"{stack.url}{path}")
    expect(page.get_by_role("heading", level=1)).to_have_text("tight")

    assert not find_excess(page)


def test_what_changed_and_what_to_do_are_legible_there(page: Page, stack: WebStack) -> None:
    page.goto(f"{stack.url}/servers/tight/")
    why = page.get_by_role("region", name="Why it failed")
    expect(why).to_contain_text("580.82 → 580.95")
    expect(why.get_by_role("button").first).to_have_accessible_name(
        "Apply fix and start: --gpu-memory-utilization 0.87"
    )
    # The best one is the page's main button, too.
    expect(page.get_by_role("button", name="Apply fix and start", exact=True)).to_have_class(
        "primary"
    )
    until(
        page,
        """() => [...document.querySelectorAll('.failure .facts dd')]
            .every((each) => each.scrollWidth <= each.clientWidth)""",
    )
    assert faults_in_both_colours(page) == []

    why.get_by_role("link", name="2 attempts with this model").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("lukealonso/MiniMax-M2.7-NVFP4")
    expect(page.get_by_role("row").nth(1)).to_contain_text("GPU memory ran out")
    assert faults(page) == []
