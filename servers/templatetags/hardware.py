"""Findings about hardware, on pages."""

from datetime import UTC, datetime

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from servers.contexts.memory import HardwareReport
from servers.judge.memory.hardware.finding import HardwareFinding
from servers.templatetags.format import DASH

register = template.Library()

# Severity -> the look of badges and notices, and the word beside it.
TONES = {"critical": "failed", "warning": "attention", "info": "note"}
WORDS = {"critical": "critical", "warning": "warning", "info": "note"}


@register.filter
def tone(severity: str) -> str:
    return TONES[severity]


@register.filter
def severity_word(severity: str) -> str:
    return WORDS[severity]


register.filter("of_card", HardwareReport.worst_of)


@register.filter
def without_card(finding: HardwareFinding, index: int) -> str:
    """Its title where the card's name stands already."""
    return finding.title.removeprefix(f"GPU {index} ")


@register.filter
def moment(at: float) -> datetime:
    """Unix seconds, for filters that tell a time."""
    return datetime.fromtimestamp(at, UTC)


@register.filter
def clock_words(mhz: int | None, most: int | None) -> SafeString | str:
    """ "2368 / 2430"; "–" for a clock that the card does not report."""
    if mhz is None:
        return format_html('<span class="quiet">{}</span>', DASH)
    if not most:
        return str(mhz)
    return format_html('{} <span class="quiet">/ {}</span>', mhz, most)
