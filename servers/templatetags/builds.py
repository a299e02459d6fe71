"""Builds of profiles' Dockerfiles, on pages."""

from dataclasses import dataclass

from django import template

from servers.contexts import disks
from servers.judge.images import dockerfile
from servers.lifecycle.images import build_names
from servers.models import Box, ImageJob, Profile, StoredImage

register = template.Library()


@dataclass(frozen=True, kw_only=True)
class OnBox:
    box: Box
    image: StoredImage | None  # as the box's watcher has last seen it
    job: ImageJob | None  # the newest


@dataclass(frozen=True, kw_only=True)
class Build:
    tag: str
    base: str
    is_used: bool  # the profile starts from it
    boxes: list[OnBox]

    @property
    def is_there(self) -> bool:
        """On one box at least."""
        return any(
            each.image is not None or (each.job is not None and each.job.state == "done")
            for each in self.boxes
        )


@register.simple_tag
def jobs_mark() -> str:
    """Another text whenever a pull or build of an image has come further."""
    return disks.jobs_mark()


@register.simple_tag
def build_of(profile: Profile) -> Build | None:
    """None for a profile without a Dockerfile."""
    launch = profile.launch
    if not launch.dockerfile:
        return None
    tag = build_names.tag(profile.slug, launch)
    placed = Box.objects.filter(servers__profile=profile, servers__removed_at=None).distinct()
    return Build(
        tag=tag,
        base=dockerfile.base(launch.dockerfile),
        is_used=launch.image == tag,
        boxes=[_build_on_box(box, tag) for box in placed or Box.objects.all()],
    )


def _build_on_box(box: Box, tag: str) -> OnBox:
    jobs = ImageJob.objects.filter(box=box, what=tag, kind=ImageJob.Kind.BUILD)
    images = StoredImage.objects.filter(box=box)
    return OnBox(
        box=box,
        image=next((each for each in images if tag in each.tags), None),
        job=jobs.first(),
    )
