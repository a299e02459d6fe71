"""All other pages, with what people have after some weeks."""

import pytest
from playwright.sync_api import Browser

from tests.browser.matrix.views import PageViewer
from tests.page_states import BOX, SERVER
from tests.web_stack import WebStack

pytestmark = [pytest.mark.browser, pytest.mark.pages]

PAGES = (
    "/design/",
    f"/boxes/{BOX}/hardware/",
    f"/boxes/{BOX}/permissions/",
    f"/boxes/{BOX}/history/",
    f"/boxes/{BOX}/found/",
    "/found/",
    "/profiles/",
    "/profiles/paste/",
    f"/profiles/{SERVER}/edit/",
    f"/profiles/{SERVER}/versions/1/",
    f"/profiles/{SERVER}/export/docker/",
    f"/profiles/{SERVER}/overlays/",
    "/groups/",
    "/groups/new/",
    "/groups/blackwell-nccl/",
    "/recipes/?all=on",
    "/recipes/glm5-nvfp4/",
    "/models/download/",
    "/images/",
    "/images/logins/",
    f"/images/on/{BOX}/prune/",
    "/chat/compare/",
    "/chat/prompts/",
    "/chat/prompts/new/",
    "/keys/",
    "/gateway/usage/",
    "/gateway/capture/",
    "/gateway/ports/",
    "/alerts/",
    "/alerts/outlets/",
    "/activity/",
    "/settings/",
    "/password/",
)


@pytest.mark.parametrize("pages", [PAGES[::2], PAGES[1::2]], ids=["half", "other-half"])
@pytest.mark.takes(60)
def test_every_page_is_in_order(stack: WebStack, browser: Browser, pages: tuple[str, ...]) -> None:
    stack.run("from tests import page_states; page_states.prepare('typical')")
    viewer = PageViewer(stack, browser, "typical")
    found = [fault for path in pages for fault in viewer.look(path)]
    viewer.close()
    assert not found, "\n".join(found)
