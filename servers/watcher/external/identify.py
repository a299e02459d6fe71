"""Identification of the engine on a port. HTTP alone, no database."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from servers.host.runs import probes
from servers.host.runs.probes import Endpoint, PortKind
from servers.judge.external.engines import Answer
from servers.launch.engines import SERVING
from servers.launch.engines.engine import Engine

LONGEST_VERSION = 60
MOST_NAMES, LONGEST_NAME = 8, 200
# An older name of SGLang's, which newer ones warn of.
_OLDER_PATHS = {"sglang": ("/get_server_info",)}


@dataclass(frozen=True, kw_only=True)
class EngineIdentity:
    """What became of asking. `engine` is "" where nothing of an engine answered."""

    answer: Answer = "silent"
    engine: str = ""
    version: str = ""
    models: tuple[str, ...] = ()
    address: str = ""
    port: int = 0
    is_other: bool = False  # something answered that is no engine


def identify(
    ways: Sequence[Sequence[tuple[str, int]]],
    *,
    hint: str,
    key: str,
    is_its: Callable[[int], bool],
) -> EngineIdentity:
    """Ask port by port until one answers as an engine does.

    `ways` are the addresses of each port, of which one that answers anything is enough. `hint` is the engine by its command line, "" where that names none. `is_its` says of a port
    of the box whether it is the container's.
    """
    best = EngineIdentity()
    for addresses in ways:
        for address, port in addresses:
            if not is_its(port):
                continue
            heard = _ask(Endpoint(address=address, port=port, key=key), hint)
            if heard.answer == "serves":
                return heard
            if heard.answer != "silent" or heard.is_other:
                best = heard
                break
    return best


def _ask(endpoint: Endpoint, hint: str) -> EngineIdentity:
    said = probes.list_models(endpoint)
    address, port = endpoint.address, endpoint.port
    if said.kind is PortKind.NOTHING:
        return EngineIdentity()
    if said.kind in (PortKind.LOADING, PortKind.LOCKED):
        # Without a hint it may be anything that is not well, or that keeps strangers out.
        answer: Answer = "loading" if said.kind is PortKind.LOADING else "locked"
        is_other = not hint and answer == "locked"
        answer = answer if hint else "silent"
        return EngineIdentity(
            answer=answer, engine=hint, is_other=is_other, address=address, port=port
        )
    if said.kind is PortKind.OTHER:
        return EngineIdentity(is_other=True)
    engine, version = _engine(endpoint, said.owners, hint)
    if not engine:
        return EngineIdentity(is_other=True)
    names = tuple(_printable(name, LONGEST_NAME) for name in said.names[:MOST_NAMES])
    return EngineIdentity(
        answer="serves", engine=engine, version=version, models=names, address=address, port=port
    )


def _engine(endpoint: Endpoint, owners: frozenset[str], hint: str) -> tuple[str, str]:
    """Its key and version; "" for what only speaks their language, such as a proxy."""
    named = next((key for key in SERVING if key in owners), "")
    if named:
        return named, _version(endpoint, SERVING[named])
    if hint:
        return hint, _version(endpoint, SERVING[hint])
    if owners <= {""}:
        for engine in SERVING.values():
            if version := _version(endpoint, engine):
                return engine.key, version
    return "", ""


def _version(endpoint: Endpoint, engine: Engine) -> str:
    for path in (engine.version_path, *_OLDER_PATHS.get(engine.key, ())):
        if found := probes.version(endpoint, path, engine.version_key):
            return _printable(found, LONGEST_VERSION)
    return ""


def _printable(text: str, most: int) -> str:
    return "".join(filter(str.isprintable, text))[:most]
