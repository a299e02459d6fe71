"""The form of an environment group, and what every box of variables understands."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.utils.text import slugify

from servers.forms.profile_fields import LONGEST_TEXT, text_box
from servers.launch.commandline import comments, text_boxes
from servers.launch.commandline.comments import Environment
from servers.launch.engines import choices
from servers.launch.engines.launch import Launch
from servers.models import EnvironmentGroup, Secret, User
from servers.models.people.secret import MASK
from servers.models.profiles.environment import ABOUT, only_variables


def read_variables(text: str, kept: Mapping[str, int]) -> Environment:
    """NAME=value lines with their reasons; `kept` are secrets of which only a mask is shown.

    Raises ValidationError.
    """
    try:
        read = comments.environment(text)
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
    return comments.environment_text(values, reasons)


class EnvironmentForm(forms.Form):
    saves = forms.IntegerField(widget=forms.HiddenInput)
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
        self.group = group
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

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"].strip()
        if not self.slug_of(name):
            raise ValidationError("The name needs at least one letter or digit.")
        if self.slug_of(name) == "new":
            raise ValidationError("A page has this name already. Take another one.")
        taken = EnvironmentGroup.objects.filter(slug=self.slug_of(name))
        if self.group is not None:
            taken = taken.exclude(pk=self.group.pk)
        if taken.exists():
            raise ValidationError(f"There is a group with this name already: {taken[0]}.")
        return name

    def clean_env(self) -> dict[str, str]:
        self.read = read_variables(self.cleaned_data["env"], self.kept)
        if not self.read.values:
            raise ValidationError("Write at least one variable: NAME=value.")
        return self.read.values

    @staticmethod
    def slug_of(name: str) -> str:
        return slugify(name)[:63]

    def describe(self) -> dict[str, str]:
        return {name: self.cleaned_data[name] for name in ABOUT}

    def variables(self) -> Launch:
        """What was typed. Values of secret variables are sealed here."""
        return self._variables(lambda name, value: Secret.seal(name, value, self.person).pk)

    def unsaved_variables(self) -> Launch:
        """To be looked at: secrets are named and not sealed."""
        return self._variables(lambda _name, _value: 0)

    def build_upon(self, newer: EnvironmentGroup) -> None:
        """Let the next save know what somebody else has saved meanwhile."""
        data = cast(QueryDict, self.data).copy()
        data["saves"] = str(newer.saves)
        self.data = data

    def _variables(self, seal: Callable[[str, str], int]) -> Launch:
        env, secret_env = split_secrets(self.cleaned_data["env"], kept=self.kept, seal=seal)
        return only_variables(env=env, secret_env=secret_env, reasons=self.read.reasons)
