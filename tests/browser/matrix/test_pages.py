"""All other pages, with what people have after some weeks."""

import pytest
from playwright.sync_api import Browser

from tests.browser.matrix.views import PageViewer
from tests.page_states import BOX, CANARIES, RESULTS, SERVER, TRIAL
from tests.web_stack import WebStack

pytestmark = [pytest.mark.browser, pytest.mark.pages]

PAGES = (
    "/design/",
    "/boxes/spark-1/",
    f"/servers/{SERVER}/log/",
    f"/servers/{SERVER}/metrics/",
    f"/servers/{SERVER}/configuration/",
    f"/servers/{SERVER}/runs/",
    f"/servers/{SERVER}/check-up/",
    f"/servers/{SERVER}/check-up/custom/",
    f"/servers/{SERVER}/check-up/replay/",
    "/benchmarks/",
    f"/benchmarks/{RESULTS[1]}/",
    f"/answers/{CANARIES[1]}/",
    f"/trials/{TRIAL}/",
    f"/servers/{SERVER}/try/",
    f"/benchmarks/compare/?of={RESULTS[0]}&of={RESULTS[1]}",
    f"/benchmarks/history/?server={SERVER}",
    "/servers/glm-5/",
    "/servers/glm-5/runs/",
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
    f"/images/on/{BOX}/prune/",
    "/chat/compare/",
    "/chat/prompts/",
    "/chat/prompts/new/",
    "/keys/",
    "/gateway/usage/",
    "/gateway/requests/",
    "/gateway/capture/",
    "/gateway/ports/",
    "/alerts/",
    "/activity/",
    "/settings/",
    "/settings/people/",
    "/settings/people/invite/",
    "/settings/secrets/",
    "/settings/secrets/add/",
    "/settings/boxes/",
    "/settings/links/add/",
    f"/settings/boxes/{BOX}/",
    "/settings/registries/",
    "/settings/registries/add/",
    "/settings/notifications/",
    "/settings/notifications/add/",
    "/settings/about/",
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
