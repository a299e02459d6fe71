"""The published port of an engine, and the address that a reader of the page reaches."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from django.conf import settings

from servers.launch.engines import ENGINES
from servers.launch.engines.engine import listens_beyond_loopback
from servers.models import Run

EVERYWHERE = ("0.0.0.0", "::", "[::]", "")  # noqa: S104 - as profiles and flags say it


@dataclass(frozen=True, kw_only=True)
class PublishedPort:
    """`port` as Docker writes it, and what stands before the path of an example."""

    port: str  # "0.0.0.0:8000"
    base: str  # "http://rtx8.example:8000"
    box: str
    # The example works on the box alone: it is published there only, or nobody can know the name
    # by which the reader reaches the box.
    is_of_box: bool = True
    is_open: bool = False

    @property
    def reader(self) -> str:
        """Who the example is for."""
        if not self.is_of_box:
            return f"any machine that reaches {self.box}"
        return f"a shell on {self.box}{'' if self.is_open else ' only'}"


def find_published_port(run: Run | None, box: str, host: str = "") -> PublishedPort | None:
    """None before it has a port. `host` is the name by which the page was opened, as its request
    says it: this machine's, where the box is this one."""
    port = published_port(run)
    if run is None or not port:
        return None
    address, _colon, number = port.rpartition(":")
    inside = f"http://{_bracket(run.address or '')}:{number}"
    listens = ENGINES[run.launch.engine].listens_on(run.launch)
    # What others have started is asked at its container's own address, which no profile names.
    if address != (_bracket(listens) or EVERYWHERE[0]) or not listens_beyond_loopback(listens):
        return PublishedPort(port=port, base=inside, box=box)
    if address not in EVERYWHERE:
        return PublishedPort(
            port=port, base=f"http://{port}", box=box, is_of_box=False, is_open=True
        )
    name = _name(host)
    if box != settings.BOX or not name or not listens_beyond_loopback(name):
        return PublishedPort(port=port, base=inside, box=box, is_open=True)
    base = f"http://{_bracket(name)}:{number}"
    return PublishedPort(port=port, base=base, box=box, is_of_box=False, is_open=True)


def published_port(run: Run | None) -> str:
    """ "0.0.0.0:8000", as Docker writes it; "" before it has one."""
    if run is None or run.address is None or run.port is None:
        return ""
    listens = ENGINES[run.launch.engine].listens_on(run.launch)
    if not listens_beyond_loopback(listens) or listens_beyond_loopback(run.address):
        return f"{_bracket(run.address)}:{run.port}"
    return f"{_bracket(listens) or EVERYWHERE[0]}:{run.port}"


def _name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""  # no browser sends it


def _bracket(address: str) -> str:
    bare = address.strip("[]")
    return f"[{bare}]" if ":" in bare else bare
