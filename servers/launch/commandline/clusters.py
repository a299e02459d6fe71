"""Clusters: engines that are ranks of one, by their flags or by Ray.

Only of those that were started elsewhere: inferdash itself starts none over several boxes. With Ray
vLLM's server runs beside a cluster's head, and the other boxes run nothing but
`ray start --address=HEAD:6379 --block`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from servers.launch.commandline.engine_words import (
    program,
    shell_script,
    simple_commands,
    wrappers,
)
from servers.launch.commandline.variables import Scope, Value
from servers.launch.engines.engine import flag_value
from servers.launch.engines.launch import Launch

PORT = "6379"  # unless it is told another
_LOCAL = {"", "127.0.0.1", "localhost", "0.0.0.0", "::1"}  # noqa: S104 - says nothing of who


@dataclass(frozen=True, kw_only=True)
class RayStart:
    is_head: bool
    host: str  # of the head; "" of a head that names no address of its own
    port: str


def starts_ray(words: Sequence[str]) -> bool:
    """Whether these words are `ray start …` themselves."""
    return [*map(program, words[:1]), *words[1:2]] == ["ray", "start"]


def ray_start(words: Sequence[str], env: Mapping[str, str] | None = None) -> RayStart | None:
    """The first one that these words start, behind wrappers and shells; None for none.

    Rule: `ray start --head --port P --node-ip-address A`, or `ray start --address A:P`. Which
    cluster "auto" is, its words do not say.
    """
    for command in _commands(words, env or {}):
        if not starts_ray(command):
            continue
        flags = tuple(command[2:])
        if flag_value(flags, "--head") is not None:
            host = flag_value(flags, "--node-ip-address") or ""
            return RayStart(is_head=True, host=host, port=flag_value(flags, "--port") or PORT)
        host, _colon, port = (flag_value(flags, "--address") or "").rpartition(":")
        if host and port.isascii() and port.isdigit():
            return RayStart(is_head=False, host=host, port=port)
    return None


def _commands(words: Sequence[str], env: Mapping[str, str]) -> Iterator[Sequence[str]]:
    words = words[wrappers(words) :]
    # A script of a venv stands behind its interpreter.
    if len(words) > 1 and program(words[0]).startswith("python"):
        words = words[1:]
    script = shell_script(words)
    if script is None:
        yield from [words] if words else []
        return
    scope = Scope(values={name: Value(text=text) for name, text in env.items()})
    for command in simple_commands(script):
        inner = [argument.text for argument in scope.arguments(command)]
        yield from _commands(inner, env) if inner else ()


def uses_ray(launch: Launch, words: Sequence[str]) -> bool:
    """Whether an engine's ranks are Ray's. `words` are all of its container's or process's."""
    return launch.engine == "vllm" and ("ray" in _backends(launch) or _head(words) is not None)


def works_for(worker: str, launch: Launch, words: Sequence[str], box: Collection[str]) -> bool:
    """Whether what joined Ray's head at "10.0.0.1:6379" works for this engine, which uses Ray.

    Rule: the head runs beside the engine, at an address of its box, or at the one that its words
    or VLLM_HOST_IP name; at Ray's usual port unless its words say another.
    """
    host, _colon, port = worker.rpartition(":")
    head = _head(words)
    own = {*box, launch.env.get("VLLM_HOST_IP", ""), head.host if head else ""} - _LOCAL
    return host in own and (head is None or port == head.port)


def _backends(launch: Launch) -> tuple[str | None, ...]:
    names = ("--distributed-executor-backend", "--data-parallel-backend", "-dpb")
    return tuple(flag_value(launch.flags, name) for name in names)


def _head(words: Sequence[str]) -> RayStart | None:
    found = ray_start(words)
    return found if found is not None and found.is_head else None


# Where the ranks of each engine meet: flags for the address, and for a port of its own.
_MEETING = {
    "sglang": ((("--dist-init-addr", "--nccl-init-addr"), ()),),
    "vllm": (
        (("--master-addr",), ("--master-port",)),
        (("--data-parallel-address", "-dpa"), ("--data-parallel-rpc-port", "-dpp")),
    ),
}


@dataclass(frozen=True, kw_only=True)
class EngineRank:
    """One engine's place. Two with the same `cluster` belong together."""

    number: int
    of: int | None  # how many; None: its flags do not say
    meeting: str  # "10.0.0.1:20000"
    cluster: str

    @property
    def follows(self) -> bool:
        """Whether it works for another one, and serves nobody by itself."""
        return self.number > 0


def read_rank(launch: Launch) -> EngineRank | None:
    """None for an engine that runs on one box alone, or whose flags do not say where ranks meet.

    Rule: SGLang's --nnodes, --node-rank and --dist-init-addr; vLLM's --nnodes, --node-rank and
    --master-addr, or --data-parallel-address with --data-parallel-start-rank or --headless.
    """
    flags = launch.flags
    for addresses, ports in _MEETING.get(launch.engine, ()):
        address = flag_value(flags, *addresses) or ""
        if (address.rpartition(":")[0] or address) in _LOCAL:
            continue
        port = flag_value(flags, *ports) if ports else ""
        meeting = f"{address}:{port}" if port else address
        number, of = _place(flags)
        if number is None or of == 1:
            continue
        cluster = f"{launch.engine} {meeting} {of or ''} {launch.checkpoint}"
        return EngineRank(number=number, of=of, meeting=meeting, cluster=cluster)
    return None


def _place(flags: tuple[str, ...]) -> tuple[int | None, int | None]:
    nodes = _whole(flag_value(flags, "--nnodes"))
    if nodes is not None:
        return _whole(flag_value(flags, "--node-rank")) or 0, nodes
    start = _whole(flag_value(flags, "--data-parallel-start-rank", "-dpr"))
    if start is None and flag_value(flags, "--headless") is not None:
        return None, None  # which rank it is, nobody says
    if _whole(flag_value(flags, "--data-parallel-size", "-dp")) is None:
        return None, None
    return start or 0, None


def _whole(said: str | None) -> int | None:
    return int(said) if said and said.isascii() and said.isdigit() and len(said) < 6 else None


def group_ranks(ranks: Mapping[int, EngineRank]) -> dict[int, tuple[int, ...]]:
    """Of each first rank, those that follow it, in their order; keys are the callers' own.

    A rank whose first one is not known, or not the only one, stands for itself.
    """
    heads: dict[str, list[int]] = {}
    for key, each in ranks.items():
        if not each.follows:
            heads.setdefault(each.cluster, []).append(key)
    found: dict[int, tuple[int, ...]] = {}
    for cluster, keys in heads.items():
        follow = [key for key, each in ranks.items() if each.cluster == cluster and each.follows]
        if len(keys) == 1 and follow:
            found[keys[0]] = tuple(sorted(follow, key=lambda key: (ranks[key].number, key)))
    return found
