"""What is known to fail about a launch on a box, from what the box has last said of itself."""

from servers.engines.launch import Launch
from servers.judge.lint import lint
from servers.judge.subject import BoxKind, Finding, Gpu, Subject
from servers.models import Box


def findings(launch: Launch, box: Box | None) -> list[Finding]:
    """The worst first. Without a box only what holds on every box."""
    return lint(subject(launch, box))


def subject(launch: Launch, box: Box | None) -> Subject:
    cards = box.gpus if box is not None else None
    if box is None or cards is None:
        return Subject(launch=launch)
    gpus = tuple(
        Gpu(
            index=card["index"],
            name=card["name"] or "",
            compute_capability=card["compute_capability"] or "",
            memory=card["total"],
        )
        for card in cards
    )
    return Subject(
        launch=launch,
        gpus=gpus,
        box_kind=_kind({card["kind"] or "" for card in cards}),
        driver=box.facts.get("driver", ""),
    )


def _kind(kinds: set[BoxKind]) -> BoxKind:
    """The box's, where all of its cards are of one kind."""
    return kinds.pop() if len(kinds) == 1 else ""
