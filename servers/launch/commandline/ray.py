"""Ray of vLLM: its server runs beside a cluster's head, and the other boxes run nothing but
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
