"""How many known failures stand in each profile of a list, counted once a launch."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

from servers.engines import parameters
from servers.engines.launch import Launch
from servers.judge.experience import weigh
from servers.judge.lint import lint
from servers.judge.subject import Finding, Subject
from servers.lifecycle import checkpoints
from servers.lifecycle.checks import subject_with, worked_in
from servers.models import CheckpointFacts, ImageFacts, Profile, Run, Server

# Some pages of the longest list.
KEPT = 2000


@dataclass(frozen=True, kw_only=True, order=True)
class Badge:
    errors: int = 0
    warnings: int = 0


def badges(profiles: Iterable[Profile]) -> dict[int, Badge]:
    """By profile, on the box where it looks worst. Wants servers and their boxes fetched."""
    profiles = list(profiles)
    known = _Known.of([server for each in profiles for server in each.servers.all()])
    return {each.pk: max(map(_counted, _questions(each, known))) for each in profiles}


@dataclass(frozen=True, kw_only=True)
class _Known:
    """What a list's boxes have told, fetched at once."""

    images: dict[tuple[int, str, str], ImageFacts]
    checkpoints: dict[tuple[int, str], CheckpointFacts]
    good: dict[int, Run]  # by server

    @classmethod
    def of(cls, servers: list[Server]) -> "_Known":
        boxes = {server.box_id for server in servers}
        images = ImageFacts.objects.filter(box__in=boxes).defer("flags")
        seen = CheckpointFacts.objects.filter(box__in=boxes)
        return cls(
            images={(each.box_id, each.reference, each.engine): each for each in images},
            checkpoints={(each.box_id, each.source): each for each in seen},
            good=Run.objects.last_good([server.pk for server in servers]),
        )


@dataclass(frozen=True, kw_only=True)
class _Question:
    """What an answer depends on."""

    launch: str
    box: str = ""
    image: tuple[int, datetime] | None = None
    checkpoint: tuple[int, datetime] | None = None
    good: int | None = None
    answer: Callable[[], list[Finding]] = field(compare=False)


def _questions(profile: Profile, known: _Known) -> list[_Question]:
    launch = profile.launch
    asked = [_question(launch, server, known) for server in profile.servers.all()]
    anywhere = _Question(launch=repr(launch.to_json()), answer=lambda: lint(Subject(launch=launch)))
    return asked or [anywhere]


def _question(launch: Launch, server: Server, known: _Known) -> _Question:
    launch, box = parameters.fill(launch, server.values), server.box
    image = known.images.get((box.pk, launch.image, launch.engine))
    checkpoint = known.checkpoints.get((box.pk, checkpoints.source(launch, box)))
    good = known.good.get(server.pk)

    def answer() -> list[Finding]:
        found = lint(subject_with(launch, box, image, checkpoint))
        return weigh(found, launch, worked_in(good))

    return _Question(
        launch=repr(launch.to_json()),
        box=repr((box.gpus, box.facts.get("driver"))),
        image=(image.pk, image.changed_at) if image else None,
        checkpoint=(checkpoint.pk, checkpoint.changed_at) if checkpoint else None,
        good=good.pk if good else None,
        answer=answer,
    )


@lru_cache(maxsize=KEPT)
def _counted(question: _Question) -> Badge:
    found = [each.severity for each in question.answer()]
    return Badge(errors=found.count("error"), warnings=found.count("warning"))
