"""Formats of figures, times and states."""

import json
import math
import re
import shlex
import signal
from datetime import datetime, timedelta
from typing import Any

from django import template
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from servers.judge.images import names
from servers.launch import numbers
from servers.launch.engines import ENGINES

# Escape sequences of terminals: colours, cursor moves, window titles.
ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_BACKTICKS = re.compile(r"`([^`\n]+)`")
_SENTENCE_END = re.compile(r"(?<=[.?!])\s+(?=[A-Z“])")

register = template.Library()

NOT_REPORTED = "not reported"
DASH = "–"


@register.filter
def gib(size: float | None) -> str:
    """Bytes as "41.2 GiB"; None is "not reported", because 0 would be a claim."""
    return NOT_REPORTED if size is None else f"{gib_number(size)} GiB"


@register.filter
def short_image(reference: str) -> str:
    """A profile that was made of what runs may name its image by 64 digits."""
    return names.find_image_name(reference, {})


@register.filter
def size(count: float | None) -> str:
    """Bytes of something that may be small: "412 KiB", "3.1 MiB", "41.2 GiB"."""
    return DASH if count is None else numbers.size(count)


@register.filter
def rate(per_second: float | None) -> str:
    """Bytes a second: "112 MiB/s"."""
    if per_second is None:
        return DASH
    mib = per_second / 2**20
    return f"{mib:.0f} MiB/s" if mib >= 9.95 else f"{mib:.1f} MiB/s"


@register.filter
def gib_number(size: float | None) -> str:
    """Bytes as "41.2", for places where the unit stands once for many figures."""
    return DASH if size is None else numbers.gib_number(size)


@register.filter
def grey_dash(text: str) -> SafeString | str:
    """What is not known stands back behind what is."""
    return format_html('<span class="quiet">{}</span>', DASH) if text in ("", DASH) else text


@register.filter
def count(number: int | None) -> str:
    """ "1 234 567", with spaces that do not break."""
    return DASH if number is None else f"{number:,}".replace(",", "\u202f")


@register.filter
def count_short(number: int) -> str:
    """ "1.2 M", for the axes of charts."""
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            return f"{number / size:.3g}\u202f{letter}"
    return str(number)


@register.filter
def context_length(tokens: int) -> str:
    """As models are advertised: 131072 tokens are "128k"."""
    return str(tokens) if tokens < 1000 else f"{tokens / 1024:.0f}k"


@register.filter
def reported(value: Any, unit: str = "") -> str:
    """A figure with its unit; "not reported" when the card does not tell."""
    if value is None:
        return NOT_REPORTED
    figure = f"{value:.0f}" if isinstance(value, float) else str(value)
    return f"{figure} {unit}" if unit else figure


@register.filter
def duration(span: timedelta | float | None) -> str:
    """A time span by its two largest parts: "4 min 12 s", "2 d 3 h"; under 10 s "3.4 s"."""
    if span is None:
        return ""
    seconds = span.total_seconds() if isinstance(span, timedelta) else float(span)
    if 0 < seconds < 9.95:
        return f"{seconds:.1f} s"
    left = max(0, round(seconds))
    parts: list[str] = []
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        amount, left = divmod(left, size)
        if amount or (unit == "s" and not parts):
            parts.append(f"{amount} {unit}")
        elif parts:
            break
    return " ".join(parts[:2])


@register.filter
def time_left(seconds: float) -> str:
    """ "about 4 min left": whole minutes, as nobody knows it better."""
    if seconds < 60:
        return "less than a minute left"
    return f"about {math.ceil(seconds / 60)} min left"


def relative(moment: datetime, now: datetime) -> str:
    """ "just now", "12 min ago", "in 3 h"; from a day on "22 Nov 18:04".

    The page's own clock goes on from here (time.js).
    """
    seconds = (now - moment).total_seconds()
    size = abs(seconds)
    if size < 5:
        return "just now"
    for unit, length, limit in (("s", 1, 60), ("min", 60, 3600), ("h", 3600, 86400)):
        if size < limit:
            text = f"{int(size // length)} {unit}"
            break
    else:
        return numbers.format_moment(timezone.localtime(moment), timezone.localtime(now))
    return f"{text} ago" if seconds > 0 else f"in {text}"


@register.filter
def ago(moment: datetime | None) -> SafeString | str:
    """A <time> that says how long ago, with the exact time on hover."""
    if moment is None:
        return ""
    return _time(moment, relative(moment, timezone.now()), mode="ago")


@register.filter
def age(moment: datetime | None) -> str:
    """ "54 min", "3 h", "2 d": the largest part alone, for places that are sent anew each second."""
    if moment is None:
        return ""
    seconds = max(0, (timezone.now() - moment).total_seconds())
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{int(seconds)} s"


@register.filter
def since(moment: datetime | None) -> SafeString | str:
    """A <time> that says for how long, without "ago": "ready 2 h"."""
    if moment is None:
        return ""
    seconds = max(0, int((timezone.now() - moment).total_seconds()))
    # As the page's own clock says it, which goes on from here (time.js).
    return _time(moment, f"{seconds} s" if seconds < 10 else duration(seconds), mode="since")


