"""How many known failures stand in each profile of a list, counted once a launch."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache, partial

from servers.judge.lint import lint
from servers.judge.subject import Subject
from servers.lifecycle.checks import subject_with
from servers.models import Box, ImageFacts, Profile

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
    return {each.pk: _worst(each, images) for each in profiles}


def _worst(profile: Profile, images: dict[tuple[int, str, str], ImageFacts]) -> Badge:
    launch = profile.launch
    questions = [
        _question(profile, box, images.get((box.pk, launch.image, launch.engine)))
        for box in (server.box for server in profile.servers.all())
    ]
    return max(map(_counted, questions or [_question(profile, None, None)]))


@dataclass(frozen=True, kw_only=True)
class _Question:
    """What an answer depends on."""

    launch: str
    box: str
    image: tuple[int, datetime] | None
    subject: Callable[[], Subject] = field(compare=False)


def _question(profile: Profile, box: Box | None, image: ImageFacts | None) -> _Question:
    launch = profile.launch
    return _Question(
        launch=repr(launch.to_json()),
        box=repr((box.gpus, box.facts.get("driver"))) if box else "",
        image=(image.pk, image.asked_at) if image else None,
        subject=(
            partial(subject_with, launch, box, image) if box else partial(Subject, launch=launch)
        ),
    )


@lru_cache(maxsize=KEPT)
def _counted(question: _Question) -> Badge:
    found = [each.severity for each in lint(question.subject())]
    return Badge(errors=found.count("error"), warnings=found.count("warning"))
