"""A launch: a checkpoint, an engine with its flags, and the container around it."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, Self

from servers.launch.tables import freeze, read_table

# How people write the value: in a text box, in YAML, and in a list of differences.
type FieldKind = Literal[
    "text", "phrase", "switch", "ipc", "count", "port", "choice", "size", "span", "minutes", "hold",
    "path", "address", "network", "gpus", "words", "lines", "items", "capabilities", "aliases",
    "patterns", "volumes", "limits", "parameters", "figures", "digests", "files", "dockerfile",
    "image", "engine", "flags", "env", "hidden",
]  # fmt: skip
SPANS = ("span", "minutes", "hold")  # lengths of time, in seconds


@dataclass(frozen=True, kw_only=True)
class LaunchField:
    kind: FieldKind
    group: str = ""  # of the profile form; "": it is rarely needed
    after: str = ""  # the field behind which it stands there, if not the one before it here
    box: str = ""  # its name there, if another
    label: str = ""  # "": its name, as a word
    help: str = ""
    required: bool = False
    longest: int | None = None
    rows: int = 0  # of a text area; 0: one line
    placeholder: str = ""
    least: int = 0
    most: int | None = None
    choices: tuple[tuple[str, str], ...] = ()
    # What YAML may say: a word for each choice, then further ones for the empty one. (): any text.
    words: tuple[str, ...] = ()
    says_only: bool = False  # what is started does not depend on it
    docker: str = ""  # its option of `docker run`, without dashes
    compose: str = ""  # its key in a compose service, if another than its name
    pasted: str = ""  # its name in a LaunchCommand, if another
    title: str = ""  # in the comparison of two containers, of each entry where it is a list


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One version of a profile, complete. Empty means "the engine's or Docker's own default".

    What each field is called in forms, YAML and Docker stands in launch.yaml.
    """

    # A key of servers.launch.engines.ENGINES.
    engine: str
    image: str
    # Hugging Face id, or an absolute path inside the container.
    checkpoint: str
    # What makes an image of the profile's own, to be built on its box and then named by `image`;
    # and the small files beside it, by name.
    dockerfile: str = ""
    build_files: dict[str, str] = field(default_factory=dict)
    revision: str = ""
    served_name: str = ""
    flags: tuple[str, ...] = ()  # words of the engine's command line
    env: dict[str, str] = field(default_factory=dict)
    secret_env: dict[str, int] = field(default_factory=dict)  # variable -> Secret.pk

    port: int = 0  # inside the container; 0 = the engine's default
    host_address: str = "127.0.0.1"
    host_port: int = 0  # 0 = a free one of INFERDASH_ENGINE_PORTS
    network: str = "bridge"

    volumes: tuple[str, ...] = ()  # source:target[:ro]
    digests: dict[str, str] = field(default_factory=dict)  # path in the container -> its SHA-256
    mount_hf_cache: bool = True
    pass_hf_token: bool = True

    gpus: str = "all"  # "all", "none", indices: "0,1", or which: "2x RTX PRO 6000", "1x sm_103"
    runtime: str = ""
    shm_size: int = 0  # bytes; 0 = Docker's 64 MiB
    ipc: str = ""  # "host", "private", "shareable"; the form knows the first alone
    ulimits: dict[str, int] = field(default_factory=dict)  # soft = hard
    entrypoint: tuple[str, ...] = ()
    cap_add: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    security_opt: tuple[str, ...] = ()
    privileged: bool = False
    cpuset_cpus: str = ""
    user: str = ""
    workdir: str = ""
    pid: str = ""  # "host"
    init: bool = True  # an engine as PID 1 ignores SIGTERM while it loads
    drop_cache: bool = False  # of pages, on the whole box, before it is started
    free_memory: int = 0  # bytes that each of its GPUs must have free before it is started
    grace: int = 120  # seconds between SIGTERM and SIGKILL
    ready_path: str = ""  # must answer 200 for "ready"; "" = the engine's own health path
    ready_limit: int = 0  # seconds from the container's start to ready; 0 = no limit
    restart: str = ""  # inferdash's own, not Docker's
    restart_tries: int = 2  # automatic starts in a row that may fail before it gives up
    # Seconds of being unhealthy after which it is ended and started again; 0 = never.
    restart_unhealthy: int = 0
    start_with_box: bool = False  # after a restart of the box, if it was wanted then
    # Through the gateway: other names to ask for it by; whether a request starts it, how many
    # seconds one is held meanwhile, and after how many without requests what one has started is
    # stopped (0: never).
    aliases: tuple[str, ...] = ()
    start_on_request: bool = False
    hold_requests: int = 300
    stop_idle: int = 0
    # What is done then instead: "sleep-1" (weights to the machine's memory) or "sleep-2" (they are
    # read again), where the engine can; "" = it is stopped.
    when_idle: str = ""
    ask_when_ready: bool = True
    measure_when_ready: bool = False  # a check-up of 20 seconds, while nobody uses it
    ask_every: int = 0  # seconds without requests after which it is asked for one token
    # After a start with another image, engine or version, a canary compares its answers.
    check_answers: bool = False

    log_must: tuple[str, ...] = ()  # plain texts, each in the log of a good start
    log_must_not: tuple[str, ...] = ()  # plain texts that a good log does not hold

    # Flag or variable -> why it is there.
    reasons: dict[str, str] = field(default_factory=dict)
    # Name -> value unless a server has its own: {"model": "Qwen/Qwen3-8B"} for {{model}}.
    parameters: dict[str, str] = field(default_factory=dict)
    hardware: str = ""  # what it was made for; "" = not said
    # What its source promises, as written: {"tokens per second": "30-35"}.
    expected: dict[str, str] = field(default_factory=dict)

    @property
    def sleep_level(self) -> int:
        """0: it does not sleep."""
        return {"sleep-1": 1, "sleep-2": 2}.get(self.when_idle, 0)

    @property
    def serves_models(self) -> bool:
        """Whether it is an engine that answers chats or embeds, and not any other program."""
        return self.engine != "other"

    def to_json(self) -> dict[str, Any]:
        """Only what differs from the defaults, so that a later field needs no migration."""
        mine = asdict(self)
        always = ("engine", "image", "checkpoint")
        return {
            f.name: list(mine[f.name]) if isinstance(mine[f.name], tuple) else mine[f.name]
            for f in fields(self)
            if f.name in always or mine[f.name] not in (f.default, {}, ())
        }

    @classmethod
    def from_json(cls, spec: dict[str, Any]) -> Self:
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in spec.items()
        }
        return cls(**values)


