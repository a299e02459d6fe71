import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.axe import faults
from tests.chat_stack import Stack
from tests.scripted_engine import EngineScript, ScriptedEngine, words

pytestmark = pytest.mark.browser

# The server is restarted with another version of its profile.
RESTARTED = """
from dataclasses import replace
server = Server.objects.get(slug="tiny")
old = server.run
Run.objects.filter(pk=old.pk).update(state=RunState.STOPPED, ended_at=timezone.now())
launch = replace(server.profile.launch, flags=("--max-num-seqs=8",))
version = server.profile.save_version(launch, by=None)
server.run = Run.objects.create(
    server=server, version=version, state=RunState.READY, started_by=old.started_by,
    address=old.address, port=old.port, served_name=old.served_name, start__engine_version="0.34.0",
)
server.save()
events.publish_change('servers')
"""


def answers(page: Page, column: str) -> Locator:
    return page.get_by_role("group", name=f"Column {column}", exact=True).locator(".markdown")


def test_a_set_is_asked_before_and_after_a_restart_and_read_side_by_side(
    page: Page, stack: Stack, engine: ScriptedEngine
) -> None:
    page.goto(f"{stack.url}/chat/prompts/")
    page.get_by_role("link", name="New prompt set").click()
    page.get_by_label("Name").fill("Two of them")
    page.get_by_label("Prompt 1").fill("first")
    page.get_by_label("Prompt 2").fill("second")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("button", name="Parameters").click()
    page.get_by_label("Temperature").fill("0.3")

    # Stopped in the middle of the second, by hand; the first is kept.
    engine.plan = lambda body: (
        EngineScript(deltas=[{"content": "Half"}], then="hang")
        if words(body["messages"][-1]["content"]) == "second"
        else EngineScript(deltas=[{"content": "One"}])
    )
    page.get_by_role("button", name="Ask 2 prompts").click()
    expect(page.locator("#round-progress")).to_contain_text("prompt 2 of 2")
    expect(answers(page, "A").last).to_have_text("Half")
    page.keyboard.press("Escape")
    expect(page.locator("#round-progress")).to_have_text("Stopped: 1 of 2 prompts answered.")
    assert engine.requests[-1]["temperature"] == 0.3
    assert [each["content"] for each in engine.requests[-1]["messages"]] == ["second"]

    # Gone on with, after the page was away.
    engine.plan = lambda _body: EngineScript(deltas=[{"content": "Two"}])
    page.reload()
    page.get_by_role("button", name="Go on with A: 1 left").click()
    expect(answers(page, "A")).to_have_text(["One", "Two"])
    expect(page.locator("#round-progress")).to_have_text(
        "tiny: 2 of 2 prompts answered. They are kept with its run."
    )

    # Another run, with another version of the profile and one error.
    stack.shell(RESTARTED)
    engine.plan = lambda body: (
        EngineScript(deltas=[{"content": "Uno"}], error={"message": "out of blocks"}, then="end")
        if words(body["messages"][-1]["content"]) == "first"
        else EngineScript(deltas=[{"content": "Due"}])
    )
    page.reload()
    expect(page.get_by_label("Temperature")).to_have_value("0.3")
    expect(page.get_by_role("button", name=re.compile("^Go on"))).to_be_hidden()
    page.get_by_role("button", name="Ask 2 prompts").click()
    expect(answers(page, "A")).to_have_text(["Uno", "Due"])
    expect(answers(page, "B")).to_have_text(["One", "Two"])
    expect(page.get_by_role("alert").filter(has_text="out of blocks")).to_be_visible()
    progress = page.locator("#round-progress")
    expect(progress).to_contain_text("1 of 2 prompts answered, 1 failed: prompt 1 (The engine")
    expect(progress).to_contain_text("out of blocks). They are kept with its run.")
    expect(page.locator(".bars").first).to_be_visible()
    expect(page.get_by_label("Round A")).to_contain_text("1 of 2 answered, 1 failed")
    assert faults(page) == []
    page.reload()
    expect(answers(page, "A")).to_have_text(["Uno", "Due"])
    expect(page.get_by_label("Round A")).to_contain_text("1 of 2 answered, 1 failed")
    page.get_by_role("link", name=re.compile(r"^Tiny, version \d+ to \d+$")).click()
    expect(page.locator(".differences")).to_contain_text("--max-num-seqs")
