"""Record what this box's collector sees, and judge a recording's memory or hardware again."""

import json
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from servers.host.collector import Collector
from servers.judge.hardware import Finding, Hardware
from servers.judge.memory import Judge, Verdict
from servers.judge.pools import GIB
from servers.models import Box
from servers.watcher import snapshots

_UNREADABLE = 2
# A collector that got no answer has null for what it asked; only the time is always there.
_FORM: dict[str, tuple[type, ...]] = {
    "t": (int, float),
    "gpus": (list, type(None)),
    "meminfo": (dict, type(None)),
}


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
                    self.stdout.write(json.dumps(snapshots.complete(sample, box)))
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
                    self.stdout.write(_told(verdict))

    def _replay_hardware(self, name: str, *, as_json: bool) -> None:
        judge = Hardware()
        before: dict[tuple[str, str], Finding] = {}
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
        try:
            with sys.stdin if name == "-" else Path(name).open(encoding="utf-8") as lines:
                for number, line in enumerate(lines, start=1):
                    if line.strip():
                        yield _read(line, f"{name}, line {number}")
        except (OSError, UnicodeError, ValueError) as error:
            self.stderr.write(f"{name} cannot be read: {error}")
            raise SystemExit(_UNREADABLE) from error


def _read(line: str, where: str) -> dict[str, Any]:
    """Raises ValueError."""
    try:
        read = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{where} is not JSON: {error}") from error
    if not isinstance(read, dict):
        raise ValueError(f"{where} is not a JSON object.")
    for key, kind in _FORM.items():
        if not isinstance(read.get(key, ...), kind):
            raise ValueError(f"{where} has no “{key}”: is it a line of `box record`?")
    return read


def _told(verdict: Verdict) -> str:
    size = f"{verdict.unattributed / GIB:.1f} GiB"
    return f"{_when(verdict.t)} {verdict.gpu} {verdict.verdict} ({size}) {verdict.reason} {verdict.advice}"


def _when(t: float) -> str:
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(t))}Z"
