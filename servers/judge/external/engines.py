"""External engines: what runs or has run on a box, where it came from, and what hides it."""

import shlex
import signal
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, Self

from servers.judge.messages import Sentence, say
from servers.launch.engines.engine import flag_value

_COMPOSE = "com.docker.compose."
_INSTALL = "inferdash.install"
_LONGEST = 200  # characters of a label: anybody may write anything there
# Labels of what manages containers besides, and what to call it.
_MANAGERS = (
    ("io.kubernetes.pod.name", "external.started-by-kubernetes"),
    ("com.docker.swarm.service.name", "external.started-by-swarm"),
    ("PODMAN_SYSTEMD_UNIT", "external.started-by-unit"),
)
_POLICIES = {
    "always": "external.restarts-always",
    "unless-stopped": "external.restarts-unless-stopped",
    "on-failure": "external.restarts-on-failure",
}


@dataclass(frozen=True, kw_only=True)
class Reviver:
    code: str  # of its message
    says: str  # what it is, and when
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
        managers = (
            say(code, name=labels[name]).text for name, code in _MANAGERS if labels.get(name)
        )
        return cls(
            project=labels.get(f"{_COMPOSE}project", ""),
            service=labels.get(f"{_COMPOSE}service", ""),
            number=labels.get(f"{_COMPOSE}container-number", ""),
            folder=labels.get(f"{_COMPOSE}project.working_dir", ""),
            manager=next(managers, ""),
            install=labels.get(_INSTALL, ""),
            policy=policy,
            unit=unit,
            via=via,
        )

    @property
    def started_by(self) -> str:
        """ "compose project speech (service llm, in /srv/speech)"."""
        if self.install:
            return say("external.started-by-inferdash", install=self.install[:8]).text
        if self.manager:
            return self.manager
        if self.unit and self.unit != "session":
            if self.via:
                return say("external.started-by-unit-via", name=self.unit, via=self.via).text
            return say("external.started-by-unit", name=self.unit).text
        if self.user:
            login, user = "external.started-by-login", "external.started-by-user"
            return say(login if self.unit else user, user=self.user).text
        if self.project:
            known = {"project": self.project, "service": self.service or "?"}
            if self.folder:
                code = "external.started-by-compose-in-folder"
                return say(code, **known, folder=self.folder).text
            return say("external.started-by-compose", **known).text
        return say("external.started-by-docker").text

    @property
    def revived_by(self) -> str:
        """Who starts it again when it ends, as a sentence without its full stop."""
        return self._describe_restart().text

    def _describe_restart(self) -> Sentence:
        if self.install:
            return say("external.restarts-by-inferdash", install=self.install[:8])
        if self.manager:
            return say("external.restarts-by-manager", manager=self.manager)
        if code := _POLICIES.get(self.policy):
            return say(code)
        if self.unit and self.unit != "session":
            scope, _colon, name = self.unit.rpartition(": ")
            way = "systemctl --user" if scope else "systemctl"
            return say("external.restarts-by-unit", command=f"{way} disable --now {name}")
        if self.user:
            return say("external.restarts-by-nothing")
        if self.project:
            return say("external.restarts-by-compose-up", project=self.project)
        return say("external.restarts-without-policy")

    def revivers(self, name: str) -> tuple["Reviver", ...]:
        """Who would start it again when it is stopped by hand, each with what keeps them from it.

        `name` is the container's, "" for a process in none. Rule: Docker starts a container with
        a policy again with the box or the daemon, not after `docker stop`.
        """
        found = []
        if self.install or self.manager:
            said = say("external.returns-by-manager", manager=self.started_by)
            found.append(_build_reviver(said))
        if self.unit and self.unit != "session":
            scope, _colon, unit = self.unit.rpartition(": ")
            way = "systemctl --user" if scope else "sudo systemctl"
            said = say("external.returns-by-unit", unit=unit)
            found.append(_build_reviver(said, f"{way} disable --now {shlex.quote(unit)}"))
        if self.policy in ("always", "on-failure", "unless-stopped") and name:
            once, always = "external.returns-by-policy-once-started", "external.returns-by-policy"
            said = say(once if self.policy == "unless-stopped" else always, policy=self.policy)
            found.append(_build_reviver(said, f"docker update --restart=no {shlex.quote(name)}"))
        if self.project and self.service:
            found.append(self._compose())
        return tuple(found)

    def _compose(self) -> "Reviver":
        project, service = shlex.quote(self.project), shlex.quote(self.service)
        where = f"cd {shlex.quote(self.folder)} && " if self.folder else ""
        return _build_reviver(
            say("external.returns-by-compose", project=self.project, service=self.service),
            f"{where}docker compose -p {project} up -d $(docker compose -p {project} "
            f"config --services | grep -vxF {service})",
        )

    def to_json(self) -> dict[str, str]:
        return {name: value for name, value in asdict(self).items() if value}

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Self:
        known = {name: said[name] for name in cls.__dataclass_fields__ if name in said}
        return cls(**known)


