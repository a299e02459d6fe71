"""What axe-core finds on a page."""

from collections.abc import Sequence
from typing import Literal

from playwright.sync_api import Page

from tests.browser.layout import find_excess
from tests.terminal import ROOT

AXE = (ROOT / "node_modules/axe-core/axe.min.js").read_text()
# What is in order is neither told in full nor sent: that takes as long as the look itself.
RUN = """(rules) => axe
    .run({ resultTypes: ["violations"], ...(rules && { runOnly: rules }) })
    .then(({ violations }) => violations)"""
# All that another colour scheme changes: the other rules read elements and their attributes.
COLOURS = ("color-contrast", "link-in-text-block")
SCHEMES: tuple[tuple[Literal["light", "dark"], Sequence[str] | None], ...] = (
    ("light", None),
    ("dark", COLOURS),
)


def faults(page: Page, rules: Sequence[str] | None = None) -> list[str]:
    """What axe finds (None: by all of its rules), and whether the page is wider than the window."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    found = page.evaluate(RUN, rules)
    said = [
        f"{each['id']}: {node['html'][:200]} {node['failureSummary']}"
        for each in found
        for node in each["nodes"]
    ]
    if extra := find_excess(page):
        said.append(f"{extra} px wider than the window")
    return said


def faults_in_both_colours(page: Page) -> list[str]:
    """In dark, where the page stays, only what colours change is looked at again."""
    found: list[str] = []
    for scheme, rules in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        found += [f"{scheme}: {each}" for each in faults(page, rules)]
    return found
