"""The preflight of a start, and the docker run command that it would amount to, for pages, API, commands."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import Any, Literal

from django.utils import timezone

from servers.host.docker.containers import kernels_volume
from servers.judge.messages import say
from servers.judge.profiles import admission
from servers.judge.profiles.facts import LintFinding
from servers.judge.profiles.preflight import (
    LEVELS,
    WORDS,
    ClockOffset,
    PreflightItem,
    StartContext,
    preflight,
)
from servers.judge.runs import limits
from servers.judge.runs.limits import PIDS, Limits, drop_rights
from servers.judge.weights.fit.result import Estimate
from servers.launch.engines import placement, usual_entrypoint
from servers.launch.engines.engine import secret_words
from servers.launch.engines.launch import Launch, fill_parameters
from servers.launch.engines.placement import CardsError, Volume, VolumeError
from servers.launch.spec import Spec
from servers.lifecycle.profiles import checks, path_reports
from servers.lifecycle.profiles.knowledge import LaunchContext, share_knowledge
from servers.lifecycle.weights import inventory
from servers.models import Box, HostResources, Profile
from servers.models.people.key import mask


@dataclass(frozen=True, kw_only=True)
class Preview:
    command: str = ""
    volumes: list[Volume] | None = None  # resolved for the box
    problem: str = ""


def preview(context: LaunchContext) -> Preview:
    launch = context.launch
    try:
        spec = _build_spec(context, kernels=kernels_volume(_image_id(context)))
        volumes = placement.volumes(launch, _site(context))
    except (VolumeError, CardsError) as error:
        return Preview(problem=str(error))
    secrets = {"HF_TOKEN", *launch.secret_env} & set(spec.env)
    command = mask(spec.docker_run(mask=secrets), secret_words(launch.flags))
    return Preview(command=command, volumes=volumes)


def _image_id(context: LaunchContext) -> str:
    """ "" while the box has not told it."""
    host_resources = context.knowledge.host_resources(context.box)
    there = host_resources.images.get(context.launch.image) if host_resources else None
    return str(there["id"]) if there else context.image.image_id if context.image else ""


def _build_spec(context: LaunchContext, *, kernels: str = "") -> Spec:
    """The container of a start, with its secrets masked. Raises VolumeError, CardsError."""
    launch, box, image = context.launch, context.box, context.image
    usual = usual_entrypoint(launch.image)
    spec = placement.spec(
        launch,
        _site(context),
        # A copy with them would take the place of the run that a start makes.
        name="",
        labels={},
        host_port=launch.host_port,
        entrypoint=image.entrypoint_or(usual) if image else usual,
        kernels_volume=kernels,
        gpus=context.choose_gpus(),
        known=image.flaglist if image else None,
    )
    return drop_rights(
        spec,
        pids=box.facts.get("limits", {}).get("pids_limit", PIDS),
        without=box.facts.get("left_out", ()),
    )


def _site(context: LaunchContext) -> placement.Site:
    box = context.box
    return placement.Site(
        home=box.home,
        hf_cache=box.hf_cache,
        hf_token="masked" if box.hf_token_id else "",  # noqa: S106 - stands in for the token
        secrets=dict.fromkeys(context.launch.secret_env, "masked"),
    )


def list_refusals(context: LaunchContext) -> tuple[str, ...]:
    """Why the box would refuse its container, a sentence each; what it has not told yet refuses
    nothing, and neither do devices, of which only the box knows where they lead."""
    box = context.box
    if twins := box.facts.get("twins"):
        one, other = twins
        return (say("links.twins-refusal", box=box, one=one, other=other).text,)
    told: dict[str, Any] = box.facts.get("limits") or {}
    try:
        spec = _build_spec(context)
    except (VolumeError, CardsError):
        return ()  # said where the command is shown
    allowed = Limits(
        privileged=told.get("privileged", True),
        host_network=told.get("host_network", True),
        host_ipc=told.get("host_ipc", True),
        host_pid=told.get("host_pid", True),
        open_ports=told.get("open_ports", True),
        cap_add=tuple(told.get("cap_add", spec.cap_add)),
        security_opt=tuple(told.get("security_opt", spec.security_opt)),
    )
    manage = box.facts.get("manage") or limits.MANAGE
    found = limits.refusals(replace(spec, mounts=(), devices=()), allowed, manage=manage)
    return (*found, *path_reports.refusals(context.folders or ()))


LOOKED_WITHIN = timedelta(minutes=3)
REFUSED = "hf-token-required"  # the diagnosis of a run that Hugging Face gave nothing


@dataclass(frozen=True, kw_only=True, order=True)
class Count:
    """The one verdict: of checks and rules together, on every page and in the API."""

    errors: int = 0
    warnings: int = 0


@dataclass(frozen=True, kw_only=True)
class PreflightResult:
    items: list[PreflightItem]
    known: checks.CheckReport

    @property
    def findings(self) -> list[LintFinding]:
        return self.known.findings

    @property
    def fit(self) -> Estimate | None:
        return self.known.fit

    @property
    def errors(self) -> list[PreflightItem]:
        return [item for item in self.items if item.level == "error"]

    @property
    def faults(self) -> list[LintFinding]:
        return [each for each in self.findings if each.severity == "error"]

    @property
    def lasting(self) -> list[LintFinding]:
        """Faults that do not pass by waiting until the GPUs are free."""
        return [each for each in self.faults if each.rule not in admission.NOW]

    @property
    def may_start(self) -> bool:
        return not self.errors and not self.faults

    @property
    def count(self) -> Count:
        return Count(errors=self._levels["error"], warnings=self._levels["warning"])

    def _is_of_fit(self, said: str) -> bool:
        return self.fit is not None and said in self.fit.says

    @property
    def shown_faults(self) -> list[LintFinding]:
        """Beside what the memory fit says, which stands apart with its bar."""
        return [each for each in self.faults if not self._is_of_fit(each.says)]

    @property
    def warnings(self) -> list[LintFinding | PreflightItem]:
        """In the same way."""
        found = [each for each in self.findings if each.severity == "warning"]
        shown = [each for each in found if not self._is_of_fit(each.says)]
        return [*shown, *self._list_items("warning")]

    @property
    def rest(self) -> list[LintFinding | PreflightItem]:
        """What nobody has to act on: hints, what is not known, what is in order."""
        hints = [each for each in self.findings if each.severity == "info"]
        return [*hints, *self._list_items("unknown", "ok")]

    def _list_items(self, *levels: str) -> list[PreflightItem]:
        shown = [each for each in self.items if each.level in levels]
        return [each for each in shown if each.id != "memory" or self.fit is None]

    @property
    def tone(self) -> str:
        """How loud a page says it."""
        return "failed" if self.count.errors else "attention" if self.count.warnings else "ready"

    @property
    def headline(self) -> str:
        """ "2 errors, 1 warning"; "No errors"; "Will not fit, 1 warning" where only the estimate says so."""
        levels = {"error": self.count.errors, "warning": self.count.warnings}
        said = [f"{n} {word}{'s' if n > 1 else ''}" for word, n in levels.items() if n]
        if self.count.errors:
            return ", ".join(said)
        is_too_large = self.fit is not None and self.fit.verdict == "no"
        return ", ".join(["Will not fit" if is_too_large else "No errors", *said])

    @property
    def summary(self) -> str:
        """How many checks and rules found what, in a few words."""
        found = [(WORDS[level], self._levels[level]) for level in LEVELS if self._levels[level]]
        return ", ".join(
            f"{count} {word}{'s' if count > 1 and word in ('error', 'warning') else ''}"
            for word, count in found
        )

    @cached_property
    def _levels(self) -> Counter[str]:
        rules = [each.severity for each in self.findings if each.severity != "info"]
        # What a finding says of the memory, the memory's own item says, too.
        is_told = any(self._is_of_fit(each.says) for each in self.findings)
        items = [each for each in self.items if each.id != "memory" or not is_told]
        return Counter([*(each.level for each in items), *rules])

    def to_json(self) -> dict[str, Any]:
        return {
            "may_start": self.may_start,
            "errors": self.count.errors,
            "warnings": self.count.warnings,
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


def check(context: LaunchContext) -> PreflightResult:
    """From what the box has last written down: nobody is asked and nothing is waited for.

    With the server, what runs of it is taken for replaced by the start; else what runs of the
    profile.
    """
    known = checks.check_start(context)
    items = preflight(known.subject, _build_start_context(context), known.fit)
    return PreflightResult(items=items, known=known)


def anywhere(launch: Launch) -> PreflightResult:
    """Of a launch that has no box yet: what holds on every one."""
    return PreflightResult(items=[], known=checks.anywhere(launch))


def of_profiles(profiles: Iterable[Profile]) -> dict[int, Count]:
    """By profile, on the box where it looks worst. Wants their servers and boxes fetched."""
    profiles = list(profiles)
    servers = [server for each in profiles for server in each.servers.all()]
    contexts = list(map(LaunchContext.of_server, servers))
    share_knowledge(contexts)
    counts: dict[int, Count] = {}
    for server, context in zip(servers, contexts, strict=True):
        of = server.profile_id
        counts[of] = max(check(context).count, counts.get(of, Count()))
    return {
        each.pk: counts[each.pk] if each.pk in counts else anywhere(each.launch).count
        for each in profiles
    }


def _build_start_context(context: LaunchContext) -> StartContext:
    launch, box, knowledge = context.launch, context.box, context.knowledge
    host_resources = knowledge.host_resources(box)
    mine = context.replaced
    there, missing, remote = _checkpoint(context)
    return StartContext(
        box=str(box),
        is_silent=box.is_silent,
        found=host_resources.found if host_resources else {},
        images=host_resources.images if host_resources else {},
        other_workloads=tuple(
            each for run, each in knowledge.other_workloads(box) if run not in mine
        ),
        port_holders=knowledge.port_holders(box),
        own_ports=frozenset(
            port
            for run, each in knowledge.other_workloads(box)
            if run in mine
            for port in each.ports
        ),
        checkpoint=there,
        missing=missing,
        remote=remote,
        refusals=list_refusals(context),
        has_cache=bool(box.hf_cache),
        has_token=bool(box.hf_token_id and launch.pass_hf_token)
        or "HF_TOKEN" in launch.env
        or "HF_TOKEN" in launch.secret_env,
        was_refused=_was_refused(context),
        clocks=clocks({each: knowledge.host_resources(each) for each in knowledge.boxes}),
    )


def clocks(boxes: Mapping[Box, HostResources | None]) -> dict[str, ClockOffset | None]:
    """Of each box, as it last compared it; None of one that is silent or has not."""
    found: dict[str, ClockOffset | None] = {}
    for box, host_resources in boxes.items():
        told = host_resources.found.get("clock") if host_resources and not box.is_silent else None
        found[str(box)] = (
            ClockOffset(ahead=told["seconds"], within=told["within"]) if told else None
        )
    return found


def _was_refused(context: LaunchContext) -> bool:
    """Whether the last run that ended was, over the very same checkpoint."""
    last = context.knowledge.last_ended(context)
    return (
        last is not None
        and last.log.cause == REFUSED
        and last.version.launch.checkpoint == context.launch.checkpoint
    )


def _checkpoint(
    context: LaunchContext,
) -> tuple[Literal["there", "part", "missing", "unknown"], int | None, str]:
    """Whether it is on the box, how many bytes of it are not, and what the Hub says of it."""
    source, known = context.source, context.checkpoint
    if not source:
        return "unknown", None, ""
    if known is not None and known.remote:
        return "missing", known.missing or None, known.remote
    if known is not None:
        if known.missing:
            return "part", known.missing, ""
        return ("there", 0, "") if known.weights is not None else ("part", None, "")
    if source.startswith("/"):
        lies = _lies(context)
        if lies == "missing":
            return "missing", None, ""
        return ("there" if lies == "there" else "unknown"), None, ""
    if not _was_looked_for(context):
        return "unknown", None, ""
    return "missing", context.knowledge.download_total(context), ""


def is_path_missing(context: LaunchContext) -> bool:
    """Whether nothing is where its checkpoint's path leads, as far as the box has looked."""
    return context.source.startswith("/") and (
        _lies(context) == "missing" or _was_looked_for(context)
    )


def _lies(context: LaunchContext) -> str:
    told = context.folders or ()
    return next((each.lies for each in told if each.path == context.source), "unknown")


def _was_looked_for(context: LaunchContext) -> bool:
    """Whether the watcher has had the time to find it: it looks for what placed profiles name."""
    profile, box = context.profile, context.box
    version = profile.current if profile is not None else None
    if version is None or box.is_silent or timezone.now() - version.created_at < LOOKED_WITHIN:
        return False
    return inventory.source(fill_parameters(version.launch), box) == context.source
