"""The start of a box's inferdash once its hub has brought it up: of the release that it was brought to, or back.

Run as a file, `python -I trial.py STATE`, and made of the standard library alone: it must go on
where the release that it starts does not. A release is tried until it says that it is well; one
that ends before, or says nothing in time, gives way to the one before it.
"""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

# How a supervisor ends that wants to be started again, as another release.
AGAIN = 75
# Names the state to the programs below, which so know that somebody starts them again.
VARIABLE = "INFERDASH_RELEASES"
PATIENCE = 300.0  # seconds for a new release, with the hub reachable
_LOOK_EVERY = 0.25
_GRACE = 30.0  # seconds, more than a supervisor gives its programs
_CHILD = Path(__file__).resolve().parents[1] / "up" / "child.py"


@dataclass(frozen=True, kw_only=True)
class PlacedRelease:
    """Where a release lies, and its Python."""

    root: str
    python: str


@dataclass(frozen=True, kw_only=True)
class ReleaseState:
    """What a box runs, beside what make up or make install has put there."""

    # The folder of that, and what it held then: with other contents it counts again.
    base: PlacedRelease
    base_name: str
    current: PlacedRelease
    previous: PlacedRelease | None = None
    trial: PlacedRelease | None = None
    upgrade: int = 0  # the row of the trial, or of what has failed
    began: float = 0.0  # unix seconds: when it was started
    within: float = PATIENCE
    failed: str = ""  # why the last trial came to nothing; until the hub was told

    @classmethod
    def read(cls, path: Path) -> "ReleaseState | None":
        """None where the hub has brought up nothing."""
        try:
            found = json.loads(path.read_text())
        except (OSError, ValueError):
            return None
        for name in ("base", "current", "previous", "trial"):
            if found.get(name) is not None:
                found[name] = PlacedRelease(**found[name])
        return cls(**found)

    def write(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}")
        draft.write_text(json.dumps(asdict(self), indent=2) + "\n")
        draft.replace(path)

    def change(self, **values: object) -> "ReleaseState":
        return ReleaseState(**{name: getattr(self, name) for name in asdict(self)} | values)


class ReleaseLauncher:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._child: subprocess.Popen[bytes] | None = None
        self._is_stopping = False

    def run(self) -> int:
        """Until the release ends for good; its exit code."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._pass_on)
        while True:
            if (state := ReleaseState.read(self._path)) is None:
                _say(f"{self._path} is gone, so that nobody knows which release to start")
                return 1
            code = self._try(state) if state.trial is not None else self._keep(state.current)
            if self._is_stopping or code not in (AGAIN, None):
                return code or 0

    def _keep(self, release: PlacedRelease) -> int:
        self._child = self._start(release)
        return self._child.wait()

    def _try(self, state: ReleaseState) -> int | None:
        """None: it has given way to the one before."""
        assert state.trial is not None
        began = time.time()
        state.change(began=began).write(self._path)
        try:
            self._child = child = self._start(state.trial)
        except OSError as error:
            self._give_way(f"It could not be started: {error}.")
            return None
        _say(f"trying {Path(state.trial.root).name}")
        deadline = time.monotonic() + state.within
        while (code := child.poll()) is None:
            if self._is_well():
                _say(f"{Path(state.trial.root).name} is well")
                return child.wait()
            if time.monotonic() > deadline and not self._is_stopping:
                self._end(child)
                self._give_way(f"It was not well within {state.within:g} s.")
                return None
            time.sleep(_LOOK_EVERY)
        if self._is_stopping or self._is_well():
            return code  # where it is not well yet, it is tried anew the next time
        self._give_way(f"It ended by itself with exit code {code}.")
        return None

    def _is_well(self) -> bool:
        """Whether the release that is tried has said so."""
        state = ReleaseState.read(self._path)
        return state is not None and state.trial is None

    def _give_way(self, why: str) -> None:
        state = ReleaseState.read(self._path)
        assert state is not None
        state.change(trial=None, failed=why).write(self._path)
        _say(f"{why} Back to {Path(state.current.root).name}")

    def _start(self, release: PlacedRelease) -> "subprocess.Popen[bytes]":
        command = [release.python, "-m", "inferdash.up"]
        return subprocess.Popen(
            # It ends when this is killed.
            [sys.executable, "-I", "-S", str(_CHILD), str(os.getpid()), *command],
            cwd=release.root,
            env=os.environ | {VARIABLE: str(self._path)},
            # The terminal's Ctrl-C is passed on once, and not heard twice.
            process_group=0,
        )

    def _end(self, child: "subprocess.Popen[bytes]") -> None:
        child.terminate()
        try:
            child.wait(_GRACE)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        self._is_stopping = True
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(number)


def _say(sentence: str) -> None:
    print(f"inferdash: {sentence}", flush=True)


if __name__ == "__main__":
    sys.exit(ReleaseLauncher(Path(sys.argv[1])).run())
