"""Logging in, joining by a link, and what admins set for people, secrets and boxes."""

import logging
import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib.auth import authenticate, password_validation
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.db.models import Q
from django.db.utils import OperationalError
from django.http import HttpRequest
from django.utils import timezone

from servers.launch import numbers
from servers.launch.commandline import text_boxes
from servers.launch.engines.placement import VolumeError, resolve
from servers.models import Box, LoginFailure, Role, Secret, User
from servers.state import samples

log = logging.getLogger(__name__)

LONGEST = 1000  # characters of a password; hashing more only keeps a processor busy
ONE_MORE = "Five attempts failed. Try again now."  # the lock has ended since
NAME_TAKEN = "Somebody has this name already. Choose another."


def _count(person: str, request: HttpRequest) -> None:
    """Count an attempt at somebody's password. Raises ValidationError when too many have failed."""
    try:
        may_try = LoginFailure.objects.take_attempt(person, request.META.get("REMOTE_ADDR", ""))
    except OperationalError as error:
        if not (trouble := samples.describe_full_disk(error)):
            raise
        # Who locks everybody out until somebody has logged in to free the disk, never ends.
        log.warning("A log-in is not counted: %s", trouble)
        may_try = not _describe_lock(person, request)
    if not may_try:
        raise ValidationError(_describe_lock(person, request) or ONE_MORE)


def _describe_failure(person: str, request: HttpRequest, otherwise: str) -> ValidationError:
    """What to say of the attempt that has just failed."""
    return ValidationError(_describe_lock(person, request) or otherwise)


def _describe_lock(person: str, request: HttpRequest) -> str:
    """Why nobody may try now; "" where somebody may."""
    if left := LoginFailure.objects.seconds_name_locked(person):
        return (
            "Too many attempts with this name have failed. Try again in "
            f"{_number(math.ceil(left / 60), 'minute')}, or ask an admin for a link to a new "
            "password, which opens the name at once."
        )
    if left := LoginFailure.objects.seconds_locked(person, request.META.get("REMOTE_ADDR", "")):
        return f"Five attempts failed. Try again in {_number(left, 'second')}."
    return ""


def _number(count: int, of: str) -> str:
    return f"{count} {of}" if count == 1 else f"{count} {of}s"


def _forget(person: str, request: HttpRequest) -> None:
    with samples.unless_full():
        LoginFailure.objects.forget(person, request.META.get("REMOTE_ADDR", ""))


class UsernameField(forms.CharField):
    def __init__(self, **more: Any) -> None:
        widget = forms.TextInput(attrs={"autocomplete": "username", "autofocus": True})
        super().__init__(label="Name", max_length=150, widget=widget, **more)


class PasswordField(forms.CharField):
    """`kind`: what a browser may fill in, current-password or new-password."""

    def __init__(self, kind: str, *, autofocus: bool = False, **more: Any) -> None:
        attrs = {"autocomplete": kind} | ({"autofocus": True} if autofocus else {})
        super().__init__(strip=False, widget=forms.PasswordInput(attrs=attrs), **more)


class LoginForm(forms.Form):
    username = UsernameField()
    password = PasswordField("current-password", max_length=LONGEST)

    def __init__(self, *args: Any, request: HttpRequest, **kwargs: Any) -> None:
        self.request = request
        self.person: User | None = None
        super().__init__(*args, **kwargs)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if self.errors:
            return cleaned
        name = cleaned["username"]
        _count(name, self.request)
        # Names that nobody has take as long and say the same: Django hashes for them too.
        person = authenticate(self.request, username=name, password=cleaned["password"])
        if not isinstance(person, User):
            raise _describe_failure(
                name, self.request, "Name and password do not match, or the account is disabled."
            )
        _forget(name, self.request)
        self.person = person
        return cleaned


class PasswordForm(forms.Form):
    """A new password, typed twice."""

    password = PasswordField(
        "new-password",
        label="New password",
        max_length=LONGEST,
        help_text="At least 10 characters.",
    )
    again = PasswordField("new-password", label="New password again")

    def __init__(self, *args: Any, person: User | None = None, **kwargs: Any) -> None:
        self.person = person
        super().__init__(*args, **kwargs)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        password = cleaned.get("password")
        if password:
            subject = self.person or User(username=cleaned.get("username", ""))
            try:
                password_validation.validate_password(password, subject)
            except ValidationError as error:
                self.add_error("password", error)
            if "again" in cleaned and password != cleaned["again"]:
                self.add_error("again", "This is not the same password.")
        return cleaned


class OwnPasswordForm(PasswordForm):
    """A new password for oneself: whoever finds an open browser must not be able to take it."""

    current = PasswordField(
        "current-password", label="Current password", max_length=LONGEST, autofocus=True
    )
    field_order = ("current", "password", "again")

    def __init__(self, *args: Any, request: HttpRequest, person: User, **kwargs: Any) -> None:
        self.request = request
        self.me = person
        super().__init__(*args, person=person, **kwargs)

    def clean_current(self) -> str:
        current: str = self.cleaned_data["current"]
        _count(self.me.username, self.request)
        if not self.me.check_password(current):
            raise _describe_failure(
                self.me.username, self.request, "This is not your current password."
            )
        _forget(self.me.username, self.request)
        return current


