"""What is known to fail about a launch on a box, from what the box has last said of itself."""

from dataclasses import replace

from servers.engines.launch import Launch
from servers.judge.lint import lint
from servers.judge.subject import BoxKind, Finding, Gpu, Subject
from servers.models import Box, ImageFacts


def findings(launch: Launch, box: Box | None) -> list[Finding]:
    """The worst first. Without a box only what holds on every box."""
    return lint(subject(launch, box))


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
