"""One launch command that was read from a paste, and what is said when a paste cannot be read."""

from dataclasses import dataclass, field, fields
from typing import Any, Literal

Kind = Literal["docker_run", "compose", "engine_command"]
EngineKey = Literal["vllm", "sglang", "llamacpp", "other"]


class PasteError(ValueError):
    """A paste that cannot be read completely: where, and what to change. Line and column from 1."""

    def __init__(self, reason: str, *, line: int, column: int) -> None:
        super().__init__(f"Line {line}, column {column}: {reason}")
        self.reason = reason
        self.line = line
        self.column = column


@dataclass(frozen=True, kw_only=True)
class LaunchCommand:
    """What the paste says, in its own words: nothing is executed, expanded by a shell or guessed.

    None or empty is what the paste leaves out. Variables that have no value in the paste stay
    as written ($HF_TOKEN) and are named in `unresolved`.
    """

    kind: Kind
    engine: EngineKey | None = None
    image: str | None = None
    # Several words only from a compose file; "" switches the image's own off.
    entrypoint: str | tuple[str, ...] | None = None
    # After the image; for a bare engine command the engine's whole argv, without wrappers.
    command: tuple[str, ...] = ()
    # None: taken over from the environment that starts it, as with `-e NAME`.
    env: dict[str, str | None] = field(default_factory=dict)
    env_file: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
    ipc: str | None = None
    shm_size: str | None = None
    ulimits: dict[str, str] = field(default_factory=dict)  # "soft" or "soft:hard"
    # "all", a number of GPUs, their ids, or a text with a variable in it.
    gpus: str | int | tuple[str, ...] | None = None
    runtime: str | None = None
    network: str | None = None
    cap_add: tuple[str, ...] = ()
    privileged: bool = False
    name: str | None = None
    restart: str | None = None
    devices: tuple[str, ...] = ()
    cpuset: str | None = None
    user: str | None = None
    workdir: str | None = None
    security_opt: tuple[str, ...] = ()
    init: bool = False
    service: str | None = None
    unresolved: tuple[str, ...] = ()
    # Options of the container tool, or keys of the compose service, that have no place above.
    ignored: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Every field, tuples as lists: what `manage.py profile import --json` prints."""
        found: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            found[each.name] = list(value) if isinstance(value, tuple) else value
        return found
