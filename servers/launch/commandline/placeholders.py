"""Placeholders of a paste: variables without a value, and words that stand for one."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from servers.launch.commandline import budget
from servers.launch.commandline.command import LaunchCommand

# $NAME, ${NAME}, and ${NAME:?why it is needed}.
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::?\?[^{}]*)?\}|(\w+))")
# What guides write where a token belongs: <secret>, your_token_here, hf_xxxx, hf_..., ***.
_STANDS_FOR = re.compile(
    r"<[^<>]*>|\{\{.*\}\}|\[[^\[\]]*\]|(?:hf_|sk-|nvapi-)?(?:[xX]{3,}|\*{2,}|\.{2,}|…)"
    r"|(?:hf_|sk-)?(?:your|insert|paste|put|replace|enter)[-_ ].*",
    re.IGNORECASE,
)
# Where a paste may have a variable.
_FILLED = (
    "image", "entrypoint", "command", "env", "volumes", "ports", "shm_size", "ulimits", "gpus",
    "devices", "cpuset", "user", "workdir", "name",
)  # fmt: skip


def fill(command: LaunchCommand, values: Mapping[str, str]) -> LaunchCommand:
    """The command with these variables replaced; a variable without a value stays.

    Raises PasteError where that makes more of it than any command is.
    """

    def put(found: re.Match[str]) -> str:
        text = values.get(found[1] or found[2]) or found[0]
        budget.write(len(text))
        return text

    def fill_in(value: Any) -> Any:
        if isinstance(value, str):
            return _VARIABLE.sub(put, value)
        if isinstance(value, tuple):
            return tuple(fill_in(each) for each in value)
        if isinstance(value, dict):
            return {
                name: values.get(name) or None if each is None else fill_in(each)
                for name, each in value.items()
            }
        return value

    left = tuple(name for name in command.unresolved if not values.get(name))
    with budget.limit_paste():
        parts = {part: fill_in(getattr(command, part)) for part in _FILLED}
    return replace(command, **parts, unresolved=left)


def is_open(value: str | None) -> bool:
    """Whether this is no value yet: None, a variable that nobody has set, <your token>."""
    return value is None or _VARIABLE.fullmatch(value) is not None


def is_secret_open(value: str | None) -> bool:
    """The same of a secret, which is never empty, and which guides write as a word for it."""
    return not value or is_open(value) or _STANDS_FOR.fullmatch(value) is not None
