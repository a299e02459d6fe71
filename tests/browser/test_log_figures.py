"""Figures that an engine writes into its log become a chart beneath it."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import faults_in_both_colours
from tests.browser.test_log import AT, context, open_log, page, stack
from tests.chat_stack import Stack

__all__ = ["context", "page", "stack"]

pytestmark = pytest.mark.browser


def stats(generation: int) -> str:
    return (
        "INFO 11-21 10:00:10 [loggers.py:380] Engine 000: Avg prompt throughput: 12.0 tokens/s, "
        f"Avg generation throughput: {generation}.5 tokens/s, Running: 3 reqs, Waiting: 1 reqs, "
        "GPU KV cache usage: 42.0%, Prefix cache hit rate: 0.0%"
    )


def write_at(stack: Stack, minute: int, texts: list[str]) -> None:
    """Lines that follow each other by 10 s."""
    records = [
        f"{AT[:11]}08:{minute + n // 6:02d}:{n % 6 * 10:02d}.5Z o {text}"
        for n, text in enumerate(texts)
    ]
    stack.shell(
        f"after = Run.objects.get(pk={stack.run}).log.lines\n"
        f"records = [each.encode() for each in {records!r}]\n"
        f"events.publish_log_growth({stack.run}, LogChunk.objects.append({stack.run}, after, records))"
    )


def test_a_chart_is_drawn_goes_on_and_leads_into_the_log(page: Page, stack: Stack) -> None:
    write_at(stack, 0, ["INFO 11-21 10:00:00 [core.py:12] Starting up"])
    open_log(page, stack)
    figures = page.locator(".log-figures")
    expect(page.locator(".log-row")).to_have_count(1)
    expect(figures).to_be_hidden()

    write_at(stack, 1, [stats(n) for n in range(30)])
    expect(figures).to_contain_text("generated 29.5 tokens/s, at most 29.5")
    expect(figures).to_contain_text("running 3 requests, at most 3")
    expect(figures).to_contain_text("KV cache in use 42 %")
    expect(figures.locator("canvas")).to_have_count(0)
    figures.locator("summary").click()
    expect(figures).to_contain_text("tokens of all requests together")
    expect(figures.locator(".log-chart canvas")).to_have_count(3)

    write_at(stack, 10, [stats(80)])
    expect(figures).to_contain_text("generated 80.5 tokens/s")
    expect(figures.locator(".log-chart canvas")).to_have_count(3)
    figures.locator(".u-over").first.click(position={"x": 2, "y": 20})
    expect(page.locator(".is-target .log-number")).to_have_text("2")
    assert faults_in_both_colours(page) == []
