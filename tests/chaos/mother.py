"""Forks workers and watchers: real processes, without the seconds that each takes to import.

Reads a word a line, "worker" or "watcher", and answers with the new process's id. She serves one
test after another, all in the data folder of her environment.
"""

import ctypes
import os
import signal
import sys
from pathlib import Path

import django
from django.conf import settings
from django.core.management import call_command

PR_SET_PDEATHSIG = 1
WORKER = (
    *("--quiet", "worker", "-Q", "box.rtx8", "--pool", "threads", "--concurrency", "4"),
    *("--loglevel", "INFO", "--without-gossip", "--without-mingle", "--without-heartbeat"),
)


def main() -> None:
    django.setup()
    # What they would import anyway.
    import celery.apps.worker  # noqa: F401

    import servers.management.commands.watch  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the dead are gone at once
    for line in sys.stdin:
        if child := os.fork():
            print(child, flush=True)
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        # They end with her, and she with the tests, however those end.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        # Her pipes end with her, and what they say is the test's.
        log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(0)
        os.open(os.devnull, os.O_RDONLY)
        # Each test is another installation.
        settings.INSTALL = Path(settings.DATA, "install.id").read_text()
        if line.strip() == "worker":
            from inferdash.celery import app

            app.worker_main([*WORKER])
        else:
            call_command("watch")
        os._exit(0)


if __name__ == "__main__":
    main()
