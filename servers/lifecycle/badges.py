"""How many known failures stand in each profile of a list, counted once a launch."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

from servers.engines.launch import Launch
from servers.judge.experience import weigh
from servers.judge.lint import lint
from servers.judge.subject import Finding, Subject
from servers.lifecycle.checks import subject_with, worked_in
from servers.models import Box, ImageFacts, Profile, Run

# Some pages of the longest list.
KEPT = 2000


@dataclass(frozen=True, kw_only=True, order=True)
class Badge:
    errors: int = 0
    warnings: int = 0


def badges(profiles: Iterable[Profile]) -> dict[int, Badge]:
    """By profile, on the box where it looks worst. Wants servers and their boxes fetched."""
    profiles = list(profiles)
    boxes = {server.box_id: server.box for each in profiles for server in each.servers.all()}
    images = {
        (image.box_id, image.reference, image.engine): image
        for image in ImageFacts.objects.filter(box__in=boxes.values()).defer("flags")
    }
    good = Run.objects.last_good([server.pk for each in profiles for server in each.servers.all()])
    return {each.pk: _worst(each, images, good) for each in profiles}


def _worst(
    profile: Profile, images: dict[tuple[int, str, str], ImageFacts], good: dict[int, Run]
) -> Badge:
    launch = profile.launch
    questions = [
        _question(
            launch,
            server.box,
            images.get((server.box_id, launch.image, launch.engine)),
            good.get(server.pk),
        )
        for server in profile.servers.all()
    ]
    return max(map(_counted, questions or [_question(launch)]))


@dataclass(frozen=True, kw_only=True)
class _Question:
    """What an answer depends on."""

    launch: str
    box: str
    image: tuple[int, datetime] | None
    good: int | None
    answer: Callable[[], list[Finding]] = field(compare=False)


def _question(
    launch: Launch,
    box: Box | None = None,
    image: ImageFacts | None = None,
    good: Run | None = None,
) -> _Question:
    def answer() -> list[Finding]:
        subject = subject_with(launch, box, image) if box else Subject(launch=launch)
        return weigh(lint(subject), launch, worked_in(good))

    return _Question(
        launch=repr(launch.to_json()),
        box=repr((box.gpus, box.facts.get("driver"))) if box else "",
        image=(image.pk, image.asked_at) if image else None,
        good=good.pk if good else None,
        answer=answer,
    )


@lru_cache(maxsize=KEPT)
def _counted(question: _Question) -> Badge:
    found = [each.severity for each in question.answer()]
    return Badge(errors=found.count("error"), warnings=found.count("warning"))
