import base64
import struct
import zlib
from typing import Any

import pytest
from playwright.sync_api import FilePayload, Page, expect

from tests.browser.axe import faults
from tests.browser.chat.talk import answer, ask, details, finished, kept, menu, pieces, unfold
from tests.scripted_engine import ScriptedEngine

pytestmark = pytest.mark.browser


def png(width: int, height: int) -> bytes:
    """A picture of one colour."""
    rows = (b"\0" + b"\x20\x60\xc0" * width) * height

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def file(name: str, data: bytes, kind: str = "image/png") -> FilePayload:
    return {"name": name, "mimeType": kind, "buffer": data}


PASTE = """([data, name]) => {
    const bytes = Uint8Array.from(atob(data), (char) => char.charCodeAt(0));
    const held = new DataTransfer();
    held.items.add(new File([bytes], name, {type: name.endsWith(".csv") ? "text/csv" : "image/png"}));
    const event = new ClipboardEvent("paste", {clipboardData: held, bubbles: true, cancelable: true});
    document.getElementById("chat-input").dispatchEvent(event);
}"""
DROP = """([data, name]) => {
    const bytes = Uint8Array.from(atob(data), (char) => char.charCodeAt(0));
    const held = new DataTransfer();
    held.items.add(new File([bytes], name, {type: name.endsWith(".log") ? "" : "image/png"}));
    const event = new DragEvent("drop", {dataTransfer: held, bubbles: true, cancelable: true});
    document.getElementById("chat-middle").dispatchEvent(event);
}"""


def test_pictures_go_with_a_question(page: Page, engine: ScriptedEngine) -> None:
    files, shown = page.locator("#chat-files"), page.locator("#chat-pictures li")
    small = base64.b64encode(png(4, 4)).decode()

    program = file("run", b"\x7fELF\0\0", "application/octet-stream")
    files.set_input_files([file("large.png", png(3000, 20)), program])
    expect(shown).to_have_count(1)
    expect(shown.first).to_contain_text("1536 × 10")
    expect(shown.first).to_contain_text("made smaller from 3000 × 20")
    expect(page.locator("#chat-pictures-note")).to_contain_text("run is no text, and no picture")
    files.set_input_files([file("broken.png", b"no picture")])
    expect(page.locator("#chat-pictures-note")).to_contain_text("it may be damaged")
    page.evaluate(PASTE, [small, "<img src=x onerror=window.hacked=1>"])
    page.evaluate(DROP, [small, "dropped.png"])
    expect(shown).to_have_count(3)
    page.get_by_label("Remove large.png").click()
    expect(shown).to_have_count(2)
    assert faults(page) == []

    ask(page, "What is it?")
    finished(page)

    content = engine.requests[-1]["messages"][0]["content"]
    url = f"data:image/png;base64,{small}"
    assert content == [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "image_url", "image_url": {"url": url}},
    ]
    expect(answer(page).locator(".markdown")).to_have_text("You said: What is it? (2 pictures)")
    expect(shown).to_have_count(0)
    kept(page)
    page.reload()
    expect(page.locator(".question .picture")).to_have_count(2)
    expect(page.locator(".question .picture-name").first).to_have_text(
        "<img src=x onerror=window.hacked=1>"
    )
    assert page.evaluate("window.hacked") is None
    with page.expect_download() as got:
        menu(page, "Markdown")
    exported = got.value.path().read_text()
    assert "![\\<img src=x onerror=window.hacked=1\\>, 4 × 4][picture 1]\n\n" in exported
    assert exported.endswith(f"[picture 1]: {url}\n\n[picture 2]: {url}\n")
    page.get_by_label("Edit this message and send it again").click()
    page.get_by_label("Remove dropped.png").click()
    page.get_by_role("button", name="Send again").click()
    finished(page)
    assert len(engine.requests[-1]["messages"][0]["content"]) == 2


