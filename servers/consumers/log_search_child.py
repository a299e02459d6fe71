"""A log search in a process of its own, which can be killed when its pattern takes too long.

Python's `re` cannot be interrupted from another thread and holds everything else up, so that no
person's pattern is run in the web process. Standard input is the query as a line of JSON, then
for every block a line "<first> <size>" and its compressed bytes. Standard output is JSON, a line
each: {"numbers", "total", "looked"} as they are found, {"error"} where it cannot go on, and
{"done": true}. A query with "outline" is for what stands beside the log instead of for hits:
{"errors", "warnings": line numbers, "ranks", "found": [[number, which of "known"]], "figures": as Meter.to_json(), "done": true}. Knows nothing of Django: it starts in a few hundredths of a second.
"""

import json
import os
import resource
import signal
import sys
import time
import zlib
from types import FrameType
from typing import Any, BinaryIO, cast

from servers.judge.logs import parsing
from servers.judge.logs.metrics import Meter, MetricRule
from servers.judge.logs.parsing import Level
from servers.judge.logs.scan import Known, LogOutline, PatternError, Query, Scan

TELL_EVERY = 0.1  # seconds
# Processor seconds: for a pattern or one block of lines, and for all of it.
LONGEST_STEP, LONGEST = 2.0, 60.0
MOST_MEMORY = 1024**3

TOO_SLOW = (
    "This pattern takes too long, near line {line:,}. Make it simpler: repetitions inside "
    "repetitions, such as (a+)+, are what costs."
)
TOO_MUCH = "The search was ended after a minute of work. Make it more particular."


class SearchTooSlowError(Exception):
    pass


def main() -> None:
    os.nice(5)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (int(LONGEST) + 5, int(LONGEST) + 10))
    signal.signal(signal.SIGVTALRM, _too_slow)
    source = sys.stdin.buffer
    wish = json.loads(source.readline())
    teller = SearchReporter(most=wish["most"])
    try:
        if wish.get("outline"):
            _outline(source, wish)
        else:
            _search(source, wish, teller)
    except PatternError as error:
        teller.fail(str(error))
    except SearchTooSlowError:
        teller.fail(TOO_SLOW.format(line=teller.at))
    except (MemoryError, RecursionError):
        teller.fail("This pattern takes too much memory. Make it simpler.")
    except BrokenPipeError:
        os._exit(0)  # nobody listens any more


def _search(source: BinaryIO, wish: dict[str, object], teller: "SearchReporter") -> None:
    after, upto = int(str(wish["after"])), int(str(wish["upto"]))
    _allow()
    scan = Scan(query_of(wish))
    while header := source.readline():
        first, size = map(int, header.split())
        block = zlib.decompress(source.read(size)).decode()
        teller.at = first
        _allow()
        for number in scan.numbers(first, block):
            if after < number <= upto:
                teller.report_line(number)
        teller.looked += block.count("\n") + 1
        teller.tell()
        if time.process_time() > LONGEST:
            return teller.fail(TOO_MUCH)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return teller.finish()


def _outline(source: BinaryIO, wish: dict[str, object]) -> None:
    after, upto = int(str(wish["after"])), int(str(wish["upto"]))
    outline = LogOutline(after=after, upto=upto, known=cast("list[Known]", wish["known"]))
    meter = Meter(
        [MetricRule.from_json(each) for each in cast("list[dict[str, Any]]", wish["meters"])]
    )
    while header := source.readline():
        first, size = map(int, header.split())
        block = parsing.plain(zlib.decompress(source.read(size)).decode())
        outline.add(first, block)
        meter.add(first, block, after=after, upto=upto)
    said: dict[str, object] = {"errors": outline.errors, "warnings": outline.warnings}
    said |= {"ranks": outline.ranks, "found": outline.found, "figures": meter.to_json()}
    sys.stdout.write(json.dumps({**said, "done": True}) + "\n")
    sys.stdout.flush()


def query_of(wish: dict[str, object]) -> Query:
    """What a browser asks for."""
    return Query(
        text=str(wish.get("text", "")),
        is_pattern=bool(wish.get("regex")),
        is_exact=bool(wish.get("case")),
        level=Level[str(wish.get("level") or "info").upper()],
        worst=Level[str(wish.get("worst") or "error").upper()],
        rank=str(wish.get("rank", "")),
    )


def _allow() -> None:
    signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_STEP)


def _too_slow(_signal: int, _frame: FrameType | None) -> None:
    raise SearchTooSlowError


class SearchReporter:
    def __init__(self, *, most: int) -> None:
        self.at = 0
        self.looked = 0
        self._most = most
        self._total = 0
        self._numbers: list[int] = []
        self._kept = 0
        self._told_at = 0.0

    def report_line(self, number: int) -> None:
        self._total += 1
        if self._kept < self._most:
            self._kept += 1
            self._numbers.append(number)

    def tell(self) -> None:
        """The first hits at once, then every now and then."""
        now = time.monotonic()
        is_first = bool(self._numbers) and self._kept == len(self._numbers)
        if is_first or now - self._told_at > TELL_EVERY:
            self._told_at = now
            self._say()

    def finish(self) -> None:
        self._say(done=True)

    def fail(self, error: str) -> None:
        self._say(done=True, error=error)

    def _say(self, **more: object) -> None:
        numbers, self._numbers = sorted(self._numbers), []
        said = {"numbers": numbers, "total": self._total, "looked": self.looked, **more}
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
