"""A launch: a checkpoint, an engine with its flags, and the container around it."""

from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from servers.launch.engines.fields import LaunchField, describe, map_option, option

# More is no command line or environment, and reading it would keep the web process busy.
LONGEST_TEXT = 8_000
MOST_TRIES = 100


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One version of a profile, complete. Empty means "the engine's or Docker's own default"."""

    # fmt: off
    # A key of servers.launch.engines.ENGINES.
    engine: str = field(metadata=describe(
        "engine", "Essentials", required=True,
        help="Other: any program with a port and a readiness path. It needs both, and no "
        "model; it has a log and memory, but no chat.",
    ))
    image: str = field(metadata=describe("image", "Essentials", required=True, longest=300))
    # Hugging Face id, or an absolute path inside the container.
    checkpoint: str = field(metadata=describe(
        "text", "Essentials", required=True, longest=300, label="Model",
        help="A Hugging Face id (Qwen/Qwen3-8B), or a path inside the container. Nothing "
        "where the engine is Other.",
    ))
    # What makes an image of the profile's own, to be built on its box and then named by `image`;
    # and the small files beside it, by name.
    dockerfile: str = option(
        "", "dockerfile", longest=64 << 10, rows=4, label="Dockerfile",
        placeholder="FROM vllm/vllm-openai:v0.20.2\nRUN pip install transformers==5.3.0",
        help="For a patched image. Built on the profile’s page.",
    )
    build_files: dict[str, str] = map_option(
        "files", longest=1 << 20, rows=2, label="Files beside the Dockerfile",
        placeholder="==> fix.patch <==\n--- a/…",
        help="Small texts that COPY takes, each below a line ==> name <==.",
    )
    revision: str = option("", "text", "Model", longest=64, help="Branch, tag or commit.")
    served_name: str = option(
        "", "text", "Model", longest=200, label="Served model name",
        help="The model name in requests. Empty: the model's own name.",
    )
    flags: tuple[str, ...] = option(  # words of the engine's command line
        (), "flags", "Engine flags", longest=LONGEST_TEXT, rows=6, label="Engine flags",
        placeholder="--max-model-len 32768\n--gpu-memory-utilization 0.9",
        help="One a line or as pasted. # begins a comment. Model, name, host and port are added.",
    )
    env: dict[str, str] = map_option(
        "env", "Environment", rows=4, label="Environment", placeholder="NCCL_P2P_LEVEL=SYS",
        help="NAME=value lines. Values of names like …_TOKEN or …_KEY are kept encrypted.",
    )
    secret_env: dict[str, int] = map_option("hidden")  # variable -> Secret.pk

    port: int = option(  # inside the container; 0 = the engine's default
        0, "port", "Files and network", label="Port in the container", help="Empty: the engine's default."
    )
    host_address: str = option(
        "127.0.0.1", "address", "Files and network", after="host_port", required=True,
        label="Address on the box",
        help="127.0.0.1: this box only. 0.0.0.0: every network of the box.",
    )
    host_port: int = option(  # 0 = a free one of INFERDASH_ENGINE_PORTS
        0, "port", "Files and network", label="Port on the box",
        help="Empty: a free one, unless set otherwise of 18000-18099.",
    )
    network: str = option(
        "bridge", "network", "Files and network", required=True, longest=100,
        help="bridge, host, or a Docker network.",
    )

    volumes: tuple[str, ...] = option(  # source:target[:ro]
        (), "volumes", "Files and network", rows=3, placeholder="~/models:/models:ro",
        help="source:target or source:target:ro, one a line. ~ and $HOME are the box's home folder.",
    )
    digests: dict[str, str] = map_option(  # path in the container -> its SHA-256
        "digests", "Files and network", longest=LONGEST_TEXT, rows=2, label="Files with their SHA-256",
        placeholder="9f86d081…0a08  /templates/chat.jinja",
        help="Lines of sha256sum, with the path in the container. Another file there, and "
        "the start is refused.",
    )
    mount_hf_cache: bool = option(
        True, "switch", "Environment", label="Mount the box's Hugging Face cache"
    )
    pass_hf_token: bool = option(
        True, "switch", "Environment", label="Pass the box's Hugging Face token"
    )

    gpus: str = option(  # "all", "none", indices: "0,1", or which: "2x RTX PRO 6000", "1x sm_103"
        "all", "gpus", "Essentials", required=True, longest=100, label="GPUs",
        help="all, none, indices (0,1), or which: 2x RTX PRO 6000, 1x sm_103.",
    )
    runtime: str = option(
        "", longest=60, help="nvidia, where the box needs it.",
        docker="runtime", title="runtime",
    )
    shm_size: int = option(  # bytes; 0 = Docker's 64 MiB
        0, "size", "Container", longest=20, label="Shared memory",
        help="16g. Empty: Docker's 64 MiB.",
        docker="shm-size", title="shared memory",
    )
    ipc: str = option(  # "host", "private", "shareable"; the form knows the first alone
        "", "ipc", "Container", box="ipc_host", label="Share the box's IPC (--ipc=host)",
        help="Segments of an engine that was killed stay behind on the box.",
        docker="ipc", title="IPC",
    )
    ulimits: dict[str, int] = map_option(  # soft = hard
        "limits", after="entrypoint", rows=2, placeholder="memlock=-1\nstack=67108864",
        docker="ulimit", title="ulimit",
    )
    entrypoint: tuple[str, ...] = option(
        (), "words", longest=300, help="Replaces the image's.",
        docker="entrypoint",
    )
    cap_add: tuple[str, ...] = option(
        (), "capabilities", longest=200, label="Capabilities", help="SYS_NICE",
        docker="cap-add", title="capability",
    )
    devices: tuple[str, ...] = option(
        (), "lines", rows=2, placeholder="/dev/infiniband",
        docker="device", title="device",
    )
    security_opt: tuple[str, ...] = option(
        (), "items", longest=200, label="Security options",
        docker="security-opt", title="security option",
    )
    privileged: bool = option(
        False, "switch", after="pid", label="Privileged: the container owns the box",
        docker="privileged", title="privileged",
    )
    cpuset_cpus: str = option(
        "", longest=100, label="CPUs", help="0-63",
        docker="cpuset-cpus", compose="cpuset", pasted="cpuset", title="cores",
    )
    user: str = option("", longest=60, docker="user", title="user")
    workdir: str = option(
        "", longest=200, label="Working folder",
        docker="workdir", compose="working_dir", title="working folder",
    )
    pid: str = option(  # "host"
        "", "choice", label="Processes",
        choices=(("", "its own"), ("host", "the box's (--pid=host)")),
    )
    init: bool = option(  # an engine as PID 1 ignores SIGTERM while it loads
        True, "switch", "Start and stop", after="grace", label="Init process (--init)",
        help="Without it an engine ignores SIGTERM while it loads.",
        docker="init", title="init process",
    )
    drop_cache: bool = option(  # of pages, on the whole box, before it is started
        False, "switch", "Start and stop", label="Drop the page cache first",
        help="For engines that count only free memory. Files are read from disk again.",
    )
    free_memory: int = option(  # bytes that each of its GPUs must have free before it is started
        0, "size", "Start and stop", after="drop_cache", longest=20, label="Wait for free memory",
        help="90g: so much on each of its GPUs before it is started. Empty: no wait.",
    )
    grace: int = option(  # seconds between SIGTERM and SIGKILL
        120, "count", "Start and stop", required=True, least=1, most=3600, label="Stop grace",
        help="Seconds between SIGTERM and SIGKILL.",
    )
    ready_path: str = option(  # must answer 200 for "ready"; "" = the engine's own health path
        "", "path", "Start and stop", longest=200, label="Readiness path",
        help="Such as /health. Empty: the engine's own. The model must be listed, too.",
    )
    ready_limit: int = option(  # seconds from the container's start to ready; 0 = no limit
        0, "span", "Start and stop", longest=20, label="Start timeout",
        help="20m, 90s. After it the start fails. Empty: no limit.",
    )
    restart: str = option(  # inferdash's own, not Docker's
        "", "choice", "Start and stop", label="Restart policy",
        choices=(("", "never"), ("on-failure", "on failure"), ("always", "always")),
        words=("never", "on-failure", "always", "no"),
        help="When it exits unasked. Always: without a limit. Stop ends it.",
    )
    restart_tries: int = option(  # automatic starts in a row that may fail before it gives up
        2, "count", "Start and stop", required=True, least=1, most=MOST_TRIES, label="Max restarts",
        help="Failed starts in a row before inferdash gives up.",
    )
    # Seconds of being unhealthy after which it is ended and started again; 0 = never.
    restart_unhealthy: int = option(
        0, "minutes", "Start and stop", longest=20, label="Restart if unhealthy for",
        help="5m. Empty: an unhealthy server is shown and alerted, not restarted.",
    )
    start_with_box: bool = option(  # after a restart of the box, if it was wanted then
        False, "switch", "Start and stop", label="Start with the box",
        help="After a reboot of the box, unless a person had stopped it.",
    )
    # Through the gateway: other names to ask for it by; whether a request starts it, how many
    # seconds one is held meanwhile, and after how many without requests what one has started is
    # stopped (0: never).
    aliases: tuple[str, ...] = option(
        (), "aliases", "Model", longest=4_000, label="Model aliases",
        help="Further model names at the gateway: gpt-4o-mini, default.",
    )
    start_on_request: bool = option(
        False, "switch", "Start and stop", label="Start on demand",
        help="A request to the gateway starts it. Idle servers that were started on demand may be "
        "stopped to make room; never one that serves, or that a person started.",
    )
    hold_requests: int = option(
        300, "hold", "Start and stop", longest=20, label="Queue timeout while starting",
        help="Requests that would wait longer get 503 with Retry-After. Empty: requests do not wait.",
    )
    stop_idle: int = option(
        0, "minutes", "Start and stop", longest=20, label="Idle timeout",
        help="30m without a request, if it was started on demand. Empty: never stopped.",
    )
    # What is done then instead: "sleep-1" (weights to the machine's memory) or "sleep-2" (they are
    # read again), where the engine can; "" = it is stopped.
    when_idle: str = option(
        "", "choice", "Start and stop", label="Idle action",
        choices=(
            ("", "stop"),
            ("sleep-1", "sleep, with the weights in main memory (level 1)"),
            ("sleep-2", "sleep, and read the weights again (level 2)"),
        ),
        words=("sleep-1", "sleep-2", "stop"),
        help="Only vLLM can sleep: it releases its GPU memory, and the next request wakes it.",
    )
    ask_when_ready: bool = option(
        True, "switch", "Start and stop", label="Smoke test after start",
        help="One short chat: is the answer language, and how fast is it?",
    )
    ask_every: int = option(  # seconds without requests after which it is asked for one token
        0, "minutes", "Start and stop", longest=20, label="Liveness probe interval",
        help="10m: probes with one token after so long without a request. Empty: never.",
    )

    log_must: tuple[str, ...] = option(  # plain texts, each in the log of a good start
        (), "patterns", "Start and stop", rows=2, label="Required log patterns",
        placeholder="Capture cuda graph end",
        help="Plain texts, one a line. Shown if missing once the server is ready.",
    )
    log_must_not: tuple[str, ...] = option(  # plain texts that a good log does not hold
        (), "patterns", "Start and stop", rows=2, label="Forbidden log patterns",
        placeholder="falling back to", help="Plain texts, one a line. Case does not matter.",
    )

    # Flag or variable -> why it is there.
    reasons: dict[str, str] = map_option("hidden", says_only=True)
    # Name -> value unless a server has its own: {"model": "Qwen/Qwen3-8B"} for {{model}}.
    parameters: dict[str, str] = map_option(
        "parameters", "Model", rows=2, placeholder="model=Qwen/Qwen3-8B\ncontext=32768",
        help="name=value lines. {{name}} in model, flags and environment is replaced; each "
        "server may have values of its own.",
    )
    hardware: str = option(  # what it was made for; "" = not said
        "", "phrase", "Sharing and notes", longest=100, says_only=True,
        help="The hardware that the source used: 4x RTX PRO 6000.",
    )
    # What its source promises, as written: {"tokens per second": "30-35"}.
    expected: dict[str, str] = map_option(
        "figures", "Sharing and notes", longest=1000, rows=2, says_only=True,
        label="Expected performance", placeholder="tokens per second: 30-35\nfirst token: 0.3 s",
        help="From the source, one a line; shown beside measured values.",
    )
    # fmt: on

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


FIELDS: dict[str, LaunchField] = {each.name: each.metadata["option"] for each in fields(Launch)}
SAYS_ONLY = tuple(name for name, each in FIELDS.items() if each.says_only)
