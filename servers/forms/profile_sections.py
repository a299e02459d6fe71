"""The sections of the profile form: which fields stand folded together, and what is set in them."""

from collections.abc import Iterator
from dataclasses import dataclass

from django import forms
from django.forms import BoundField
from django.utils.text import slugify

from servers.forms.profile_fields import list_boxes
from servers.launch.commandline import lines, text_boxes
from servers.launch.commandline.text_boxes import WordsError
from servers.launch.engines.change import split_flags
from servers.launch.engines.engine import SECRET_FLAGS

# What stands open at the top of the form.
ESSENTIALS = ("name", "box", "checkpoint", "engine", "image", "gpus")
# By the section's title, what stands in it beside the launch's own fields of that group.
SECTIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("Model", "Engine flags", "Environment", "Container"), ()),
    **dict.fromkeys(("Files and network", "Start and stop"), ()),
    "Sharing and notes": ("tags", "is_private", "notes", "source"),
}
RARE = "Container"  # the section in which the fields stand that are rarely needed
_NAMED = 3  # things that a folded section names
_LONGEST = 48  # characters of one of them


@dataclass(frozen=True, kw_only=True)
class FormSection:
    key: str
    title: str
    fields: list[BoundField]
    has_error: bool
    chosen: tuple[str, ...]  # what differs from a new profile's form, in words

    @property
    def summary(self) -> str:
        """What is set in it; where nothing is, what could be."""
        if not self.chosen:
            labels = [_lower(field.label) for field in self.fields]
            return ", ".join(dict.fromkeys(labels[:_NAMED]))
        rest = len(self.chosen) - _NAMED
        shown = ", ".join(self.chosen[:_NAMED])
        return f"{shown}, {rest} more" if rest > 0 else shown

    @property
    def count(self) -> str:
        return f"{len(self.chosen)} set" if self.chosen else "default"


def list_sections(form: forms.Form) -> list[FormSection]:
    return [_build_section(form, title, own) for title, own in SECTIONS.items()]


def _build_section(form: forms.Form, title: str, own: tuple[str, ...]) -> FormSection:
    rare = list_boxes("") if title == RARE else []
    names = [name for name in (*own, *list_boxes(title), *rare) if name in form.fields]
    fields = [form[name] for name in names]
    return FormSection(
        key=slugify(title),
        title=title,
        fields=fields,
        has_error=any(field.errors for field in fields),
        chosen=tuple(word for field in fields for word in _describe_choice(field)),
    )


def _describe_choice(field: BoundField) -> Iterator[str]:
    value, usual = field.value(), field.field.initial
    if isinstance(field.field, forms.BooleanField):
        if bool(value) != bool(usual):
            yield _lower(field.label) if value else f"off: {_lower(field.label)}"
        return
    text = "" if value is None else str(value).strip()
    if text == ("" if usual is None else str(usual)):
        return
    if field.name == "flags":
        yield from _list_flags(text)
    elif field.name == "env":
        yield from _list_variables(text)
    elif "\n" in text:
        yield f"{_lower(field.label)} ({len(text.splitlines())})"
    else:
        choices = dict(getattr(field.field, "choices", ()))
        yield _shorten(f"{_lower(field.label)} {choices.get(text, text)}")


def _list_flags(text: str) -> Iterator[str]:
    try:
        flags = split_flags(lines.comment_flags(text).words)
    except WordsError:
        # Its error says more than any summary.
        flags = []
    for name, values in flags:
        is_secret = name.replace("_", "-") in SECRET_FLAGS
        words = ("(secret)",) if is_secret else values
        yield _shorten(" ".join((name, *words)).strip())


def _list_variables(text: str) -> Iterator[str]:
    try:
        values = lines.comment_environment(text).values
    except WordsError:
        values = {}
    for name, value in values.items():
        if text_boxes.is_secret(name) or text_boxes.is_token(value):
            yield _shorten(f"{name} (secret)")
        else:
            yield _shorten(f"{name}={value}")


def _lower(title: object) -> str:
    """A label within a sentence; GPUs and IPC keep their letters."""
    label = str(title)
    return label if label[1:2].isupper() else label[:1].lower() + label[1:]


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
