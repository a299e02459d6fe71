"""Probes of engines: readiness and status. HTTP alone, no database."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from servers.host.runs import probes
from servers.host.runs.probes import Endpoint, HealthAnswer
from servers.host.runs.prometheus import Exposed
from servers.judge.runs import metric_map
from servers.launch.engines.engine import Engine

MOST_REQUESTS = 1_000_000  # what an engine claims beyond that is no count
LONGEST_VERSION, LONGEST_NAME = 60, 200  # characters that the database keeps


@dataclass(frozen=True, kw_only=True)
class ReadinessProbe:
    """A start's answer. `version` is "" where the engine does not say it."""

    is_ready: bool
    version: str = ""
    served_name: str = ""


@dataclass(frozen=True, kw_only=True)
class StatusProbe:
    """A ready engine's answer."""

    health: HealthAnswer
    took: float | None = None  # seconds of its health path; None: it was not asked
    at: float  # of time.monotonic()
    exposed: Exposed = field(default_factory=Exposed)
    busy_slots: int | None = None

    @property
    def figures(self) -> Mapping[str, float]:
        return self.exposed.totals

    def requests(self, engine: Engine) -> int | None:
        """Requests that run or wait; None when the engine does not say."""
        if engine.running_metric not in self.figures:
            return self.busy_slots
        waiting = self.figures.get(engine.waiting_metric, 0)
        return int(min(max(self.figures[engine.running_metric] + waiting, 0), MOST_REQUESTS))

    def pulse(self, engine: Engine) -> tuple[float, ...]:
        """The figures that move while it computes; () when it tells none of them."""
        return tuple(self.figures[name] for name in engine.moving_metrics if name in self.figures)


def probe_start(
    endpoint: Endpoint, engine: Engine, *, path: str, served_name: str, takes_any: bool = False
) -> ReadinessProbe:
    """`takes_any`: whatever it lists is its model; nobody has told it a name."""
    if probes.health(endpoint, path) is not HealthAnswer.OK:
        return ReadinessProbe(is_ready=False)
    if not engine.serves_models:
        return ReadinessProbe(is_ready=True)
    names = probes.models(endpoint, engine.models_path)
    if takes_any and names and served_name not in names:
        served_name = "".join(filter(str.isprintable, names[0]))[:LONGEST_NAME]
    elif names is None or served_name not in names:
        return ReadinessProbe(is_ready=False)
    version = probes.version(endpoint, engine.version_path, engine.version_key)
    printable = "".join(filter(str.isprintable, version or ""))
    return ReadinessProbe(
        is_ready=True, version=printable[:LONGEST_VERSION], served_name=served_name
    )


def probe_status(
    endpoint: Endpoint, engine: Engine, *, path: str, spare_health: bool
) -> StatusProbe:
    """`spare_health`: the figures alone will do, where there are any. Many images write a line
    into their log for each question."""
    found = _figures(endpoint, engine) if spare_health else None
    if found is not None and found.figures:
        return found
    asked_at = time.monotonic()
    health = probes.health(endpoint, path)
    took = time.monotonic() - asked_at
    if health in (HealthAnswer.REFUSED, HealthAnswer.SILENT):
        return StatusProbe(health=health, took=took, at=time.monotonic())
    return replace(found or _figures(endpoint, engine), health=health, took=took)


def _figures(endpoint: Endpoint, engine: Engine) -> StatusProbe:
    if not engine.metrics_path:
        return StatusProbe(health=HealthAnswer.OK, at=time.monotonic())
    names = {engine.running_metric, engine.waiting_metric, *engine.moving_metrics}
    book = metric_map.by_engine().get(engine.key)
    if book is not None:
        names |= book.names
    histograms = book.histograms if book else ()
    at = time.monotonic()
    exposed = probes.fetch_metrics(endpoint, names, histograms, path=engine.metrics_path)
    slots = None
    if engine.running_metric not in exposed.totals and engine.slots_path:
        slots = probes.busy_slots(endpoint, engine.slots_path)
    return StatusProbe(health=HealthAnswer.OK, at=at, exposed=exposed, busy_slots=slots)
