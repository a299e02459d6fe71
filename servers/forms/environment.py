"""The forms of environment groups, presets and starts, and what every box of variables understands."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.utils import timezone

from servers.forms.profile_fields import LONGEST_TEXT, VersionedForm, text_box
from servers.launch import numbers
from servers.launch.commandline import lines, text_boxes
from servers.launch.commandline.lines import Environment
from servers.launch.engines import choices
from servers.launch.engines.launch import Launch
from servers.lifecycle import QueueOptions
from servers.models import EnvironmentGroup, Secret, User
from servers.models.people.key import MASK
from servers.models.profiles import MOST, Preset, only_variables


def read_variables(text: str, kept: Mapping[str, int]) -> Environment:
    """NAME=value lines with their reasons; `kept` are secrets of which only a mask is shown.

    Raises ValidationError.
    """
    try:
        read = lines.comment_environment(text)
    except text_boxes.WordsError as error:
        raise ValidationError(str(error)) from error
    for name, value in read.values.items():
        if text_boxes.is_secret(name) and not value:
            raise ValidationError(f"Write the value of {name}, or take the line out.")
        if value == MASK and name not in kept:
            raise ValidationError(f"Write the value of {name}: only a mask stands there.")
    return read


def split_secrets(
    values: Mapping[str, str], *, kept: Mapping[str, int], seal: Callable[[str, str], int]
) -> tuple[dict[str, str], dict[str, int]]:
    """The plain variables, and those whose values are sealed now or were before."""
    env: dict[str, str] = {}
    secret_env: dict[str, int] = {}
    for name, value in values.items():
        if not text_boxes.is_secret(name) and not text_boxes.is_token(value):
            env[name] = value
        elif value == MASK and name in kept:
            secret_env[name] = kept[name]
        elif value:
            secret_env[name] = seal(name, value)
    return env, secret_env


def variables_text(launch: Launch) -> str:
    """Sealed secrets as a mask."""
    values = launch.env | dict.fromkeys(launch.secret_env, MASK)
    reasons = {name: why for name, why in launch.reasons.items() if name in values}
    return lines.environment_text(values, reasons)


class EnvironmentForm(VersionedForm):
    of = EnvironmentGroup
    kind = "group"

    name = forms.CharField(max_length=100, help_text="What it is for: Blackwell NCCL.")
    engine = forms.ChoiceField(
        required=False,
        choices=lambda: [("", "any engine"), *choices()],
        label="For",
        help_text="It is offered to profiles of this engine.",
    )
    env = forms.CharField(
        label="Variables",
        max_length=LONGEST_TEXT,
        widget=text_box(8, "NCCL_P2P_LEVEL=SYS  # the cards hang on two sockets"),
        help_text="NAME=value lines. What stands behind # is the reason, which goes along. Values of "
        "names like …_TOKEN or …_KEY are kept encrypted.",
    )
    notes = forms.CharField(
        required=False,
        max_length=2_000,
        widget=text_box(3),
        help_text="When to use it, and what not to use it with.",
    )
    message = forms.CharField(
        required=False,
        max_length=200,
        label="Change note",
        help_text="Shown in the list of versions.",
    )

    def __init__(
        self,
        *args: Any,
        person: User,
        group: EnvironmentGroup | None = None,
        variables: Launch | None = None,
        **kwargs: Any,
    ) -> None:
        """`variables` are what a new group begins with."""
        self.person = person
        self.saved = group
        source = group.variables if group else variables
        self.kept = source.secret_env if source else {}
        initial: dict[str, Any] = {"env": variables_text(source)} if source else {}
        if group is not None:
            initial |= {**group.about, "saves": group.saves}
        kwargs["initial"] = initial
        super().__init__(*args, **kwargs)
        self.read = Environment(values={}, reasons={})
        if group is None:
            del self.fields["saves"], self.fields["message"]

    def clean_env(self) -> dict[str, str]:
        self.read = read_variables(self.cleaned_data["env"], self.kept)
        if not self.read.values:
            raise ValidationError("Write at least one variable: NAME=value.")
        return self.read.values

    def variables(self) -> Launch:
        """What was typed. Values of secret variables are sealed here."""
        return self._variables(lambda name, value: Secret.seal(name, value, self.person).pk)

    def unsaved_variables(self) -> Launch:
        """To be looked at: secrets are named and not sealed."""
        return self._variables(lambda _name, _value: 0)

    def _variables(self, seal: Callable[[str, str], int]) -> Launch:
        env, secret_env = split_secrets(self.cleaned_data["env"], kept=self.kept, seal=seal)
        return only_variables(env=env, secret_env=secret_env, reasons=self.read.reasons)


LIMIT = 256 * 2**10  # bytes
PARTS = ("params", "tools", "schema")


class PresetError(Exception):
    """It cannot be kept so; the text says why and what to change."""


@dataclass(frozen=True, kw_only=True)
class NamedPreset:
    name: str
    values: dict[str, Any]


def read_preset(text: bytes) -> NamedPreset:
    """Raises PresetError."""
    if len(text) > LIMIT:
        raise PresetError(f"The parameters are larger than {LIMIT >> 10} KiB. Shorten them.")
    try:
        said = json.loads(text.replace(b"\\u0000", b""))
    except (ValueError, RecursionError) as error:
        raise PresetError("The parameters are not JSON. Reload the page.") from error
    values = said.get("values") if isinstance(said, dict) else None
    if not isinstance(values, dict):
        raise PresetError("These are no parameters. Reload the page.")
    name = said.get("name")
    if not isinstance(name, str) or not name.strip() or len(name.strip()) > 60:
        raise PresetError("Give it a name of 1 to 60 characters.")
    return NamedPreset(name=name.strip(), values={part: values.get(part) for part in PARTS})


def check_room(profile: int, name: str) -> None:
    """Raises PresetError."""
    others = Preset.objects.filter(profile=profile).exclude(name=name)
    if others.count() >= MOST:
        raise PresetError(f"This profile has {MOST} presets. Delete one first.")


type Answer = Literal["", "wait", "drain", "stop", "beside"]

ANSWERS: tuple[Answer, ...] = ("wait", "drain", "stop", "beside")
# Seconds after which a start that waits is given up; 0: never.
TIMES: Mapping[int, str] = {
    1800: "30 minutes",
    7200: "2 hours",
    28800: "8 hours",
    0: "until I stop it",
}
USUALLY = 7200


@dataclass(frozen=True, kw_only=True)
class StartChoice:
    answer: Answer = ""  # "": nobody has been asked yet
    seconds: int = 0
    runs: tuple[int, ...] = ()  # what is to be stopped first

    @property
    def patience(self) -> QueueOptions | None:
        if self.answer not in ("wait", "drain", "stop"):
            return None
        until = timezone.now() + timedelta(seconds=self.seconds) if self.seconds else None
        return QueueOptions(until=until)


def read_start(post: QueryDict) -> StartChoice:
    """Of a form that says nothing of it, or nonsense, an empty one: then it is asked."""
    answer, seconds = post.get("do", ""), post.get("wait", "")
    if answer not in ANSWERS:
        return StartChoice()
    wanted = numbers.whole(seconds)
    chosen = USUALLY if wanted is None or wanted not in TIMES else wanted
    stops = answer in ("drain", "stop")
    named = [numbers.whole(pk) for pk in post.getlist("holder")] if stops else []
    runs = [pk for pk in named if pk is not None]
    return StartChoice(answer=answer, seconds=chosen, runs=tuple(runs))
