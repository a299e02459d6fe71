"""What is known to fail about a launch on a box, from what the box has last said of itself."""

from dataclasses import dataclass, replace

from django.utils import timezone

from servers import live
from servers.engines import parameters
from servers.engines.launch import Launch
from servers.judge import holders
from servers.judge.experience import Worked, weigh
from servers.judge.fit.told import Estimate
from servers.judge.lint import lint
from servers.judge.subject import BoxKind, Finding, Gpu, Subject
from servers.lifecycle import checkpoints, fits
from servers.models import Box, CheckpointFacts, ImageFacts, Profile, Run, Server


@dataclass(frozen=True, kw_only=True)
class Known:
    """Findings, the worst first, and whether it fits: None without a box, or without GPUs."""

    subject: Subject
    findings: list[Finding]
    fit: Estimate | None

    @property
    def every(self) -> list[Finding]:
        """With the changes that would make it fit."""
        return [*self.findings, *fits.findings(self.fit)]


def known(
    launch: Launch, box: Box | None, profile: Profile | None = None, server: Server | None = None
) -> Known:
    """What is known of a start now, with the memory that its GPUs have free at this moment.

    With the server, what only that one holds counts as free; else what all of the profile's do.
    """
    asked = subject(launch, box, profile)
    fit = None
    if box is not None:
        asked = replace(asked, rooms=fits.rooms(box, profile, server))
        fit = fits.estimate(asked, box, profile, server)
    return Known(subject=asked, findings=_weighed(lint(asked), launch, box, profile), fit=fit)


def findings(launch: Launch, box: Box | None, profile: Profile | None = None) -> list[Finding]:
    """The worst first, whatever memory is free now. Without a box what holds on every box.

    With the profile, its own starts on this box are weighed against what is known elsewhere.
    """
    return _weighed(lint(subject(launch, box, profile)), launch, box, profile)


def _weighed(
    found: list[Finding], launch: Launch, box: Box | None, profile: Profile | None
) -> list[Finding]:
    if not found or box is None or profile is None:
        return found
    return weigh(found, launch, worked(profile, box))


def worked(profile: Profile, box: Box) -> Worked | None:
    """The latest start on this box that became ready."""
    good = Run.objects.last_good(profile.servers.filter(box=box).values_list("pk", flat=True))
    return worked_in(next(iter(good.values()), None))


def worked_in(run: Run | None) -> Worked | None:
    """What its start says of its launch; None of one that inferdash has not made."""
    if run is None or run.ready_at is None or run.is_watched:
        return None
    launch, day = parameters.fill(run.version.launch, run.values), timezone.localdate(run.ready_at)
    return Worked(launch=launch, version=run.version.number, day=day)


def subject(launch: Launch, box: Box | None, profile: Profile | None = None) -> Subject:
    if box is None:
        return Subject(launch=launch)
    return replace(by_itself(launch, box), others=_others(box, profile))


def by_itself(launch: Launch, box: Box) -> Subject:
    """Without a look at who else is on the box."""
    return subject_with(
        launch, box, ImageFacts.objects.of(launch, box), checkpoints.known(launch, box)
    )


def _others(box: Box, profile: Profile | None) -> tuple[str, ...] | None:
    """Who holds GPU memory beside the profile's own server, which a start would replace."""
    sample = live.sample(box.slug)
    if sample is None:
        return None
    own = Run.objects.active().filter(server__box=box, server__profile=profile)
    return holders.others(sample, set(own.values_list("container_id", flat=True)))


def subject_with(
    launch: Launch, box: Box, image: ImageFacts | None, checkpoint: CheckpointFacts | None
) -> Subject:
    known = Subject(
        launch=launch,
        engine_version=image.version if image else "",
        flaglist=image.flaglist if image else None,
        checkpoint_config=checkpoint.config if checkpoint else None,
        weights=checkpoint.weights if checkpoint else None,
    )
    cards = box.gpus
    if cards is None:
        return known
    gpus = tuple(
        Gpu(
            index=card["index"],
            name=card["name"] or "",
            compute_capability=card["compute_capability"] or "",
            memory=card["total"],
        )
        for card in cards
    )
    return replace(
        known,
        gpus=gpus,
        box_kind=_kind({card["kind"] or "" for card in cards}),
        driver=box.facts.get("driver", ""),
    )


def _kind(kinds: set[BoxKind]) -> BoxKind:
    """The box's, where all of its cards are of one kind."""
    return kinds.pop() if len(kinds) == 1 else ""
