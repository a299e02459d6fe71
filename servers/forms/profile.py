"""The profile form: what a person types, as a Launch."""

from dataclasses import dataclass
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.urls import resolve, reverse
from django.utils.text import slugify

from servers.forms.environment import read_variables
from servers.forms.profile_fields import ProfileFields, VersionedForm
from servers.forms.profile_sections import ESSENTIALS, FormSection, list_sections
from servers.forms.profile_values import (
    initial,
    opens_the_box,
    starts_the_same,
    to_launch,
)
from servers.judge.images import dockerfile
from servers.launch.commandline import lines
from servers.launch.commandline.text_boxes import WordsError
from servers.launch.engines.launch import Launch
from servers.launch.engines.other import OTHER
from servers.launch.numbers import whole
from servers.models import Box, Profile, Secret, User


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

    def __init__(
        self,
        *args: Any,
        person: User,
        profile: Profile | None = None,
        copied_from: Profile | None = None,
        **kwargs: Any,
    ) -> None:
        self.person = person
        self.profile = profile
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

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"].strip()
        slug = slugify(name)[:63]
        if not slug:
            raise ValidationError("The name needs at least one letter or digit.")
        if resolve(reverse("profile", args=[slug])).url_name != "profile":
            raise ValidationError("A page of inferdash has this name already. Take another one.")
        taken = Profile.objects.filter(slug=slug)
        if self.profile is not None:
            taken = taken.exclude(pk=self.profile.pk)
        if taken.exists():
            raise ValidationError(f"There is a profile with this name already ({slug}).")
        return name

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
