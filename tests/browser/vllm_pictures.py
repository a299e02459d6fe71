"""Pictures, with vLLM itself: from the page, refused, kept, exported, and from programs.

vLLM takes two of a prompt, by --limit-mm-per-prompt, and counts a picture's tokens by its shape.
"""

import base64
import json
import os
import re
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import anthropic
import openai
import pytest
from openai.types.chat import ChatCompletionContentPartParam, ChatCompletionMessageParam
from playwright.sync_api import Page, expect

from tests.browser.chat.talk import ask, menu, parameters
from tests.browser.chat.test_pictures import file, png
from tests.browser.vllm_talk import NAME, answered, foot, last

# What a picture adds to a prompt: of each tile, and of the whole, four tokens and marks about them.
SQUARE, WIDE = 34, 21
TOO_MANY = "At most 2 image(s) may be provided in one prompt"
# A JPEG, as the browser itself makes them.
JPEG = """([width, height]) => {
    const canvas = Object.assign(document.createElement("canvas"), {width, height});
    const context = canvas.getContext("2d");
    context.fillStyle = "teal";
    context.fillRect(0, 0, width / 2, height);
    return canvas.toDataURL("image/jpeg").split(",")[1];
}"""


def show(page: Page) -> bytes:
    """Questions with pictures, in a conversation of their own; returns the JPEG among them."""
    page.get_by_role("button", name="New conversation").click()
    parameters(page)
    page.get_by_label("Max tokens").fill("8")
    page.get_by_label("Thinking", exact=True).select_option("off")
    ask(page, "What is it?")
    answered(page)
    without = prompt_tokens(page)
    jpeg = base64.b64decode(page.evaluate(JPEG, [200, 100]))

    page.get_by_role("button", name="New conversation").click()
    attach(page, "square.png", png(64, 64))
    expect(page.locator("#chat-pictures-note")).to_be_empty()
    ask(page, "What is it?")
    answered(page)
    assert prompt_tokens(page) == without + SQUARE
    expect(foot(page)).to_contain_text(f"{SQUARE} of pictures)")

    attach(page, "wide.jpg", jpeg)
    ask(page, "And this?")
    answered(page)
    expect(foot(page)).to_contain_text(f"{SQUARE + WIDE} of pictures)")

    attach(page, "third.png", png(8, 8))
    ask(page, "And all of them?")
    alert = last(page).get_by_role("alert")
    expect(alert).to_contain_text(f"The engine refused the request (400): {TOO_MANY}")
    expect(alert).to_contain_text("The pictures of all questions go with each one: remove some")
    page.get_by_label("Edit this message and send it again").last.click()
    page.get_by_label("Remove third.png").click()
    page.get_by_role("button", name="Send again").click()
    expect(page.locator(".question .picture")).to_have_count(2)
    answered(page)
    return jpeg


def keep(page: Page, token: str, folder: Path) -> None:
    """What was shown is there when one comes back, and in what is exported."""
    page.wait_for_url(re.compile("/chat/[0-9a-z]{6,}/$"))
    page.reload()
    shown = page.locator(".question .picture")
    expect(shown).to_have_count(2)
    assert shown.evaluate_all("all => all.map(each => each.complete && each.naturalWidth)") == [
        64,
        200,
    ]
    urls = shown.evaluate_all("all => all.map(each => each.src)")
    assert [url.partition(",")[0] for url in urls] == [
        "data:image/png;base64",
        "data:image/jpeg;base64",
    ]
    files = {}
    for title in ("Markdown", "JSON", "curl", "Python (openai)"):
        with page.expect_download() as got:
            menu(page, title)
        files[title] = folder / got.value.suggested_filename
        got.value.save_as(files[title])
        for url in urls:
            assert url in files[title].read_text()
    env = {**os.environ, "INFERDASH_API_KEY": token}
    said = {
        title: subprocess.run(
            [program, files[title]],
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        ).stdout
        for title, program in (("curl", "/bin/sh"), ("Python (openai)", sys.executable))
    }
    used = json.loads(said["curl"])["usage"]
    assert used["prompt_tokens_details"]["multimodal_tokens"] == {"image": SQUARE + WIDE}
    assert said["Python (openai)"].strip()


def programs_show(url: str, token: str, jpeg: bytes) -> None:
    """To both APIs, by their makers' packages."""
    with openai.OpenAI(base_url=f"{url}/v1", api_key=token, max_retries=0) as client:
        without = used(client)
        assert used(client, png(64, 64)) == without + SQUARE
        assert used(client, jpeg) == without + WIDE
        with pytest.raises(openai.BadRequestError, match=re.escape(TOO_MANY)):
            used(client, png(8, 8), png(8, 8), png(8, 8))
        with pytest.raises(openai.InternalServerError, match="Image size .* exceeds limit"):
            used(client, vast())
        with pytest.raises(openai.BadRequestError, match="allowed domains"):
            tokens(client, "http://127.0.0.1/picture.png")
    source: anthropic.types.Base64ImageSourceParam = {
        "type": "base64",
        "media_type": "image/jpeg",
        "data": base64.b64encode(jpeg).decode(),
    }
    with anthropic.Anthropic(base_url=url, api_key=token, max_retries=0) as claude:
        said = claude.messages.create(
            model=NAME,
            max_tokens=5,
            messages=[
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "Hello"},
                        {"type": "image", "source": source},
                    ],
                }
            ],
        )
    assert said.usage.input_tokens == without + WIDE


def used(client: openai.OpenAI, *pictures: bytes) -> int:
    """Tokens of the prompt."""
    kinds = ["png" if data.startswith(b"\x89PNG") else "jpeg" for data in pictures]
    within = [base64.b64encode(data).decode() for data in pictures]
    urls = [f"data:image/{kind};base64,{data}" for kind, data in zip(kinds, within, strict=True)]
    return tokens(client, *urls)


def tokens(client: openai.OpenAI, *urls: str) -> int:
    content: list[ChatCompletionContentPartParam] = [{"type": "text", "text": "Hello"}]
    content += [{"type": "image_url", "image_url": {"url": each}} for each in urls]
    question: list[ChatCompletionMessageParam] = [{"role": "user", "content": content}]
    answer = client.chat.completions.create(model=NAME, max_tokens=5, messages=question)
    assert answer.usage is not None
    return answer.usage.prompt_tokens


def vast() -> bytes:
    """The head of a PNG of more pixels than vLLM takes."""
    data = b"IHDR" + struct.pack(">IIBBBBB", 14_000, 14_000, 8, 2, 0, 0, 0)
    end = b"\0\0\0\0IEND" + struct.pack(">I", zlib.crc32(b"IEND"))
    return (
        b"\x89PNG\r\n\x1a\n"
        + struct.pack(">I", 13)
        + data
        + struct.pack(">I", zlib.crc32(data))
        + end
    )


def attach(page: Page, name: str, data: bytes) -> None:
    kind = "image/jpeg" if name.endswith(".jpg") else "image/png"
    page.locator("#chat-files").set_input_files([file(name, data, kind)])
    expect(page.locator("#chat-pictures li").last).to_contain_text(name)


def prompt_tokens(page: Page) -> int:
    found = re.search(r"([\d,]+) prompt", foot(page).text_content() or "")
    assert found
    return int(found[1].replace(",", ""))
