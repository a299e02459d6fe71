"""The notation of flags and numbers in a profile's YAML."""

import re
from collections.abc import Iterable

from servers.launch import durations
from servers.launch.engines import flagtext
from servers.launch.engines.launch import LaunchField

LONGEST_ALIAS, MOST_ALIASES = 200, 20
LONGEST_HOLD = 3600  # seconds
SHORTEST = 60  # seconds, for what is looked at every few minutes
MOST_LOG_TEXTS, LONGEST_LOG_TEXT = 20, 200
_SHA256 = re.compile(r"[0-9a-f]{64}")
_PATH = re.compile(r"/[!-~]{0,199}")  # printable ASCII without blanks


def flags(text: str) -> tuple[str, ...]:
    """Raises ValueError for a quotation mark that is never closed."""
    return flagtext.flags(text).words


def flags_text(words: tuple[str, ...]) -> str:
    """One flag with its values a line; `flags` reads it back."""
    return flagtext.flags_text(words, {})


def number(text: str) -> int:
    """Raises ValueError for what is not a whole number."""
    if not re.fullmatch(r"-?[0-9]{1,18}", text.strip()):
        raise ValueError(f"“{text}” is not a whole number.")
    return int(text)


def path(text: str) -> str:
    """A path of an engine's HTTP server; empty stays. Raises ValueError."""
    cleaned = text.strip()
    if cleaned and not _PATH.fullmatch(cleaned):
        raise ValueError(f"“{text[:60]}” is not a path, such as /health.")
    return cleaned


def choice(of: LaunchField, text: str) -> str:
    """One of the field's choices; "" by any other of its words. Raises ValueError."""
    cleaned = text.strip().lower()
    if cleaned and cleaned not in of.words:
        raise ValueError(f"“{text[:60]}” is none of {', '.join(of.words[: len(of.choices)])}.")
    return cleaned if cleaned in dict(of.choices) else ""


def minutes(text: str) -> int:
    """Seconds of 5m or 1h30m, at least a minute; 0 of an empty text. Raises ValueError."""
    seconds = durations.read(text)
    if 0 < seconds < SHORTEST:
        raise ValueError(f"“{text[:40]}” is shorter than a minute.")
    return seconds


def aliases(names: Iterable[str]) -> tuple[str, ...]:
    """Names by which programs ask for a model. Raises ValueError."""
    found = tuple(dict.fromkeys(name.strip() for name in names if name.strip()))
    for name in found:
        if len(name) > LONGEST_ALIAS or not name.isprintable() or " " in name:
            raise ValueError(
                f"“{name[:40]}” is no name for a model: up to {LONGEST_ALIAS} characters without "
                "spaces."
            )
    if len(found) > MOST_ALIASES:
        raise ValueError(f"A profile has at most {MOST_ALIASES} other names.")
    return found


def parse_hold(text: str) -> int:
    """Seconds of 5m or 90s for which a request is held, an hour at most. Raises ValueError."""
    seconds = durations.read(text)
    if seconds > LONGEST_HOLD:
        raise ValueError(f"“{text[:40]}” is longer than an hour; no program waits for so long.")
    return seconds


def log_texts(texts: Iterable[str]) -> tuple[str, ...]:
    """Plain texts to look for in the lines of a log. Raises ValueError."""
    found = tuple(dict.fromkeys(text.strip() for text in texts if text.strip()))
    for text in found:
        if len(text) > LONGEST_LOG_TEXT or not text.isprintable():
            begin = "".join(each if each.isprintable() else "�" for each in text[:60])
            raise ValueError(
                f"“{begin}” is not a text of one line with at most {LONGEST_LOG_TEXT} characters."
            )
    if len(found) > MOST_LOG_TEXTS:
        raise ValueError(f"These are {len(found)} texts; {MOST_LOG_TEXTS} are looked for at most.")
    return found


def digest(path: str, text: str) -> str:
    """The SHA-256 of a file that stands at a path in the container. Raises ValueError."""
    found = text.strip().lower().removeprefix("sha256:")
    if not _SHA256.fullmatch(found):
        raise ValueError(f"“{text[:70]}” is not a SHA-256, as sha256sum prints it.")
    if not path.startswith("/") or ".." in path.split("/") or not path.isprintable():
        raise ValueError(
            f"“{path[:70]}” is not a path in the container, such as /templates/a.jinja."
        )
    return found


def yes_or_no(text: str) -> bool:
    """Raises ValueError for anything but true and false."""
    if text.strip().lower() not in ("true", "false"):
        raise ValueError(f"“{text}” is neither true nor false.")
    return text.strip().lower() == "true"
