"""A chat with a server through the gateway: one question, or one after the other."""

from __future__ import annotations

import sys
from argparse import Namespace
from contextlib import suppress
from typing import Any

from inferdash.terminal import config, show
from inferdash.terminal.answer import SPEAKS, THINKS, ChatAnswer
from inferdash.terminal.api import (
    FORBIDDEN,
    INTERRUPTED,
    UNREACHABLE,
    USAGE,
    Api,
    TerminalError,
)

_ASIDE = 2  # dim
_HELP = "Ctrl-C stops an answer, /new forgets what was said, /quit or Ctrl-D ends."


def chat(args: Namespace) -> int:
    text = _read_question(args)
    api = config.api()
    said: list[dict[str, str]] = []
    if args.system:
        said.append({"role": "system", "content": args.system})
    if text is None:
        return _talk(api, args, said)
    said.append({"role": "user", "content": text})
    if args.json:
        return show.write_json(api.whole_chat(_body(args, said)))
    _answered, is_stopped = _ask(api, args, said)
    return INTERRUPTED if is_stopped else 0


def _read_question(args: Namespace) -> str | None:
    """The one question, or None where somebody is going to type them."""
    words = " ".join(args.text)
    is_tty = sys.stdin.isatty()
    if words == "-" or (not words and not is_tty):
        words = sys.stdin.read()
    elif not words and is_tty:
        if args.json:
            raise TerminalError(
                "--json is for one question.", "Write it behind the server.", code=USAGE
            )
        return None
    if not words.strip():
        raise TerminalError("The question is empty.", "Write it behind the server.", code=USAGE)
    return words


def _talk(api: Api, args: Namespace, said: list[dict[str, str]]) -> int:
    with suppress(ImportError):
        import readline  # noqa: F401, PLC0415 - input() edits lines by it where Python has it
    name = args.server or "chat"
    kept = len(said)
    _aside(f"{_HELP}\n")
    while True:
        try:
            line = input(f"{name}> ").strip()
        except EOFError:
            sys.stdout.write("\n")
            return 0
        except KeyboardInterrupt:
            sys.stdout.write("\n")
            continue
        if line in ("/quit", "/exit"):
            return 0
        if line in ("/new", "/help"):
            if line == "/new":
                del said[kept:]
            _aside(f"{'Forgotten.' if line == '/new' else _HELP}\n")
            continue
        if line:
            _one_turn(api, args, said, line)


def _one_turn(api: Api, args: Namespace, said: list[dict[str, str]], line: str) -> None:
    """What failed is told, and no part of what is said next."""
    said.append({"role": "user", "content": line})
    try:
        answered, _is_stopped = _ask(api, args, said)
    except TerminalError as problem:
        said.pop()
        if problem.code in (FORBIDDEN, UNREACHABLE):
            raise
        show.aside(f"{problem}\n{problem.advice}\n" if problem.advice else f"{problem}\n")
        return
    if answered.text:
        said.append({"role": "assistant", "content": answered.text})
    else:
        said.pop()


def _ask(api: Api, args: Namespace, said: list[dict[str, str]]) -> tuple[ChatAnswer, bool]:
    """What came, and whether Ctrl-C has stopped it."""
    answered, is_stopped = ChatAnswer(), False
    writing = _Writing(shows_reasoning=not args.no_reasoning)
    try:
        with api.chat({**_body(args, said), "stream": True}) as response:
            for kind, text in answered.pieces(response):
                writing.write(kind, text)
    except KeyboardInterrupt:
        is_stopped = True
    finally:
        writing.end()
    figures = answered.figures
    if is_stopped:
        figures = ", ".join(each for each in ("stopped", figures) if each)
    if figures and sys.stderr.isatty():
        sys.stderr.write(show.tint(show.readable(figures), _ASIDE, sys.stderr) + "\n")
    return answered, is_stopped


def _body(args: Namespace, said: list[dict[str, str]]) -> dict[str, Any]:
    body: dict[str, Any] = {"messages": said}
    if args.server:
        body["model"] = args.server
    if args.temperature is not None:
        body["temperature"] = args.temperature
    if args.max_tokens is not None:
        body["max_tokens"] = args.max_tokens
    if not args.json:
        body["stream_options"] = {"include_usage": True}
    return body


class _Writing:
    """The pieces on standard output: reasoning dimmed for people, and not at all for programs."""

    def __init__(self, *, shows_reasoning: bool) -> None:
        self._shows = shows_reasoning and sys.stdout.isatty()
        self._kind = ""
        self._ends_line = True

    def write(self, kind: str, text: str) -> None:
        if kind == THINKS and not self._shows:
            return
        if sys.stdout.isatty():
            # What a model says must not move the cursor, or name the window.
            text = show.strip_controls(text)
        if kind == SPEAKS and self._kind == THINKS:
            sys.stdout.write("\n" if self._ends_line else "\n\n")
        self._kind = kind
        self._ends_line = text.endswith("\n")
        sys.stdout.write(show.tint(text, _ASIDE) if kind == THINKS else text)
        sys.stdout.flush()

    def end(self) -> None:
        if self._kind and not self._ends_line:
            sys.stdout.write("\n")
        sys.stdout.flush()


def _aside(text: str) -> None:
    sys.stdout.write(show.tint(text, _ASIDE))
