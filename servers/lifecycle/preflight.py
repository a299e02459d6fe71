"""Everything that is known about a start before it is made: the one truth for pages and commands."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from django.utils import timezone

from servers.engines import ENGINES, parameters
from servers.engines.launch import Launch
from servers.judge import admission
from servers.judge.fit.told import Estimate
from servers.judge.preflight import LEVELS, Around, Clock, Item, Neighbour, preflight
from servers.judge.subject import Finding
from servers.lifecycle import allowances, checkpoints, checks, folders, portholders
from servers.models import Box, Profile, Run, Server, Supplies
from servers.models.run import State

LOOKED_WITHIN = timedelta(minutes=3)
REFUSED = "hf-token-required"  # the diagnosis of a run that Hugging Face gave nothing


@dataclass(frozen=True, kw_only=True)
class Checked:
    items: list[Item]
    known: checks.Known

    @property
    def findings(self) -> list[Finding]:
        return self.known.findings

    @property
    def fit(self) -> Estimate | None:
        return self.known.fit

    @property
    def errors(self) -> list[Item]:
        return [item for item in self.items if item.level == "error"]

    @property
    def faults(self) -> list[Finding]:
        return [each for each in self.findings if each.severity == "error"]

    @property
    def lasting(self) -> list[Finding]:
        """Faults that do not pass by waiting until the GPUs are free."""
        return [each for each in self.faults if each.rule not in admission.NOW]

    @property
    def may_start(self) -> bool:
        return not self.errors and not self.faults

    @property
    def summary(self) -> str:
        """How many checks and rules found what, in a few words."""
        words = {"error": "failing", "warning": "risky", "unknown": "not known", "ok": "fine"}
        counted = Counter([*(item.level for item in self.items), *self._of_rules()])
        return ", ".join(f"{counted[level]} {words[level]}" for level in LEVELS if counted[level])

    def _of_rules(self) -> Iterator[str]:
        for each in self.findings:
            if each.severity in ("error", "warning"):
                yield each.severity

    def to_json(self) -> dict[str, Any]:
        return {
            "may_start": self.may_start,
            "checks": [
                {
                    "id": each.id,
                    "level": each.level,
                    "says": each.says,
                    "remedy": each.remedy,
                }
                for each in self.items
            ],
            "findings": [
                {"rule": each.rule, "level": each.severity, "about": each.about, "says": each.says}
                for each in self.findings
            ],
            "memory": None
            if self.fit is None
            else {
                "verdict": self.fit.verdict,
                "says": self.fit.says,
                "measured": self.fit.is_measured,
                "total": self.fit.total,
                "parts": {part.kind: part.size for part in self.fit.parts},
                "unknown": list(self.fit.unknown),
            },
        }


def check(
    launch: Launch, box: Box, profile: Profile | None = None, server: Server | None = None
) -> Checked:
    """From what the box has last written down: nobody is asked and nothing is waited for.

    With the server, what runs of it is taken for replaced by the start; else what runs of the
    profile.
    """
    launch = parameters.fill(launch)
    known = checks.known(launch, box, profile, server)
    around = _around(launch, box, profile, server)
    items = preflight(known.subject, around, known.fit)
    return Checked(items=items, known=known)


def _around(launch: Launch, box: Box, profile: Profile | None, server: Server | None) -> Around:
    supplies = Supplies.objects.filter(box=box).first()
    active = Run.objects.active().filter(server__box=box).select_related("server", "version")
    runs = list(active)
    mine = [
        run
        for run in runs
        if (server is not None and run.server_id == server.pk)
        or (server is None and profile is not None and run.server.profile_id == profile.pk)
    ]
    there, missing, remote = _checkpoint(launch, box, profile)
    return Around(
        box=str(box),
        is_silent=box.is_silent,
        found=supplies.found if supplies else {},
        images=supplies.images if supplies else {},
        neighbours=tuple(_neighbour(run, box) for run in runs if run not in mine),
        port_holders=portholders.of_others(box),
        own_ports=frozenset(port for run in mine for port in _ports(run)),
        checkpoint=there,
        missing=missing,
        remote=remote,
        refusals=allowances.refusals(launch, box),
        has_cache=bool(box.hf_cache),
        has_token=bool(box.hf_token_id and launch.pass_hf_token)
        or "HF_TOKEN" in launch.env
        or "HF_TOKEN" in launch.secret_env,
        was_refused=_was_refused(launch, profile, server),
        clocks=clocks(),
    )


def clocks() -> dict[str, Clock | None]:
    """Of every box, as it last compared it; None of one that is silent or has not."""
    found: dict[str, Clock | None] = {}
    for box in Box.objects.select_related("supplies"):
        supplies = getattr(box, "supplies", None)
        told = supplies.found.get("clock") if supplies and not box.is_silent else None
        found[str(box)] = Clock(ahead=told["seconds"], within=told["within"]) if told else None
    return found


def _was_refused(launch: Launch, profile: Profile | None, server: Server | None) -> bool:
    """Whether the last run that ended was, over the very same checkpoint."""
    if profile is None:
        return False
    runs = Run.objects.filter(server__profile=profile).exclude(ended_at=None)
    last = (runs.filter(server=server) if server else runs).select_related("version").first()
    return (
        last is not None
        and last.cause == REFUSED
        and last.version.launch.checkpoint == launch.checkpoint
    )


def _neighbour(run: Run, box: Box) -> Neighbour:
    return Neighbour(
        name=run.server.slug,
        gpus=box.indices(run.gpus or run.version.launch.gpus),
        ports=_ports(run),
        is_loading=run.state in (State.CREATING, State.STARTING),
    )


def _ports(run: Run) -> frozenset[int]:
    launch = run.version.launch
    wanted = ENGINES[launch.engine].port(launch) if launch.network == "host" else launch.host_port
    return frozenset(port for port in (run.port, wanted) if port)


def _checkpoint(
    launch: Launch, box: Box, profile: Profile | None
) -> tuple[Literal["there", "part", "missing", "unknown"], int | None, str]:
    """Whether it is on the box, how many bytes of it are not, and what the Hub says of it."""
    source = checkpoints.source(launch, box)
    if not source:
        return "unknown", None, ""
    known = checkpoints.known(launch, box)
    if known is not None and known.remote:
        return "missing", known.missing or None, known.remote
    if known is not None:
        if known.missing:
            return "part", known.missing, ""
        return ("there", 0, "") if known.weights is not None else ("part", None, "")
    if source.startswith("/"):
        lies = _lies(source, launch, box)
        if lies == "missing":
            return "missing", None, ""
        return ("there" if lies == "there" else "unknown"), None, ""
    if not was_looked_for(source, box, profile):
        return "unknown", None, ""
    last = Run.objects.filter(
        server__box=box,
        download_total__isnull=False,
        version__spec__checkpoint=launch.checkpoint,
    ).first()
    return "missing", last.download_total if last else None, ""


def is_missing(path: str, launch: Launch, box: Box) -> bool:
    """Whether the box has said a moment ago that nothing is at a path that the launch needs."""
    return _lies(path, launch, box) == "missing"


def _lies(path: str, launch: Launch, box: Box) -> str:
    told = folders.kept(box, folders.needed(launch, box)) or ()
    return next((each.lies for each in told if each.path == path), "unknown")


def was_looked_for(source: str, box: Box, profile: Profile | None) -> bool:
    """Whether the watcher has had the time to find it: it looks for what placed profiles name."""
    version = profile.current if profile is not None else None
    if version is None or box.is_silent or timezone.now() - version.created_at < LOOKED_WITHIN:
        return False
    return checkpoints.source(parameters.fill(version.launch), box) == source