@register.filter
def exactly(moment: datetime | None) -> SafeString | str:
    """A <time> with date and time of day."""
    if moment is None:
        return ""
    local, now = timezone.localtime(moment), timezone.localtime()
    return _time(moment, numbers.format_moment(local, now), mode="exact")


@register.filter
def clock(moment: datetime | None) -> SafeString | str:
    """A <time> with the time of day, and the day where it is not today."""
    if moment is None:
        return ""
    local, now = timezone.localtime(moment), timezone.localtime()
    text = numbers.format_moment(local, now, shows_today=False)
    return _time(moment, text, mode="exact")


def _time(moment: datetime, text: str, *, mode: str) -> SafeString:
    local = timezone.localtime(moment)
    return format_html(
        '<time datetime="{}" title="{}" data-show="{}">{}</time>',
        local.isoformat(timespec="seconds"),
        local.strftime("%Y-%m-%d %H:%M:%S %Z"),
        mode,
        text,
    )


@register.filter
def with_code(text: object) -> SafeString:
    """What a sentence has between backticks, a command mostly, as code."""
    said, *rest = _BACKTICKS.split(str(text or ""))
    pairs = zip(rest[::2], rest[1::2], strict=True)
    return format_html("{}{}", said, format_html_join("", "<code>{}</code>{}", pairs))


@register.filter
def first_sentence(text: object) -> str:
    """What a page says at once of several sentences; other_sentences has the rest."""
    return _SENTENCE_END.split(str(text or ""), maxsplit=1)[0]


@register.filter
def other_sentences(text: object) -> str:
    return "".join(_SENTENCE_END.split(str(text or ""), maxsplit=1)[1:])


@register.filter
def engine_title(key: str) -> str:
    """ "vllm" → "vLLM"; a key that no engine has any more stays as it is."""
    engine = ENGINES.get(key)
    return engine.title if engine else key


THROTTLE = {
    "gpu_idle": "idle",
    "applications_clocks": "clocks set by hand",
    "sw_power_cap": "power limit",
    "hw_slowdown": "hardware slowdown",
    "sync_boost": "sync boost",
    "sw_thermal": "temperature",
    "hw_thermal": "temperature (hardware)",
    "hw_power_brake": "power brake",
    "display_clocks": "display clocks",
    "board_limit": "board limit",
    "reliability": "voltage reliability",
}


@register.filter
def throttle_words(reasons: tuple[str, ...]) -> str:
    """Why a GPU does not run at its highest clock; "none" when it may."""
    return ", ".join(THROTTLE.get(reason, reason) for reason in reasons) or "none"


MEMORY = {
    "MemTotal": "Total",
    "MemAvailable": "Available",
    "MemFree": "Free",
    "Cached": "Page cache",
    "Shmem": "Shared (/dev/shm)",
    "SwapTotal": "Swap",
    "SwapFree": "Swap free",
}


@register.filter
def memory_word(line: str) -> str:
    """A line of /proc/meminfo in plain words."""
    return MEMORY.get(line, line)


# In the order of what they would give away.
LIMITS = {
    "privileged": "Privileged",
    "host_network": "The host's network",
    "host_ipc": "The host's IPC",
    "host_pid": "The host's processes",
    "open_ports": "Ports open to other machines",
    "cap_add": "Capabilities",
    "security_opt": "Security options",
    "devices": "Devices",
    "mount_roots": "Folders that may be mounted",
    "volumes": "Docker volumes",
    "pids_limit": "Processes and threads of a container",
    "reclaim": "Memory reclaimed (page cache, driver pools)",
    "token_realms": "Where registries may send for a token",
}


@register.filter
def limit_word(name: str) -> str:
    """A limit of box.toml in plain words; its own name where it has none here."""
    return LIMITS.get(name, name)


@register.filter
def limit_value(value: bool | int | list[str]) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value) if value else "any number"
    return ", ".join(value) or "none"


@register.filter
def signal_name(code: int) -> str:
    """ "SIGKILL" for exit code 137; "" for one that stands for no signal."""
    return next((each.name for each in signal.Signals if each == code - 128), "")


@register.filter
def plain(line: str) -> str:
    """A log line without a terminal's escape sequences; of a redrawn one, its last state."""
    return ANSI.sub("", line).rstrip("\r\n").rpartition("\r")[2]


@register.filter
def chat_body(model: str) -> str:
    """A question to this model as a word for the shell: a name may hold quotation marks."""
    return shlex.quote(
        json.dumps({"model": model, "messages": [{"role": "user", "content": "Hello"}]})
    )


@register.filter
def shell(words: list[str]) -> str:
    """A command as it is typed, one option a line."""
    lines: list[str] = []
    for word in words:
        if lines and not word.startswith("--"):
            lines[-1] += f" {shlex.quote(word)}"
        else:
            lines.append(shlex.quote(word))
    return " \\\n  ".join(lines)
