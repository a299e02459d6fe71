"""What is known to fail about a launch on a box, from what the box has last said of itself."""

from dataclasses import replace

from django.utils import timezone

from servers.engines.launch import Launch
from servers.judge.experience import Worked, weigh
from servers.judge.lint import lint
from servers.judge.subject import BoxKind, Finding, Gpu, Subject
from servers.models import Box, ImageFacts, Profile, Run


def findings(launch: Launch, box: Box | None, profile: Profile | None = None) -> list[Finding]:
    """The worst first. Without a box only what holds on every box.

    With the profile, its own starts on this box are weighed against what is known elsewhere.
    """
    found = lint(subject(launch, box))
    if not found or box is None or profile is None:
        return found
    return weigh(found, launch, worked(profile, box))


def worked(profile: Profile, box: Box) -> Worked | None:
    """The latest start on this box that became ready."""
    good = Run.objects.last_good(profile.servers.filter(box=box).values_list("pk", flat=True))
    return worked_in(next(iter(good.values()), None))


def worked_in(run: Run | None) -> Worked | None:
    if run is None or run.ready_at is None:
        return None
    launch, day = run.version.launch, timezone.localdate(run.ready_at)
    return Worked(launch=launch, version=run.version.number, day=day)


def subject(launch: Launch, box: Box | None) -> Subject:
    if box is None:
        return Subject(launch=launch)
    return subject_with(launch, box, ImageFacts.objects.of(launch, box))


def subject_with(launch: Launch, box: Box, image: ImageFacts | None) -> Subject:
    known = Subject(
        launch=launch,
        engine_version=image.version if image else "",
        flaglist=image.flaglist if image else None,
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
