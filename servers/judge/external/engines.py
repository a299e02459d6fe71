"""An engine that runs on a box, or has run there, and that inferdash did not start."""

import signal
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, Self

from servers.judge.external.origin import Origin
from servers.launch.engines.engine import flag_value

type Answer = Literal["serves", "loading", "locked", "silent", "unasked", "ended"]

WORDS: dict[str, str] = {
    "serves": "serves",
    "loading": "loading",
    "locked": "asks for a key",
    "silent": "does not answer yet",
    "unasked": "",
    "ended": "",
}
_SIGNALS = 128


@dataclass(frozen=True, kw_only=True)
class DiscoveredEngine:
    """Of a container nothing of its command or environment is kept: there may be secrets in them."""

    container: str  # 64 digits; see `pid`
    name: str
    image: str
    engine: str  # a key of the engines; by its API, else by its command
    answer: Answer
    version: str = ""  # "": it does not say
    models: tuple[str, ...] = ()
    address: str = ""  # where it answers, as seen from its box; "": nowhere so far
    port: int = 0
    started_at: float | None = None  # unix seconds
    # Of a container that does not run: when it ended, and with which exit code as far as known.
    ended_at: float | None = None
    exit_code: int | None = None
    oom_killed: bool = False
    # What its log tells of that end, in a sentence; "": not looked at yet, or nothing to tell.
    why: str = ""
    cause: str = ""  # an id of the catalogue of failures; "": not recognised
    # Requests of one that nobody watches; None: it does not say, or nobody looks.
    running: int | None = None
    waiting: int | None = None
    removes_itself: bool = False  # `docker run --rm`: nothing of it is left when it ends
    origin: Origin = field(default_factory=Origin)
    # Of a process in no container, whose `container` is "pid-4711-99" with the moment of its start.
    pid: int = 0
    pids: tuple[int, ...] = ()  # with its descendants
    command: str = ""  # with secrets masked, as ps would show it

    @property
    def is_process(self) -> bool:
        return bool(self.pid)

    @property
    def key(self) -> str:
        """Short enough for an address, and one a container or process."""
        return self.container if self.is_process else self.container[:12]

    @property
    def identity(self) -> dict[str, str]:
        """Of a process, what its next life has in common with this one: its unit, or its very
        words and user."""
        if self.origin.unit and self.origin.unit != "session":
            port = flag_value(tuple(self.command.split()), "--port") or ""
            return {"unit": self.origin.unit, "port": port}
        return {"command": self.command, "user": self.origin.user}

    @property
    def has_ended(self) -> bool:
        return self.answer == "ended"

    @property
    def ended(self) -> datetime | None:
        return None if self.ended_at is None else datetime.fromtimestamp(self.ended_at, UTC)

    @property
    def end(self) -> str:
        """How it ended: "exited with 0", "killed by SIGKILL, out of memory", "never started"."""
        if self.exit_code is None:
            return "never started"
        if self.oom_killed:
            return f"exited with {self.exit_code}: the kernel killed it for lack of memory"
        try:
            name = signal.Signals(self.exit_code - _SIGNALS).name
        except ValueError:
            return f"exited with {self.exit_code}"
        return f"exited with {self.exit_code}, by {name}"

    @property
    def began(self) -> datetime | None:
        return None if self.started_at is None else datetime.fromtimestamp(self.started_at, UTC)

    @property
    def says(self) -> str:
        """What became of asking it; "" for what is never asked."""
        return WORDS[self.answer]

    def to_json(self) -> dict[str, Any]:
        lists = {"models": list(self.models), "pids": list(self.pids)}
        return asdict(self) | lists | {"origin": self.origin.to_json()}

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Self:
        known = {name: said[name] for name in cls.__dataclass_fields__ if name in said}
        known |= {name: tuple(known.get(name, ())) for name in ("models", "pids")}
        return cls(**known | {"origin": Origin.from_json(said.get("origin", {}))})
