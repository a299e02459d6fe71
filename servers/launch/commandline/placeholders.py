"""Placeholders of guides in a draft: <TAG>, {{MODEL}}, YOUR_IMAGE, /path/to/models."""

import re
from collections.abc import Iterable, Iterator

from servers.launch.engines.launch import Launch

_BRACKETS = re.compile(r"<[A-Za-z][\w .:/-]{0,40}>|\{\{ ?[\w.-]{1,40} ?\}\}")
_WORDS = re.compile(
    r"(?<![\w<{-])(?:YOUR[-_][A-Z0-9_]{1,40}|your[-_][a-z0-9_-]{1,40})|/path/to/[\w./-]*"
)
_SHOWN = 60  # characters of a path
# What models write themselves, and a flag may therefore hold.
_TAGS = ("<think>", "<s>", "<pad>", "<unk>", "<bos>", "<eos>", "<image>", "<video>", "<audio>")


def list_placeholders(launch: Launch, name: str) -> list[str]:
    """Each once, in the order of the profile's fields; `name` is the profile's.

    A flag counts where it is one, or a path with one: JSON and templates have brackets of their own.
    """
    found = [
        each
        for text in (launch.image, name, launch.checkpoint, launch.served_name, *launch.volumes)
        for each in _list_in(text)
    ]
    for value in (*launch.flags, *launch.env.values()):
        plain = value.partition("=")[2] if value.startswith("-") else value
        if _BRACKETS.fullmatch(plain) or _WORDS.match(plain) or _is_path(plain):
            found += _list_in(plain)
    return list(dict.fromkeys(each[:_SHOWN] for each in found if each not in _TAGS))


def _list_in(text: str) -> Iterator[str]:
    return _read(_BRACKETS.finditer(text), _WORDS.finditer(text))


def _read(*matches: Iterable[re.Match[str]]) -> Iterator[str]:
    return (found[0] for each in matches for found in each)


def _is_path(text: str) -> bool:
    return text.startswith(("/", "~", "./", "<")) and not text.startswith("<|")
