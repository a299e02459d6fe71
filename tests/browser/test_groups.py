"""Variables become a group on a page, and the group goes over another profile after a look."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.axe import faults, faults_in_both_colours
from tests.browser.chromium import new_page
from tests.web_stack import WebStack

pytestmark = pytest.mark.browser

PREPARE = """
box = factories.box()
factories.server(box, "source", "gpt-oss-120b", env=factories.NCCL, reasons=factories.NCCL_REASONS)
factories.server(box, "target", "gpt-oss-120b", env={"NCCL_P2P_LEVEL": "PHB"})
"""


@pytest.fixture
def stack(web: WebStack) -> WebStack:
    web.run(PREPARE)
    return web


@pytest.fixture
def page(browser: Browser, stack: WebStack) -> Iterator[Page]:
    complaints: list[str] = []
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.add_cookies([stack.cookie("eva", "EDITOR")])  # type: ignore[list-item]
    yield new_page(context, complaints)
    context.close()
    assert complaints == []


def test_a_group_is_made_of_a_profile_and_laid_over_another(page: Page, stack: WebStack) -> None:
    page.goto(f"{stack.url}/groups/")
    expect(page.get_by_role("link", name="New group")).to_be_visible()
    assert faults(page) == []

    page.goto(f"{stack.url}/profiles/source/")
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("link", name="Save variables as a group").click()
    page.get_by_label("Name").fill("Blackwell NCCL")
    page.get_by_label("Variables").press("Control+End")
    page.keyboard.type("\nNCCL_DEBUG=WARN  # quiet <b>logs</b>")
    page.get_by_role("button", name="Create group").click()
    expect(page.get_by_role("heading", name="Blackwell NCCL", level=1)).to_be_visible()
    row = page.get_by_role("row").filter(has_text="target")
    expect(row).to_contain_text("NCCL_P2P_LEVEL is PHB")
    expect(page.get_by_text("quiet <b>logs</b>")).to_be_visible()
    row.get_by_role("link", name="Lay it over").click()
    expect(page.get_by_role("row").filter(has_text="NCCL_DEBUG")).to_contain_text("WARN")
    page.get_by_role("button", name="Save version 2").click()

    expect(
        page.get_by_text("Saved as version 2, with “Blackwell NCCL, version 1”.")
    ).to_be_visible()
    said = stack.run("print(Profile.objects.get(slug='target').launch.env)")
    assert "'NCCL_DEBUG': 'WARN'" in said


def test_a_group_is_edited_goes_back_and_is_deleted(page: Page, stack: WebStack) -> None:
    stack.run("factories.group('Old cards')")
    page.goto(f"{stack.url}/groups/old-cards/edit/")
    page.get_by_label("Variables").fill("NCCL_P2P_LEVEL=NODE")
    page.get_by_label("Change note").fill("One socket")
    page.get_by_role("button", name="Save", exact=True).click()

    page.get_by_text("2 variables").click()
    expect(page.get_by_role("row").filter(has_text="NCCL_IB_DISABLE").last).to_contain_text(
        "not set"
    )
    page.get_by_role("button", name="Go back to version 1").click()
    expect(page.get_by_text("Version 3 says what version 1 said.")).to_be_visible()
    page.get_by_text("Delete this group").click()
    page.get_by_role("button", name="Delete Old cards").click()

    expect(page.get_by_text("Old cards is deleted.")).to_be_visible()
    expect(page.get_by_role("heading", name="Environment groups", level=1)).to_be_visible()


def test_groups_fit_a_phone_and_can_be_read_by_everybody(page: Page, stack: WebStack) -> None:
    name = ("and a name without an end " * 3).strip()
    slug = stack.run(f"print(factories.group({name!r}).slug)").strip()
    page.set_viewport_size({"width": 390, "height": 844})
    edit, over = f"/groups/{slug}/edit/", f"/profiles/source/groups/{slug}/"
    for address in ("/groups/", f"/groups/{slug}/", edit, "/profiles/source/overlays/", over):
        page.goto(f"{stack.url}{address}")
        assert faults_in_both_colours(page) == [], address
