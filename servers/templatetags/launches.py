"""Launches on pages: each flag and variable with its reason, and builds of Dockerfiles."""

import re
from collections import Counter
from dataclasses import dataclass, replace

from django import template

from servers.contexts import disks
from servers.forms.profile import ProfileForm
from servers.judge.images import dockerfile
from servers.judge.profiles.facts import LintFinding
from servers.judge.profiles.preflight import PreflightItem
from servers.launch import numbers
from servers.launch.commandline import lines
from servers.launch.engines import flaghelp
from servers.launch.engines.change import Difference, LaunchChange, field_text, value_words
from servers.launch.engines.engine import secret_words
from servers.launch.engines.flaghelp import FlagRow
from servers.launch.engines.launch import FIELDS, Launch
from servers.lifecycle.images.inventory import name_build
from servers.lifecycle.profiles import checks
from servers.lifecycle.profiles.path_reports import PathReport
from servers.models import Box, ImageFacts, ImageJob, Profile, Server, StoredImage
from servers.models.people.key import MASK, mask

register = template.Library()

# Fields of a launch that the form shows under another name.
_TITLES = {"ipc": "Share the box's IPC (--ipc=host)", "secret_env": "Secrets"}


@register.filter
def flag_rows(launch: Launch) -> list[FlagRow]:
    keys = secret_words(launch.flags)
    rows = flaghelp.flag_rows(launch.flags, launch.reasons)
    return [replace(row, text=mask(row.text, keys)) for row in rows]


@register.filter
def without_keys(differences: list[Difference]) -> list[Difference]:
    """Keys among the flags are masked: who compares need not know them."""
    return [
        replace(
            each,
            before=_mask_value(each.name, each.before),
            after=_mask_value(each.name, each.after),
        )
        if each.part == "flags"
        else each
        for each in differences
    ]


def _mask_value(name: str, said: str | None) -> str | None:
    if not said:
        return said
    # What one flag says, or under "order" the whole command line; "·" stands between repeats.
    words = said.replace("·", " ").split()
    return mask(said, secret_words((name, *words)))


@register.filter
def variable_rows(launch: Launch) -> list[FlagRow]:
    secrets = dict.fromkeys(launch.secret_env, MASK)
    return lines.variable_rows({**launch.env, **secrets}, launch.reasons)


# What a page of a launch says in words of its own.
_TOLD = ("dockerfile", "build_files", "digests", "gpus", "image", "engine", "checkpoint")
_LIFE = "Start and stop"
# They matter only with another field of the same group.
_DEPENDENT = ("restart_tries", "hold_requests", "stop_idle", "when_idle")


def _list_set(launch: Launch, groups: tuple[str, ...]) -> list[str]:
    """The fields of these groups of the form that are not as they are by default."""
    usual = Launch(engine="", image="", checkpoint="")
    return [
        name
        for name, each in FIELDS.items()
        if each.group in groups and each.kind != "hidden" and name not in _TOLD
        if getattr(launch, name) != getattr(usual, name)
    ]


@register.filter
def container_rows(launch: Launch) -> list[tuple[str, str]]:
    """What is set of its container, files and network."""
    names = _list_set(launch, ("Container", "Files and network", ""))
    return [(field_title(name), field_text(name, getattr(launch, name)) or "") for name in names]


@register.filter
def life_is_set(launch: Launch) -> bool:
    """Whether something is set of its start and stop."""
    return any(name not in _DEPENDENT for name in _list_set(launch, (_LIFE,)))


@register.filter
def own_values(server: Server, launch: Launch) -> list[tuple[str, str, str]]:
    """Each parameter with the profile's value and the server's own, "" where it has none."""
    return [(name, usual, server.values.get(name, "")) for name, usual in launch.parameters.items()]


register.filter("span", numbers.format_duration)


@register.filter
def gpu_label(gpus: str) -> str:
    """ "GPU 0", "GPUs 0, 1", "all GPUs"; what a profile calls them by name stays as it is."""
    if not re.fullmatch(r"\d+(,\d+)*", gpus):
        return {"all": "all GPUs", "none": "no GPU"}.get(gpus, gpus)
    return f"GPU{'s' if ',' in gpus else ''} {gpus.replace(',', ', ')}"


@register.filter
def gpu_numbers(gpus: str) -> str:
    """ "0, 1" of "0,1", beside the word GPUs."""
    return gpus.replace(",", ", ")


@register.filter
def severity_word(severity: str) -> str:
    return {"error": "Error:", "warning": "Warning:", "info": "Good to know:"}[severity]


@register.filter
def verdict_level(verdict: LintFinding | PreflightItem) -> str:
    return verdict.severity if isinstance(verdict, LintFinding) else verdict.level


_VERDICTS = {"info": "Hint", "unknown": "Unknown", "ok": "Passed"}


@register.filter
def verdict_word(verdict: LintFinding | PreflightItem) -> str:
    return _VERDICTS[verdict_level(verdict)]


@register.filter
def rest_words(verdicts: list[LintFinding | PreflightItem]) -> str:
    """ "1 hint, 3 unknown, 5 passed"."""
    counts = Counter(map(verdict_level, verdicts))
    said = {level: _VERDICTS[level].lower() for level in _VERDICTS if counts[level]}
    return ", ".join(
        f"{counts[level]} {word}{'s' if level == 'info' and counts[level] > 1 else ''}"
        for level, word in said.items()
    )


@register.filter
def lacks_place(places: list[PathReport] | None) -> bool:
    """Whether one of them is not there, or will not be mounted."""
    return any(each.lies in ("missing", "refused") for each in places or ())


# What tells a change from the others that would make a launch fit.
register.filter("fit_about", checks.describe_fix)


@register.filter
def change_words(change: LaunchChange) -> str:
    """A change in the words of a command line: --kv-cache-dtype bf16, --shm-size 16g, no X."""
    said = [" ".join((name, *value_words(value))) for name, value in change.set_flags.items()]
    said += [f"no {name}" for name in (*change.drop_flags, *change.drop_env)]
    said += [f"{name}={value}" for name, value in change.set_env.items()]
    said += [f"{_field_name(name)} {_field_words(name, v)}" for name, v in change.fields.items()]
    return ", ".join(said)


# Fields that docker run takes as they stand.
_DOCKER_FLAGS = {
    "shm_size": "--shm-size",
    "ipc": "--ipc",
    "privileged": "--privileged",
    "cap_add": "--cap-add",
    "ulimits": "--ulimit",
}


def _field_name(name: str) -> str:
    return _DOCKER_FLAGS.get(name) or f"{field_title(name)}:"


def _field_words(name: str, value: object) -> str:
    return " ".join((field_text(name, value) or "nothing").split("\n"))


@register.filter
def field_title(name: str) -> str:
    """A field of a launch as the form calls it; a flag or variable as it is."""
    field = ProfileForm.base_fields.get(name)
    if field is None:
        return _TITLES.get(name, name)
    return str(field.label or name.replace("_", " ").capitalize())


@register.simple_tag
def images_mark() -> str:
    """Another text whenever an image has said something, or the asking has come further."""
    return ImageFacts.objects.mark()


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


register.simple_tag(disks.jobs_mark)


@register.simple_tag
def build_of(profile: Profile) -> Build | None:
    """None for a profile without a Dockerfile."""
    launch = profile.launch
    if not launch.dockerfile:
        return None
    tag = name_build(profile.slug, launch)
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
