"""Findings about hardware, on pages."""

from datetime import UTC, datetime

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from servers.contexts.memory.care import HardwareReport
from servers.judge.memory.hardware import HardwareFinding
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


@register.filter
def of_card(hardware: HardwareReport, key: str) -> HardwareFinding | None:
    """The worst that is wrong with a card; None: nothing that needs a person."""
    return hardware.worst_of(key)


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
