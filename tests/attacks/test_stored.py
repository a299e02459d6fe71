"""HTML and htmx's attributes in every stored name and note, on every page, in a browser."""

import json
from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import Browser, Error

from tests.access_rows import ROWS, AccessRow
from tests.cases import Cases
from tests.web_stack import WebStack

pytestmark = pytest.mark.browser

FURNISH = """
import json
from tests import access_rows
from tests.attacks import stored
things = access_rows.made()
marks = stored.make_hostile()
print(json.dumps({"things": things, "marks": marks}))
"""
# What a browser would have made of a text: an element, or a value of a script.
BROKEN_OUT = """() => [
  ...[...document.querySelectorAll('img[src*="/stolen/"], [hx-get*="/stolen/"], [onerror]')]
    .map((element) => element.outerHTML),
  ...(typeof stolen === "undefined" ? [] : [stolen]),
]"""


def addresses(things: dict[str, Any]) -> list[str]:
    return [
        reverse(row.name, args=[things[key] for key in row.args]) + query(row)
        for row in ROWS
        if row.method == "get" and not row.wants_key
    ]


def query(row: AccessRow) -> str:
    return "?" + "&".join(f"{name}={value}" for name, value in row.data.items()) if row.data else ""


@pytest.mark.takes(90)
def test_no_stored_text_breaks_out_of_its_page(web: WebStack, browser: Browser) -> None:
    furnished = json.loads(web.run(FURNISH))
    context = browser.new_context()
    context.add_cookies([web.cookie("mallory")])  # type: ignore[list-item]
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    unseen = dict(furnished["marks"])

    with Cases() as cases:
        for address in addresses(furnished["things"]):
            with cases.named(address):
                try:
                    answer = page.goto(web.url + address)
                except Error as error:
                    if "Download is starting" not in str(error):
                        raise
                    continue  # a file, which no browser shows
                assert answer is not None
                assert answer.status < 500
                assert page.evaluate(BROKEN_OUT) == []
                assert [url for url in asked if "/stolen/" in url] == []
                text = page.locator("html").text_content() or ""
                unseen = {field: mark for field, mark in unseen.items() if mark not in text}

    assert complaints == []
    # What no page shows cannot break out of one; most of it is shown.
    assert len(unseen) < len(furnished["marks"]) / 2, unseen
