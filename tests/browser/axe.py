"""What axe-core finds on a page."""

from playwright.sync_api import Page

from tests.terminal import ROOT

AXE = (ROOT / "node_modules/axe-core/axe.min.js").read_text()


def faults(page: Page) -> list[str]:
    """What axe finds, and whether the page is wider than the window."""
    page.evaluate(AXE)
    found = page.evaluate("axe.run()")
    said = [
        f"{each['id']}: {node['html'][:200]} {node['failureSummary']}"
        for each in found["violations"]
        for node in each["nodes"]
    ]
    if (extra := page.evaluate("document.documentElement.scrollWidth - innerWidth")) > 0:
        said.append(f"{extra} px wider than the window")
    return said