def _build_reviver(said: Sentence, command: str = "") -> Reviver:
    return Reviver(code=said.code, says=said.text, command=command)


def _format_label(label: str) -> str:
    return "".join(filter(str.isprintable, label[:_LONGEST]))


type Answer = Literal["serves", "loading", "locked", "silent", "unasked", "ended"]

_ANSWERS = {
    "serves": "external.answer-serves",
    "loading": "external.answer-loading",
    "locked": "external.answer-locked",
    "silent": "external.answer-silent",
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
        code = self.exit_code
        if code is None:
            return say("external.never-started").text
        if self.oom_killed:
            return say("external.exited-out-of-memory", code=code).text
        try:
            name = signal.Signals(code - _SIGNALS).name
        except ValueError:
            return say("external.exited", code=code).text
        return say("external.exited-by-signal", code=code, signal=name).text

    @property
    def began(self) -> datetime | None:
        return None if self.started_at is None else datetime.fromtimestamp(self.started_at, UTC)

    @property
    def says(self) -> str:
        """What a probe of it has found; "" for what is never probed."""
        code = _ANSWERS.get(self.answer)
        return say(code).text if code else ""

    def to_json(self) -> dict[str, Any]:
        lists = {"models": list(self.models), "pids": list(self.pids)}
        return asdict(self) | lists | {"origin": self.origin.to_json()}

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Self:
        known = {name: said[name] for name in cls.__dataclass_fields__ if name in said}
        known |= {name: tuple(known.get(name, ())) for name in ("models", "pids")}
        return cls(**known | {"origin": Origin.from_json(said.get("origin", {}))})


@dataclass(frozen=True, kw_only=True)
class MissingPermission:
    """`command` is typed on the box, once; "" where no command grants it."""

    what: str
    why: str
    command: str = ""
    code: str = ""  # of its message

    def to_json(self) -> dict[str, str]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class WatcherRights:
    """What the watcher is, and what it was allowed."""

    user: str  # that it runs as
    is_root: bool
    is_in_container: bool  # it does not see the box's own processes
    docker_trouble: str = ""  # why Docker cannot be used, with what to do
    is_docker_refused: bool = False  # it is there, but this user may not use it


def unseen(
    standing: WatcherRights, sample: Mapping[str, Any] | None
) -> tuple[MissingPermission, ...]:
    """In the order in which people miss it. `sample` is the box's newest; None: there is none yet."""
    return (*_docker(standing), *_gpus(sample), *_processes(standing), *_kernel_log(sample))


def together(found: tuple[MissingPermission, ...]) -> str:
    """One command for all that have one; "" where fewer than two have."""
    commands = [each.command for each in found if each.command]
    return " && \\\n  ".join(commands) if len(commands) > 1 else ""


def _docker(standing: WatcherRights) -> Iterator[MissingPermission]:
    if standing.is_docker_refused:
        yield _explain(
            say("external.unseen-docker-refused", user=standing.user),
            f"sudo usermod -aG docker {shlex.quote(standing.user)}",
        )
    elif standing.docker_trouble:
        yield _explain(say("external.unseen-docker", trouble=standing.docker_trouble))


def _gpus(sample: Mapping[str, Any] | None) -> Iterator[MissingPermission]:
    if sample is None:
        yield _explain(say("external.unseen-gpus-so-far"))
    elif sample.get("error_kind") not in (None, "no_library"):
        error = sample.get("error") or say("external.unseen-driver").text
        yield _explain(say("external.unseen-gpus", error=error))


def _processes(standing: WatcherRights) -> Iterator[MissingPermission]:
    if standing.is_in_container:
        yield _explain(say("external.unseen-processes"))
    elif not standing.is_root:
        yield _explain(say("external.unseen-other-users", user=standing.user))


def _kernel_log(sample: Mapping[str, Any] | None) -> Iterator[MissingPermission]:
    log = ((sample or {}).get("unseen") or {}).get("kernel_log")
    if log:
        grants = "may not be read" in log
        said = say("external.unseen-kernel-log", log=log)
        yield _explain(said, "sudo sysctl -w kernel.dmesg_restrict=0" if grants else "")


def _explain(said: Sentence, command: str = "") -> MissingPermission:
    return MissingPermission(what=said.title, why=said.text, command=command, code=said.code)
