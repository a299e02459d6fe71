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
# Where names, paths and states may be as long as they are allowed to be.
OF_LONG_NAMES = ("/profiles/", "/recipes/", "/images/", f"/profiles/{SERVER}/versions/1/")
MOST_WORDS = {
    "/": 250,
    f"/boxes/{BOX}/": 250,
    f"/servers/{SERVER}/": 250,
    f"/profiles/{SERVER}/": 190,
    "/profiles/new/": 130,
    "/recipes/": 215,
    "/gateway/": 170,
}
WRONG = (
    "docker run --gpus all --privileged --ipc=host -v /etc:/models -p 8000:8000 --restart always "
    "vllm/vllm-openai:v0.20.2 Qwen/Qwen3-8B --tensor-parallel-size 16 --enable-prefix-cachingg"
)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.takes(60)
def test_main_pages_are_in_order_in_every_state(
    stack: WebStack, browser: Browser, state: str
) -> None:
    stack.run(f"from tests import page_states; page_states.prepare({state!r})")
    viewer = PageViewer(stack, browser, state)
    found: list[str] = []
    more = {"typical": ("/recipes/",), "long": OF_LONG_NAMES}.get(state, ())
    for path in ALWAYS + (OF_A_SERVER if state != "empty" else ()) + more:
        found += viewer.look(path, most_words=MOST_WORDS.get(path, 0) if state == "typical" else 0)
    if state == "typical":
        found += viewer.paste(WRONG, most_words=250)
    viewer.close()
    assert not found, "\n".join(found)