class JoinForm(PasswordForm):
    username = UsernameField(
        validators=[UnicodeUsernameValidator()],
        help_text="How the team sees you. Letters, digits and @ . + - _",
    )
    field_order = ("username", "password", "again")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["password"].label = "Password"
        self.fields["again"].label = "Password again"

    def clean_username(self) -> str:
        name: str = User.normalize_username(self.cleaned_data["username"])
        try:
            User.objects.get_by_natural_key(name)
        except User.DoesNotExist:
            return name
        raise ValidationError(NAME_TAKEN)


class RoleForm(forms.Form):
    role = forms.TypedChoiceField(
        choices=Role,
        coerce=lambda value: Role(int(value)),
        initial=Role.OPERATOR,
        widget=forms.RadioSelect,
    )


class SecretValueForm(forms.Form):
    value = forms.CharField(
        # A secret is masked wherever it appears, so it must not be a word that appears anywhere.
        min_length=8,
        max_length=8000,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text="Kept encrypted, never shown again. At least 8 characters.",
    )


class SecretForm(SecretValueForm):
    name = forms.CharField(
        max_length=100,
        help_text="As a variable: HF_TOKEN",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    field_order = ("name", "value")

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"].strip()
        if not text_boxes.is_variable(name):
            raise ValidationError("Write it as a variable: HF_TOKEN.")
        return name


class SecretChoice(forms.ModelChoiceField):  # type: ignore[type-arg]
    """Those of one name, told apart: a profile that was made of a command may bring its own."""

    uses: Mapping[int, list[str]]  # by a secret's key

    def label_from_instance(self, secret: Any) -> str:
        by = f" by {secret.created_by}" if secret.created_by else ""
        created = timezone.localtime(secret.created_at)
        added = numbers.format_moment(created, timezone.localtime())
        uses = self.uses.get(secret.pk, ())
        used = f", used by {', '.join(uses[:3])}{' …' if len(uses) > 3 else ''}" if uses else ""
        return f"{secret.name}, added {added}{by}{used}"


class BoxForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Box
        fields = ("home", "hf_cache", "model_folders", "hf_token")
        field_classes = {"hf_token": SecretChoice}
        labels = {"home": "Home folder", "hf_token": "Hugging Face token"}
        help_texts = {
            "home": "Where ~ and $HOME in a profile's volumes lead.",
            "hf_cache": "Mounted into every engine unless its profile says otherwise.",
            "model_folders": "Where to look for models, one folder a line. Empty: ~/models, "
            "ModelScope’s cache, and the folders that profiles may mount.",
            "hf_token": "Passed as HF_TOKEN unless the profile says otherwise.",
        }

    def __init__(
        self, *args: Any, uses: Mapping[int, list[str]] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        token = self.fields["hf_token"]
        if isinstance(token, SecretChoice):
            token.uses = uses or {}
            # What the box has now stays a choice, whatever it is called.
            named = Q(name="HF_TOKEN") | Q(pk=self.instance.hf_token_id)
            token.queryset = (
                Secret.objects.filter(named).select_related("created_by").order_by("-pk")
            )
            token.empty_label = "none"

    def clean_home(self) -> str:
        return self._path("home")

    def clean_hf_cache(self) -> str:
        return self._path("hf_cache")

    def clean_model_folders(self) -> str:
        lines = [line.strip() for line in self.cleaned_data["model_folders"].splitlines()]
        for line in filter(None, lines):
            _resolve_folder(line, home=self.cleaned_data.get("home") or "")
        return "\n".join(filter(None, lines))

    def _path(self, name: str) -> str:
        text: str = self.cleaned_data[name].strip()
        if text:
            _resolve_folder(text, home=self.cleaned_data.get("home") or "")
        return text


def _resolve_folder(path: str, *, home: str) -> str:
    """Raises ValidationError for what is no folder of a box."""
    try:
        return resolve(path, home=home)
    except VolumeError as error:
        raise ValidationError(str(error)) from error


# Hours.
LASTS = {
    1: "an hour",
    2: "2 hours",
    4: "4 hours",
    8: "8 hours",
    24: "a day",
    72: "3 days",
    168: "a week",
}


class ClaimForm(forms.Form):
    gpus = forms.TypedMultipleChoiceField(
        label="GPUs", coerce=int, widget=forms.CheckboxSelectMultiple
    )
    hours = forms.TypedChoiceField(label="For", coerce=int, choices=LASTS.items(), initial=4)
    note = forms.CharField(
        label="Note",
        max_length=200,
        required=False,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        help_text="What it is for. Everybody reads it.",
    )

    def __init__(self, *args: Any, box: Box | None, **kwargs: Any) -> None:
        """`box`: whose GPUs are claimed; None for a claim of a server."""
        super().__init__(*args, **kwargs)
        if box is None:
            del self.fields["gpus"]
            return
        gpus = self.fields["gpus"]
        if isinstance(gpus, forms.TypedMultipleChoiceField):
            cards = box.gpus or ()
            differ = len({card["name"] for card in cards}) > 1
            gpus.choices = [
                (
                    card["index"],
                    f"GPU {card['index']} {card['name'] or '' if differ else ''}".strip(),
                )
                for card in cards
            ]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if "hours" in cleaned:
            cleaned["until"] = timezone.now() + timedelta(hours=cleaned["hours"])
        return cleaned
