"""External engines: what runs or has run on a box, and where it came from."""

import shlex
import signal
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, Self

from servers.launch.engines.engine import flag_value

_COMPOSE = "com.docker.compose."
_INSTALL = "inferdash.install"
_LONGEST = 200  # characters of a label: anybody may write anything there
# Labels of what manages containers besides, and what to call it.
_MANAGERS = (
    ("io.kubernetes.pod.name", "Kubernetes pod"),
    ("com.docker.swarm.service.name", "Swarm service"),
    ("PODMAN_SYSTEMD_UNIT", "systemd unit"),
)
_POLICIES = {
    "always": "Docker starts it again whenever it ends, and after a restart of the box",
    "unless-stopped": "Docker starts it again whenever it ends by itself, and after a restart of "
    "the box",
    "on-failure": "Docker starts it again when it ends with an error",
}


@dataclass(frozen=True, kw_only=True)
class Reviver:
    says: str  # who, and when
    command: str = ""  # keeps them from it; "" where no command does


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Empty: its labels do not say so."""

    project: str = ""  # of compose
    service: str = ""
    number: str = ""  # of several containers of one service
    folder: str = ""  # where compose was run
    manager: str = ""  # "Kubernetes pod x"
    install: str = ""  # of another inferdash
    policy: str = ""  # Docker's restart policy: always, unless-stopped, on-failure
    # Of a process in no container its systemd unit, "session" for one of somebody's log-in; of a
    # container the unit that runs `docker` for it.
    unit: str = ""
    via: str = ""  # a script or drop-ins that say so of the unit
    user: str = ""

    @classmethod
    def from_labels(
        cls, labels: Mapping[str, str], policy: str, *, unit: str = "", via: str = ""
    ) -> Self:
        labels = {name: _format_label(value) for name, value in labels.items()}
        manager = next(
            (f"{words} {labels[name]}" for name, words in _MANAGERS if labels.get(name)), ""
        )
        return cls(
            project=labels.get(f"{_COMPOSE}project", ""),
            service=labels.get(f"{_COMPOSE}service", ""),
            number=labels.get(f"{_COMPOSE}container-number", ""),
            folder=labels.get(f"{_COMPOSE}project.working_dir", ""),
            manager=manager,
            install=labels.get(_INSTALL, ""),
            policy=policy,
            unit=unit,
            via=via,
        )

    @property
    def started_by(self) -> str:
        """ "compose project speech (service llm, in /srv/speech)"."""
        if self.install:
            return f"another inferdash ({self.install[:8]})"
        if self.manager:
            return self.manager
        if self.unit and self.unit != "session":
            return f"systemd unit {self.unit}" + (f", as {self.via} says" if self.via else "")
        if self.user:
            return f"{self.user}, {'logged in' if self.unit else 'by hand or by a script'}"
        if self.project:
            folder = f", in {self.folder}" if self.folder else ""
            return f"compose project {self.project} (service {self.service or '?'}{folder})"
        return "docker run, by hand or by a script"

    @property
    def revived_by(self) -> str:
        """Who starts it again when it ends, as a sentence without its full stop."""
        if self.install or self.manager:
            return f"{self.started_by} may start it again".replace("another", "Another", 1)
        if said := _POLICIES.get(self.policy):
            return said
        if self.unit and self.unit != "session":
            scope, _colon, name = self.unit.rpartition(": ")
            way = "systemctl --user" if scope else "systemctl"
            return f"systemd may start it again; {way} disable --now {name} keeps it from that"
        if self.user:
            return "Nothing starts it again by itself"
        if self.project:
            return f"Nothing starts it again by itself; docker compose up in project {self.project} would"
        return "Nothing starts it again by itself: it has no restart policy"

    def revivers(self, name: str) -> tuple["Reviver", ...]:
        """Who would start it again when it is stopped by hand, each with what keeps them from it.

        `name` is the container's, "" for a process in none. Rule: Docker starts a container with
        a policy again with the box or the daemon, not after `docker stop`.
        """
        found = []
        if self.install or self.manager:
            found.append(Reviver(says=f"{self.started_by}. Stop it there, or it comes back."))
        if self.unit and self.unit != "session":
            scope, _colon, unit = self.unit.rpartition(": ")
            way = "systemctl --user" if scope else "sudo systemctl"
            found.append(
                Reviver(
                    says=f"The systemd unit {unit}, at once or with the box. Not after this:",
                    command=f"{way} disable --now {shlex.quote(unit)}",
                )
            )
        if self.policy in ("always", "on-failure", "unless-stopped") and name:
            when = (
                "if it is started once more"
                if self.policy == "unless-stopped"
                else "when Docker or the box starts anew"
            )
            found.append(
                Reviver(
                    says=f"Docker, by its restart policy {self.policy}, {when}. Not after this:",
                    command=f"docker update --restart=no {shlex.quote(name)}",
                )
            )
        if self.project and self.service:
            found.append(self._compose())
        return tuple(found)

    def _compose(self) -> "Reviver":
        project, service = shlex.quote(self.project), shlex.quote(self.service)
        where = f"cd {shlex.quote(self.folder)} && " if self.folder else ""
        return Reviver(
            says=f"The compose project {self.project}, when docker compose up is run there. "
            f"This starts the project without {self.service}:",
            command=f"{where}docker compose -p {project} up -d $(docker compose -p {project} "
            f"config --services | grep -vxF {service})",
        )

    @property
    def short(self) -> str:
        """One word or two for a table."""
        if self.install:
            return f"inferdash {self.install[:8]}"
        if self.manager:
            return self.manager
        if self.policy:
            return f"Docker ({self.policy})"
        return f"compose {self.project}" if self.project else "nobody"

    def to_json(self) -> dict[str, str]:
        return {name: value for name, value in asdict(self).items() if value}

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Self:
        known = {name: said[name] for name in cls.__dataclass_fields__ if name in said}
        return cls(**known)


def _format_label(label: str) -> str:
    return "".join(filter(str.isprintable, label[:_LONGEST]))


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
    def what(self) -> str:
        return "process" if self.is_process else "container"

    @property
    def revivers(self) -> tuple["Reviver", ...]:
        """Who would start it again, each with what keeps them from it."""
        return self.origin.revivers("" if self.is_process else self.name)

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
