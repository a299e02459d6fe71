"""`make bench`: every bench, or those that are named (`python -m tests.bench idle pages`).

Standard output carries one JSON object a line: name, value, unit, limit, ok. All else is said on
standard error. A missed limit is a finding, told by "ok": false and by the summary; the exit
code is 1 only when a bench itself breaks, because then figures are missing.
"""

import os
import sys
import traceback
from collections.abc import Callable, Iterator

from tests.bench import (
    boxes,
    chat,
    collector,
    crowd,
    figures,
    follow,
    gateway,
    generator,
    history,
    idle,
    interaction,
    links,
    litellm,
    log,
    pages,
    phases,
    search,
    start,
    up,
)
from tests.bench.result import BenchResult

BENCHES: dict[str, Callable[[], Iterator[BenchResult]]] = {
    "collector": collector.bench,
    "history": history.bench,
    "figures": figures.bench,
    "idle": idle.bench,
    "pages": pages.bench,
    "interaction": interaction.bench,
    "up": up.bench,
    "start": start.bench,
    "chat": chat.bench,
    "gateway": gateway.bench,
    "litellm": litellm.bench,
    "links": links.bench,
    "boxes": boxes.bench,
    "log": log.bench,
    "follow": follow.bench,
    "search": search.bench,
    "phases": phases.bench,
    "generator": generator.bench,
    "crowd": crowd.bench,
}


def main(names: list[str]) -> int:
    if unknown := [name for name in names if name not in BENCHES]:
        _say(f"There is no bench {', '.join(unknown)}; there are {', '.join(BENCHES)}.")
        return 2
    _say_how_busy()
    results: list[BenchResult] = []
    broken: list[str] = []
    for name in names or BENCHES:
        _say(f"{name} …")
        try:
            for result in BENCHES[name]():
                print(result.line(), flush=True)
                results.append(result)
        except Exception:
            traceback.print_exc()
            broken.append(name)
    _summarise(results, broken)
    return 1 if broken else 0


def _say_how_busy() -> None:
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > 0.5 * cores:
        _say(f"This machine is busy (load {load:.1f} on {cores} cores): expect worse figures.")


def _summarise(results: list[BenchResult], broken: list[str]) -> None:
    missed = [result for result in results if not result.ok]
    _say(f"{len(results) - len(missed)} of {len(results)} figures are within their limits.")
    for result in missed:
        least = "at least " if result.is_floor else ""
        _say(f"MISSED  {result.name}: {result.value:.3g}, {least}{result.limit:g} {result.unit}")
    for name in broken:
        _say(f"BROKEN  {name}: its figures are missing, the traceback above says why")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
