"""The profile form: what a person types as a Launch, a launch as its values, and its folded sections."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms import BoundField
from django.utils.text import slugify

from servers.forms.environment import read_variables, split_secrets
from servers.forms.profile_fields import ProfileFields, VersionedForm, list_boxes, show
from servers.judge.images import dockerfile
from servers.judge.profiles.lint_rules import opens_the_box as opens_the_box
from servers.launch.commandline import lines, text_boxes
from servers.launch.commandline.text_boxes import WordsError
from servers.launch.engines import flaghelp
from servers.launch.engines.change import split_flags
from servers.launch.engines.engine import SECRET_FLAGS
from servers.launch.engines.launch import FIELDS, SAYS_ONLY, Launch
from servers.launch.engines.other import OTHER
from servers.launch.numbers import whole
from servers.models import Box, Profile, Secret, User
from servers.models.people.key import MASK

# Not as they stand in the form: secrets are sealed, and reasons are typed beside what they are for.
_APART = ("env", "secret_env", "reasons", "ipc")
_SAME = tuple(name for name in FIELDS if name not in _APART)


def starts_the_same(cleaned: Mapping[str, Any], old: Launch) -> bool:
    """Whether the same would be started: name and notes alone are new."""
    same = {name: getattr(old, name) for name in _SAME if name not in SAYS_ONLY} | {
        "env": old.env | dict.fromkeys(old.secret_env, MASK),
        "ipc_host": old.ipc == "host",
    }
    return all(name in cleaned and cleaned[name] == value for name, value in same.items())


def to_launch(
    cleaned: Mapping[str, Any],
    reasons: dict[str, str],
    *,
    kept: Mapping[str, int],
    seal: Callable[[str, str], int],
) -> Launch:
    """Values of secret variables are sealed; `kept` are those sealed before."""
    env, secret_env = split_secrets(cleaned["env"], kept=kept, seal=seal)
    return Launch(
        env=env,
        secret_env=secret_env,
        reasons=reasons,
        ipc="host" if cleaned["ipc_host"] else "",
        **{name: cleaned[name] for name in _SAME},
    )


def initial(launch: Launch, *, secrets: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What the form shows of a launch: sealed secrets as a mask, pasted ones as they are."""
    env = launch.env | dict.fromkeys(launch.secret_env, MASK) | dict(secrets or {})
    shown = {
        each.box or name: show(name, getattr(launch, name))
        for name, each in FIELDS.items()
        if each.kind != "hidden"
    }
    return shown | {
        "flags": flaghelp.flags_text(launch.flags, launch.reasons),
        "env": lines.environment_text(env, launch.reasons),
    }


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


@dataclass(frozen=True, kw_only=True)
class FieldError:
    """What is wrong with one field; with the form as a whole where `field` and `label` are ""."""

    field: str  # the element's id
    label: str
    text: str


@dataclass(frozen=True, kw_only=True)
class FormErrors:
    missing: tuple[FieldError, ...]  # nothing is written yet where something must be
    wrong: tuple[FieldError, ...]


