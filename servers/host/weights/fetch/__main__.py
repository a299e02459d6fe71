"""The child that downloads: a job on its first line of input, one JSON object a line of output."""

import json
import os
import sys
import threading
from collections.abc import Mapping
from typing import Any

from servers.host.weights.fetch.places import DownloadSpec, FetchError
from servers.host.weights.fetch.work import HubDownload

_speaking = threading.Lock()


def tell(said: Mapping[str, Any]) -> None:
    with _speaking:
        try:
            sys.stdout.write(json.dumps(said) + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            os._exit(1)  # nobody listens any more


def listen(work: HubDownload) -> None:
    """Until whoever has started this ends: then so does this, wherever it is."""
    for line in sys.stdin:
        work.limit(int(json.loads(line)["limit"]))
    os._exit(1)


def main() -> int:
    os.nice(5)  # engines on the same box come first
    try:
        work = HubDownload(DownloadSpec.from_json(json.loads(sys.stdin.readline())), tell)
        threading.Thread(target=listen, args=[work], daemon=True).start()
        work.run()
    except FetchError as error:
        tell({"t": "failed", "says": str(error), "advice": error.advice})
        return 1
    tell({"t": "done"})
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