_TABLE = freeze(read_table(__file__))
FIELDS = {each.name: LaunchField(**_TABLE[each.name]) for each in fields(Launch)}
SAYS_ONLY = tuple(name for name, each in FIELDS.items() if each.says_only)
# More is no command line or environment, and reading it would keep the web process busy.
LONGEST_TEXT = FIELDS["flags"].longest or 0
MOST_TRIES = FIELDS["restart_tries"].most or 0


_PARAMETER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,29}")
MOST_PARAMETERS, LONGEST_PARAMETER = 20, 300  # parameters, and characters of a value
_PLACE = re.compile(r"\{\{ ?([A-Za-z][A-Za-z0-9_]{0,29}) ?\}\}")


def fill_parameters(launch: Launch, values: Mapping[str, str] | None = None) -> Launch:
    """The launch with every parameter replaced by its value, or else by what the profile says.

    Model, revision, served name, flags and variables may hold them; the image and what the
    container gets of its box may not. A value stays within its word. What only looks like a
    parameter, such as a chat template's {{ messages }}, is left as it is.
    """
    if not launch.parameters:
        return launch
    known = launch.parameters | {k: v for k, v in (values or {}).items() if k in launch.parameters}

    def fill_in(text: str) -> str:
        return _PLACE.sub(lambda found: known.get(found[1], found[0]), text)

    return replace(
        launch,
        checkpoint=fill_in(launch.checkpoint),
        revision=fill_in(launch.revision),
        served_name=fill_in(launch.served_name),
        flags=tuple(map(fill_in, launch.flags)),
        env={name: fill_in(value) for name, value in launch.env.items()},
        parameters={},
    )


def check_parameter(name: str, value: str) -> None:
    """Raises ValueError for a name or a value that cannot be one."""
    if not _PARAMETER.fullmatch(name):
        raise ValueError(f"“{name[:40]}” is not a parameter’s name: letters, digits and _.")
    if len(value) > LONGEST_PARAMETER or not value.isprintable():
        raise ValueError(
            f"The value of {name} is not one line of at most {LONGEST_PARAMETER} characters."
        )
