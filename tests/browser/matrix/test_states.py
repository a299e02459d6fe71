"""The main pages in every state that people meet."""

import pytest
from playwright.sync_api import Browser

from tests.browser.matrix.views import PageViewer
from tests.page_states import BOX, SERVER, STATES
from tests.web_stack import WebStack

pytestmark = [pytest.mark.browser, pytest.mark.pages]

# Those of one server or profile are not there where there is none.
ALWAYS = ("/", "/servers/", f"/boxes/{BOX}/", "/profiles/new/", "/models/", "/chat/", "/gateway/")
OF_A_SERVER = (f"/servers/{SERVER}/", f"/profiles/{SERVER}/")
BRIEF = {"/", f"/boxes/{BOX}/", "/gateway/", "/profiles/new/", *OF_A_SERVER}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.takes(60)
def test_main_pages_are_in_order_in_every_state(
    stack: WebStack, browser: Browser, state: str
) -> None:
    stack.run(f"from tests import page_states; page_states.prepare({state!r})")
    viewer = PageViewer(stack, browser, state)
    found: list[str] = []
    for path in ALWAYS + (OF_A_SERVER if state != "empty" else ()):
        found += viewer.look(path, is_brief=state == "typical" and path in BRIEF)
    viewer.close()
    assert not found, "\n".join(found)
