"""The dashboard's first line after a restart of the box is true at every moment, for everybody."""

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.chromium import new_page
from tests.web_stack import WebStack

pytestmark = pytest.mark.browser

RESTART = """
from datetime import timedelta
from django.utils import timezone
from servers import events
box = factories.box("rtx8")
run = factories.run(factories.server(box, "glm-5"), RunState.QUEUED,
                    status_message="It waits until qwen has loaded.")
Reboot.objects.create(box=box, boot_id="after", booted_at=timezone.now(), runs=[run.pk],
                    before={"driver": "580.95"}, after={"driver": "590.44"})
events.publish_change('box', box.pk)
"""
READY = """
from servers import events
Run.objects.update(state=RunState.READY, status_message="")
events.publish_change('server', Server.objects.get().pk)
"""


def test_it_comes_changes_and_goes_without_a_reload(stack: WebStack, browser: Browser) -> None:
    complaints: list[str] = []
    pages = []
    for name in ("ada", "grace"):
        context = browser.new_context()
        cookie = stack.cookie(name)
        context.add_cookies([{"name": cookie["name"], "value": cookie["value"], "url": stack.url}])
        page = new_page(context, complaints)
        page.goto(f"{stack.url}/")
        pages.append(page)
    ada, grace = pages
    line = ada.get_by_role("region", name="Restarts")
    expect(line).to_be_hidden()

    stack.run(RESTART)

    expect(line).to_contain_text("rtx8 was restarted")
    expect(line).to_contain_text("The NVIDIA driver is 590.44 now, and was 580.95.")
    expect(line).to_contain_text("glm-5: It waits until qwen has loaded.")
    stack.run(READY)
    expect(line).to_contain_text("Back: glm-5.")
    expect(line).not_to_contain_text("waits")

    line.get_by_role("button", name="Put away").click()

    for page in pages:
        expect(page.get_by_role("region", name="Restarts")).to_be_hidden()
    assert "put away restart" in stack.run(
        "print(*AuditEntry.objects.values_list('action', flat=True))"
    )
    for page in (ada, grace):
        page.context.close()
    assert complaints == []
