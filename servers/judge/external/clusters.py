"""Clusters: engines that are ranks of one, by their flags.

Only of those that were started elsewhere: inferdash itself starts none over several boxes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from servers.launch.engines.engine import flag_value
from servers.launch.engines.launch import Launch

# Where the ranks of each engine meet: flags for the address, and for a port of its own.
_MEETING = {
    "sglang": ((("--dist-init-addr", "--nccl-init-addr"), ()),),
    "vllm": (
        (("--master-addr",), ("--master-port",)),
        (("--data-parallel-address", "-dpa"), ("--data-parallel-rpc-port", "-dpp")),
    ),
}
_LOCAL = ("", "127.0.0.1", "localhost", "0.0.0.0", "::1")  # noqa: S104 - says nothing of who


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


def rank(launch: Launch) -> EngineRank | None:
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


def together(ranks: Mapping[int, EngineRank]) -> dict[int, tuple[int, ...]]:
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
