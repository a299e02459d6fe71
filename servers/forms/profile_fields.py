"""The fields of the profile form."""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any, ClassVar, cast

from django import forms
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db.models import QuerySet
from django.http import QueryDict
from django.urls import resolve, reverse
from django.utils.text import slugify

from servers.launch import numbers
from servers.launch.commandline import lines, text_boxes
from servers.launch.commandline.text_boxes import WordsError
from servers.launch.engines import choices
from servers.launch.engines.launch import FIELDS, SPANS, Launch, LaunchField
from servers.launch.engines.launch import LONGEST_TEXT as LONGEST_TEXT
from servers.launch.numbers import format_size, read_size
from servers.launch.recipes import notation
from servers.models import Box
from servers.models.profiles import Versioned

# What Docker accepts as a reference; the registry decides whether it exists.
# No group is repeated: a repeated one would take for ever on "a......!".
image_reference = RegexValidator(
    r"\A(?!.*[:/]{2})[a-z0-9](?:[A-Za-z0-9._:/-]*[A-Za-z0-9_-])?(?:@sha256:[0-9a-f]{64})?\Z",
    "This is not an image reference, such as vllm/vllm-openai:v0.20.2.",
)
LONG = {"spellcheck": "false", "autocomplete": "off", "autocapitalize": "off"}


def text_box(rows: int, placeholder: str = "") -> forms.Textarea:
    return forms.Textarea(attrs={"rows": rows, "placeholder": placeholder, **LONG})


class VersionedForm(forms.Form):
    of: ClassVar[type[Versioned]]
    kind: ClassVar[str]  # its word, and the name of its page
    saved: Versioned | None = None  # whose form it is; None: of a new one

    # Which save the person has seen: another one meanwhile is not overwritten.
    saves = forms.IntegerField(widget=forms.HiddenInput)

    def describe(self) -> dict[str, Any]:
        """What stays without a version."""
        return {name: self.cleaned_data[name] for name in self.of.ABOUT}

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"].strip()
        slug = self.slug_of(name)
        if not slug:
            raise ValidationError("The name needs at least one letter or digit.")
        if resolve(reverse(self.kind, args=[slug])).url_name != self.kind:
            raise ValidationError("A page of inferdash has this name already. Take another one.")
        every: QuerySet[Any] = self.of._default_manager.all()
        if every.filter(slug=slug).exclude(pk=self.saved.pk if self.saved else None).exists():
            raise ValidationError(f"There is a {self.kind} with this name already ({slug}).")
        return name

    @staticmethod
    def slug_of(name: str) -> str:
        return slugify(name)[:63]

    def build_upon(self, newer: Versioned) -> None:
        """Let the next save know what somebody else has saved meanwhile."""
        data = cast(QueryDict, self.data).copy()
        data["saves"] = str(newer.saves)
        self.data = data


class ProfileFields(forms.Form):
    name = forms.CharField(max_length=100, label="Name")
    box = forms.ModelChoiceField(Box.objects.all(), empty_label=None)
    tags = forms.CharField(
        required=False, max_length=200, help_text="For search and filters: moe nvfp4 coding."
    )
    is_private = forms.BooleanField(
        required=False,
        label="Private",
        help_text="Only you and admins see the profile; what runs is seen by all.",
    )
    notes = forms.CharField(
        required=False,
        max_length=20_000,
        widget=text_box(3),
        help_text="Anything the team should know.",
    )
    source = forms.URLField(
        required=False,
        max_length=500,
        assume_scheme="https",
        help_text="Where it was published: the guide, wiki or thread.",
    )
    message = forms.CharField(
        required=False,
        max_length=200,
        label="Change note",
        widget=forms.TextInput(attrs={"placeholder": "What changed? (optional)"}),
    )


type _Parse = Callable[[str], Any]
type _Format = Callable[[Any], str]


def _size(text: str) -> int:
    return read_size(text) if text.strip() else 0


def _dockerfile(text: str) -> str:
    text = text.replace("\r\n", "\n")
    return f"{text.rstrip()}\n" if text.strip() else ""


def _items(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())


def _pairs(said: Mapping[str, object]) -> str:
    return "\n".join(f"{name}={value}" for name, value in said.items())