def test_files_stand_in_the_order_in_which_they_were_added(page: Page) -> None:
    shown = page.locator("#chat-pictures li")
    large, small = (base64.b64encode(png(*size)).decode() for size in ((3000, 2000), (4, 4)))
    both = f"([one, other]) => {{ ({PASTE})(one); ({DROP})(other); }}"

    page.evaluate(both, [[large, "slow.png"], [small, "quick.png"]])
    expect(shown).to_have_count(2)
    expect(shown.first).to_contain_text("slow.png")
    expect(shown.last).to_contain_text("quick.png")


def test_text_files_go_with_a_question(page: Page, engine: ScriptedEngine) -> None:
    files, shown = page.locator("#chat-files"), page.locator("#chat-pictures li")
    note = page.locator("#chat-pictures-note")

    files.set_input_files([file("notes.md", b"# Notes\n", "text/markdown")])
    expect(shown).to_have_text(["notes.md1 KiB×"])
    page.evaluate(PASTE, [base64.b64encode(b"a,b\n1,2\n").decode(), "table.csv"])
    expect(shown).to_have_count(2)
    page.evaluate(DROP, [base64.b64encode("Fehler: \xe4 \u2713".encode()).decode(), "engine.log"])
    expect(shown).to_have_count(3)
    files.set_input_files([file("huge.txt", b"x" * 300_000, "text/plain")])
    expect(note).to_contain_text("huge.txt is 293 KiB; a text file may have 256 KiB.")
    page.get_by_label("Remove table.csv").click()
    expect(shown).to_have_count(2)
    assert faults(page) == []

    ask(page, "What went wrong?")
    finished(page)

    assert engine.requests[-1]["messages"][0]["content"] == (
        "notes.md:\n```markdown\n# Notes\n```\n\n"
        "engine.log:\n```\nFehler: \xe4 \u2713\n```\n\nWhat went wrong?"
    )
    expect(shown).to_have_count(0)
    kept(page)
    page.reload()
    expect(page.locator(".question .picture-name")).to_have_text(["notes.md", "engine.log"])
    expect(page.locator(".question .text")).to_have_text("What went wrong?")
    assert faults(page) == []


def token(text: str, logprob: float, *others: tuple[str, float]) -> dict[str, Any]:
    top = [{"token": name, "logprob": value} for name, value in ((text, logprob), *others)]
    said = {"token": text, "logprob": logprob, "bytes": None, "top_logprobs": top}
    return {"content": text, "logprobs": {"content": [said]}}


def test_probabilities_are_a_map_that_the_keyboard_walks(
    page: Page, engine: ScriptedEngine
) -> None:
    unfold(page, "More parameters")
    page.get_by_label("Logprobs").fill("2")
    ask(page, deltas=[token("Yes", -0.01), token(" no", -1.6, (" maybe", -0.4)), token("!", -5)])
    finished(page)

    assert {key: engine.requests[-1][key] for key in ("logprobs", "top_logprobs")} == {
        "logprobs": True,
        "top_logprobs": 2,
    }
    details(page)
    answer(page).get_by_text("Probabilities", exact=True).click()
    tokens = answer(page).locator(".tokens .token")
    expect(tokens).to_have_text(["Yes", " no", "!"])
    assert [
        name.split()[-1] for name in tokens.evaluate_all("all => all.map(each => each.className)")
    ] == [
        "level-1",
        "level-4",
        "level-6",
    ]
    tokens.first.focus()
    page.keyboard.press("ArrowRight")
    expect(tokens.nth(1)).to_be_focused()
    rows = answer(page).locator(".alternatives tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("·maybe")
    expect(rows.first).to_contain_text("67.0 %")
    expect(rows.nth(1)).to_have_class("taken")
    assert faults(page) == []
    page.emulate_media(color_scheme="dark")
    assert faults(page) == []


def test_every_kind_of_an_answer_fits_on_a_phone(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    long = "x" * 300
    called = {
        "index": 0,
        "id": "1",
        "function": {"name": long, "arguments": f'{{"{long}": "{long}"}}'},
    }
    ask(page, deltas=[*pieces(long, 50), {"tool_calls": [called]}], finish="tool_calls")
    finished(page)
    details(page)
    answer(page).get_by_text("Raw", exact=True).click()

    assert faults(page) == []
