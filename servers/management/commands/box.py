"""Record what this box's collector sees, and judge a recording's memory or hardware again."""

import gzip
import json
import os
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from django.conf import settings
from django.core.management.base import BaseCommand

from servers.host.collector.parent import Collector
from servers.judge.memory.hardware.finding import HardwareFinding
from servers.judge.memory.hardware.judge import HardwareJudge
from servers.judge.memory.pools import GIB
from servers.judge.memory.verdicts import Judge, MemoryVerdict
from servers.judge.reports.memory import find_recording_fault
from servers.models import Box
from servers.watcher.memory import monitor

_UNREADABLE = 2
_GZIP = b"\x1f\x8b"


class Command(BaseCommand):
    help = __doc__ or ""
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        record = verbs.add_parser("record", help="print a JSON object a second")
        record.add_argument("--seconds", type=float, default=60, metavar="N")
        replay = verbs.add_parser("replay", help="judge a recording, step by step")
        replay.add_argument("file", help="- is standard input")
        replay.add_argument("--json", action="store_true", help="a line a GPU a step")
        replay.add_argument(
            "--hardware",
            action="store_true",
            help="its hardware instead of its memory; as JSON a line a step",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._do(options)
        except BrokenPipeError:  # | head has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def _do(self, options: dict[str, Any]) -> None:
        if options["verb"] == "record":
            self._record(options["seconds"])
        elif options["hardware"]:
            self._replay_hardware(options["file"], as_json=options["json"])
        else:
            self._replay(options["file"], as_json=options["json"])

    def _record(self, seconds: float) -> None:
        box = Box.objects.filter(slug=settings.BOX).first() or Box(slug=settings.BOX)
        until = time.monotonic() + seconds
        with Collector(root=settings.KERNEL_ROOT) as collector:
            while (left := until - time.monotonic()) > 0:
                sample = collector.next_sample(timeout=left)
                if sample is not None:
                    self.stdout.write(json.dumps(monitor.complete_snapshot(sample, box)))
                    self.stdout.flush()

    def _replay(self, name: str, *, as_json: bool) -> None:
        judge = Judge(settings.MEMORY_THRESHOLDS)
        before: dict[str, str] = {}
        for snapshot in self._snapshots(name):
            for verdict in judge.step(snapshot):
                if as_json:
                    self.stdout.write(json.dumps(verdict.to_json()))
                elif before.get(verdict.gpu) != verdict.verdict:
                    before[verdict.gpu] = verdict.verdict
                    self.stdout.write(_format_verdict(verdict))

    def _replay_hardware(self, name: str, *, as_json: bool) -> None:
        judge = HardwareJudge()
        before: dict[tuple[str, str], HardwareFinding] = {}
        for snapshot in self._snapshots(name):
            found = {each.key: each for each in judge.step(snapshot)}
            if as_json:
                findings = [each.to_json() for each in found.values()]
                self.stdout.write(json.dumps({"t": snapshot["t"], "findings": findings}))
                continue
            when = _when(snapshot["t"])
            for key in before.keys() - found.keys():
                self.stdout.write(f"{when} over: {before[key].title}")
            for key, each in found.items():
                if key not in before or before[key].severity != each.severity:
                    said = f"{each.title}. {each.because} {each.advice}"
                    self.stdout.write(f"{when} {each.severity}: {said}")
            before = found

    def _snapshots(self, name: str) -> Iterator[dict[str, Any]]:
        number = 0
        try:
            with _open(name) as lines:
                for number, line in enumerate(lines, start=1):
                    where = f"{name}, line {number}"
                    if not line.strip():
                        continue
                    try:
                        read = _read(line, where)
                    except _NotJsonError:
                        if line.endswith("\n"):
                            raise
                        # Whoever recorded was ended while it wrote this line.
                        self.stderr.write(f"{where}, the last, is cut off, and left out.")
                        return
                    yield read
        except (OSError, EOFError, UnicodeError, ValueError) as error:
            self.stderr.write(f"{name} cannot be read: {error}")
            raise SystemExit(_UNREADABLE) from error
        if not number:
            self.stderr.write(f"{name} cannot be read: it has no line. Record one: box record")
            raise SystemExit(_UNREADABLE)


class _NotJsonError(ValueError):
    pass


def _open(name: str) -> TextIO:
    if name == "-":
        return sys.stdin
    with Path(name).open("rb") as file:
        is_zipped = file.read(2) == _GZIP
    if is_zipped:
        return gzip.open(name, "rt", encoding="utf-8")
    return Path(name).open(encoding="utf-8")


def _read(line: str, where: str) -> dict[str, Any]:
    """Raises ValueError."""
    try:
        read = json.loads(line, parse_constant=_parse_wait)
    except (ValueError, RecursionError) as error:
        raise _NotJsonError(f"{where} is not JSON: {error}") from error
    if found := find_recording_fault(read):
        raise ValueError(f"{where} {found}: is it a line of “manage.py box record”?")
    known: dict[str, Any] = read
    return known


def _parse_wait(word: str) -> float:
    raise ValueError(f"{word} is no number")


def _format_verdict(verdict: MemoryVerdict) -> str:
    size = f"{verdict.unattributed / GIB:.1f} GiB"
    return f"{_when(verdict.t)} {verdict.gpu} {verdict.verdict} ({size}) {verdict.reason} {verdict.advice}"


def _when(t: float) -> str:
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(t))}Z"
