"""How long pages take on the server when a team has filled it, and how many queries."""

import http.client
import json
import time
from collections.abc import Iterator

from tests.bench.result import BenchResult, percentile, progress
from tests.web_stack import WebStack, web_stack

LITTLE = {"servers": 5, "profiles": 30, "runs": 500}
FULL = {"servers": 50, "profiles": 300, "runs": 5000}
PAGES = {
    "dashboard": "/",
    "profiles": "/profiles/",
    "a server": "/servers/model-00/",
    "a profile": "/profiles/model-00/",
    "a box": "/boxes/rtx8/",
    "activity": "/activity/",
}
REQUESTS = 100
LIMIT = 80.0


def bench() -> Iterator[BenchResult]:
    with web_stack() as web:
        little = _queries(web, LITTLE)
        full = _queries(web, FULL)
        cookie = web.cookie("ada")
        for name, path in PAGES.items():
            web.run("from tests.bench import rows\nrows.tell_sample()")
            took = times(web, path, f"{cookie['name']}={cookie['value']}")
            p50, p95 = (percentile(took, percent) for percent in (50, 95))
            progress(f"{name}: p50 {p50:.1f} ms, p95 {p95:.1f} ms, {full[path]} queries")
            yield BenchResult(name=f"pages: {name}, p95", value=p95, unit="ms", limit=LIMIT)
        # The limit is what the same pages take with a tenth of the rows.
        for name, path in PAGES.items():
            yield BenchResult(
                name=f"pages: {name}, with ten times the rows",
                value=full[path],
                unit="queries",
                limit=little[path],
            )


def _queries(web: WebStack, rows: dict[str, int]) -> dict[str, int]:
    said = web.run(
        f"import json\nfrom tests.bench import rows\nrows.fill(**{rows!r})\n"
        f"print(json.dumps(rows.count_queries({list(PAGES.values())!r})))"
    )
    counts: dict[str, int] = json.loads(said)
    return counts


def times(web: WebStack, path: str, cookie: str) -> list[float]:
    """Milliseconds from the request to the whole answer, over the loopback."""
    connection = http.client.HTTPConnection("127.0.0.1", int(web.env["PORT"]), timeout=60)
    took = []
    for _request in range(10 + REQUESTS):
        began = time.perf_counter()
        connection.request("GET", path, headers={"Cookie": cookie})
        answer = connection.getresponse()
        answer.read()
        took.append((time.perf_counter() - began) * 1000)
        assert answer.status == 200, (path, answer.status)
    connection.close()
    return took[10:]
