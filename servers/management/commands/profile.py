"""Read pasted launch commands: docker run, compose services, vllm, sglang, llama-server."""

import json
import shlex
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from servers.launch.commandline.paste import read
from servers.launch.commandline.tokens import LaunchCommand as LaunchCommand
from servers.launch.commandline.tokens import PasteError

_UNREADABLE = 2  # the exit code for a paste that cannot be read


class Command(BaseCommand):
    help = __doc__ or ""
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        importer = verbs.add_parser("import", help="read a paste and say what it would launch")
        form = importer.add_mutually_exclusive_group()
        form.add_argument(
            "--json", action="store_true", help="print an array, one object a command"
        )
        form.add_argument(
            "--jsonl",
            action="store_true",
            help='read {"id", "text"} lines and print one result a line',
        )
        importer.add_argument("file", nargs="?", default="-", help="- is standard input")

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["file"]
        try:
            text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
        except (OSError, UnicodeError) as error:
            self.stderr.write(f"{name} cannot be read: {error}")
            raise SystemExit(_UNREADABLE) from error
        if options["jsonl"]:
            self._lines(text)
            return
        try:
            commands = read(text)
        except PasteError as error:
            self.stderr.write(str(error))
            raise SystemExit(_UNREADABLE) from error
        if options["json"]:
            found = [command.to_json() for command in commands]
            self.stdout.write(json.dumps(found, ensure_ascii=False, indent=2))
        else:
            self.stdout.write("\n\n".join(_summary(command) for command in commands))

    def _lines(self, text: str) -> None:
        for number, line in enumerate(text.splitlines(), start=1):
            if not line.strip():
                continue
            try:
                paste = json.loads(line)
                identifier, pasted = paste["id"], paste["text"]
            except (ValueError, KeyError, TypeError) as error:
                self.stderr.write(f'Line {number} is not an object with "id" and "text".')
                raise SystemExit(_UNREADABLE) from error
            result: dict[str, Any] = {"id": identifier}
            try:
                result["commands"] = [command.to_json() for command in read(pasted)]
            except PasteError as error:
                result["error"] = str(error)
            self.stdout.write(json.dumps(result, ensure_ascii=False))


def _summary(command: LaunchCommand) -> str:
    """One line a field that says something, for a person."""
    rows = [f"{command.kind}: {command.engine or 'no engine that inferdash knows'}"]
    for name, value in command.to_json().items():
        if name in ("kind", "engine") or value in (None, [], {}, False):
            continue
        if isinstance(value, dict):
            text = " ".join(key if v is None else f"{key}={v}" for key, v in value.items())
        elif isinstance(value, list):
            text = shlex.join(value) if name == "command" else ", ".join(value)
        else:
            text = str(value)
        rows.append(f"  {name}: {text}")
    return "\n".join(rows)