class ProfileForm(VersionedForm, ProfileFields):
    of = Profile
    kind = "profile"

    def __init__(
        self,
        *args: Any,
        person: User,
        profile: Profile | None = None,
        copied_from: Profile | None = None,
        **kwargs: Any,
    ) -> None:
        self.person = person
        self.profile = self.saved = profile
        source = profile or copied_from
        given = kwargs.pop("initial", None)
        self.kept_secrets = source.launch.secret_env if source else {}
        self.reasons: dict[str, str] = {}
        if source is not None:
            kwargs["initial"] = source.about | initial(source.launch)
        if copied_from is not None:
            kwargs["initial"] |= {"name": f"{copied_from.name} copy", "is_private": False}
        if given is not None:
            kwargs["initial"] = given
        super().__init__(*args, **kwargs)
        # What serves no models has none, and nobody else knows where it listens.
        is_other = self.is_bound and self.data.get("engine") == OTHER.key
        self.fields["checkpoint"].required = not is_other
        self.fields["port"].required = self.fields["ready_path"].required = is_other
        if profile is None:
            del self.fields["message"], self.fields["saves"]
        else:
            del self.fields["box"]
            self.initial.setdefault("saves", profile.saves)

    def essentials(self) -> list[forms.BoundField]:
        return [self[name] for name in ESSENTIALS if name in self.fields]

    def sections(self) -> list[FormSection]:
        return list_sections(self)

    def read_box(self) -> Box | None:
        """The box that the form is for now, whatever else is still wrong; None: on no box."""
        if self.profile is not None:
            return self.profile.first_box
        value = self["box"].value()
        if isinstance(value, Box):
            return value
        boxes = Box.objects.all()
        key = whole(str(value or ""))
        chosen = None if key is None else boxes.filter(pk=key).first()
        return chosen or boxes.first()

    def faults(self) -> FormErrors:
        """What keeps it from being saved, in the order of the page."""
        missing, wrong = list[FieldError](), list[FieldError]()
        boxes = [*self.essentials(), *(each for part in self.sections() for each in part.fields)]
        shown = [each.name for each in boxes]
        names = [*shown, *(name for name in self.errors if name not in shown)]
        for name in names:
            box = self[name] if name in self.fields else None
            label, field = (str(box.label), box.id_for_label) if box else ("", "")
            for error in self.errors.as_data().get(name, ()):
                found = missing if error.code == "required" else wrong
                text = " ".join(error.messages)
                found.append(FieldError(field=field, label=label, text=text))
        return FormErrors(missing=tuple(missing), wrong=tuple(wrong))

    def clean_flags(self) -> tuple[str, ...]:
        try:
            read = lines.comment_flags(self.cleaned_data["flags"])
        except WordsError as error:
            raise ValidationError(str(error)) from error
        self.reasons |= read.reasons
        return read.words

    def clean_env(self) -> dict[str, str]:
        read = read_variables(self.cleaned_data["env"], self.kept_secrets)
        self.reasons |= read.reasons
        return read.values

    def clean_tags(self) -> str:
        return " ".join(dict.fromkeys(self.cleaned_data["tags"].replace(",", " ").lower().split()))

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("engine") == OTHER.key:
            # Whatever was written before another engine was chosen.
            cleaned |= {"checkpoint": "", "revision": "", "served_name": ""}
        text, files = cleaned.get("dockerfile", ""), cleaned.get("build_files", {})
        if text:
            for fault in dockerfile.faults(text, files):
                self.add_error("dockerfile", fault)
        elif files:
            self.add_error("build_files", "There is no Dockerfile that could take these files.")
        if not self.person.may_administer:
            self._check_dangerous(cleaned)
        return cleaned

    def _check_dangerous(self, cleaned: dict[str, Any]) -> None:
        """An editor keeps what an admin has set only as long as the same program gets it."""
        old = self.profile.launch if self.profile else None
        if old is not None and starts_the_same(cleaned, old):
            return
        for name in opens_the_box(cleaned):
            if old is not None and getattr(old, name) == cleaned[name]:
                sentence = (
                    "An admin has set this for what the profile starts now. Only an admin may "
                    "save a change of it; without this setting you can."
                )
            else:
                sentence = "Only an admin may set this: it opens the box."
            self.add_error(name, sentence)

    def launch(self) -> Launch:
        """The cleaned form. Values of secret variables are sealed here."""
        return to_launch(
            self.cleaned_data,
            self.reasons,
            kept=self.kept_secrets,
            seal=lambda name, value: Secret.seal(name, value, self.person).pk,
        )

    def unsaved_launch(self) -> Launch:
        """The cleaned form, to be looked at: secrets are named and not sealed."""
        return to_launch(
            self.cleaned_data, self.reasons, kept=self.kept_secrets, seal=lambda _name, _value: 0
        )

    def collect_typed(self) -> dict[str, Any]:
        """What was typed apart from the launch, to show it again."""
        names = (*self.of.ABOUT, "box", "message", "saves")
        return {name: self[name].value() for name in names if name in self.fields}