# By the kind of the field: how the text in its box is read, and what stands there.
_BOXES: dict[str, tuple[_Parse, _Format]] = {
    "phrase": (lambda text: " ".join(text.split()), str),
    "dockerfile": (_dockerfile, str),
    "files": (text_boxes.build_files, text_boxes.build_files_text),
    "size": (_size, lambda count: format_size(count) if count else ""),
    "span": (numbers.read, str),
    "minutes": (notation.minutes, str),
    "hold": (notation.parse_hold, str),
    "path": (notation.path, str),
    "network": (text_boxes.network, str),
    "gpus": (text_boxes.gpus, str),
    "words": (lambda text: lines.comment_flags(text).words, shlex.join),
    "lines": (text_boxes.lines, "\n".join),
    "items": (_items, " ".join),
    "capabilities": (lambda text: _items(text.upper()), " ".join),
    "aliases": (lambda text: notation.aliases(text.replace(",", "\n").splitlines()), ", ".join),
    "patterns": (lambda text: notation.log_texts(text.splitlines()), "\n".join),
    "volumes": (text_boxes.volumes, "\n".join),
    "limits": (text_boxes.ulimits, _pairs),
    "parameters": (text_boxes.parameters, _pairs),
    "figures": (
        text_boxes.figures,
        lambda said: "\n".join(f"{name}: {value}" for name, value in said.items()),
    ),
    "digests": (
        text_boxes.digests,
        lambda said: "\n".join(f"{digest}  {path}" for path, digest in said.items()),
    ),
}


def read_box(kind: str, text: str) -> Any:
    """The value in a text box. Raises WordsError."""
    if kind not in _BOXES:
        return text
    try:
        return _BOXES[kind][0](text)
    except ValueError as error:
        raise WordsError(str(error)) from None


def show(name: str, value: Any) -> Any:
    """What stands in the box of a field of Launch."""
    kind = FIELDS[name].kind
    if kind in SPANS:
        return numbers.format_duration(value) if value else ""
    if kind == "port":
        return value or None
    if kind == "ipc":
        return value == "host"
    return _BOXES[kind][1](value) if kind in _BOXES else value


class BoxField(forms.CharField):
    """A text that stands for another value; `kind` is the LaunchField's."""

    def __init__(self, *, kind: str, **more: Any) -> None:
        super().__init__(**more)
        self.kind = kind

    def clean(self, value: Any) -> Any:
        try:
            return read_box(self.kind, super().clean(value))
        except WordsError as error:
            raise ValidationError(str(error)) from error


class PortField(forms.IntegerField):
    """0 where nothing is written."""

    def clean(self, value: Any) -> int:
        return super().clean(value) or 0


def list_boxes(group: str) -> list[str]:
    """The launch's fields of a group of the form, "" for those that are rarely needed."""
    names: list[str] = []
    late = {each.after: name for name, each in FIELDS.items() if each.after}
    for name, each in FIELDS.items():
        if each.group == group and each.kind != "hidden" and not each.after:
            names.append(name)
            if name in late:
                names.append(late[name])
    return [FIELDS[name].box or name for name in names]


def _build_field(name: str, of: LaunchField) -> forms.Field:
    about: dict[str, Any] = {"required": of.required, "help_text": of.help}
    about |= {"label": of.label or None, "initial": _default(name) or None}
    if of.kind == "engine":
        return forms.ChoiceField(choices=choices, **about)
    if of.choices:
        return forms.ChoiceField(choices=of.choices, **about)
    if of.kind in ("switch", "ipc"):
        return forms.BooleanField(**about)
    if of.kind == "address":
        return forms.GenericIPAddressField(**about)
    if of.kind == "port":
        return PortField(min_value=1, max_value=65535, **about)
    if of.kind == "count":
        return forms.IntegerField(min_value=of.least, max_value=of.most, **about)
    if of.kind == "image":
        about["validators"] = [image_reference]
    widget = text_box(of.rows, of.placeholder) if of.rows else None
    return BoxField(kind=of.kind, max_length=of.longest, widget=widget, **about)


def _default(name: str) -> Any:
    """What a new profile's form shows."""
    found = next(each for each in fields(Launch) if each.name == name).default
    return show(name, found) if found is not MISSING else None


for _name, _field in FIELDS.items():
    if _field.kind != "hidden":
        ProfileFields.base_fields[_field.box or _name] = _build_field(_name, _field)
