"""Questions to engines, one a run at a time: whoever hangs makes nobody else wait."""

import queue
import threading
import time
from collections.abc import Callable, Iterator

from servers.watcher.error_isolation import ErrorIsolation


class Questions[Answer]:
    """Asks in threads of its own, of which there is one a run at most."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._open: set[int] = set()
        self._answers: queue.Queue[tuple[int, Answer | BaseException]] = queue.Queue()

    def is_open(self, run_id: int) -> bool:
        return run_id in self._open

    def ask(self, run_id: int, question: Callable[[], Answer]) -> bool:
        """Begin to ask; False when the run still owes the answer to an earlier question."""
        if run_id in self._open:
            return False
        self._open.add(run_id)
        # A daemon: an engine that says nothing must not keep the watcher from its end.
        thread = threading.Thread(
            target=self._wait, args=[run_id, question], name=f"{self._name}-{run_id}", daemon=True
        )
        thread.start()
        return True

    def answers(self, *, until: float) -> Iterator[tuple[int, Answer]]:
        """Answers in the order in which they come, those of earlier rounds too.

        Ends when none is owed, or at this moment of time.monotonic(). Raises what questions have
        raised, after the others' answers.
        """
        with ErrorIsolation() as apart:
            while self._open:
                try:
                    run_id, answer = self._answers.get(timeout=max(0.0, until - time.monotonic()))
                except queue.Empty:
                    return
                self._open.discard(run_id)
                if not isinstance(answer, BaseException):
                    yield run_id, answer
                    continue
                with apart.each(f"run {run_id}"):
                    raise answer

    def _wait(self, run_id: int, question: Callable[[], Answer]) -> None:
        try:
            self._answers.put((run_id, question()))
        except BaseException as error:  # whoever collects the answers raises it
            self._answers.put((run_id, error))
