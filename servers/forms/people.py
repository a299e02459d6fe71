"""Logging in, joining by a link, and what admins set for people, secrets and boxes."""

from typing import Any

from django import forms
from django.contrib.auth import authenticate, password_validation
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from servers.commandline import words
from servers.engines.volumes import VolumeError, resolve
from servers.models import Box, LoginFailure, Role, Secret, User


class LoginForm(forms.Form):
    username = forms.CharField(
        label="Name",
        max_length=150,
        widget=forms.TextInput(attrs={"autocomplete": "username", "autofocus": True}),
    )
    password = forms.CharField(
        strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "current-password"})
    )

    def __init__(self, *args: Any, request: HttpRequest, **kwargs: Any) -> None:
        self.request = request
        self.person: User | None = None
        super().__init__(*args, **kwargs)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if self.errors:
            return cleaned
        name = cleaned["username"]
        address = self.request.META.get("REMOTE_ADDR") or "0.0.0.0"  # noqa: S104 - none known
        if seconds := LoginFailure.objects.seconds_locked(name, address):
            raise ValidationError(
                f"Five attempts failed. Try again in {seconds} second{'s' if seconds > 1 else ''}."
            )
        person = authenticate(self.request, username=name, password=cleaned["password"])
        if not isinstance(person, User):
            LoginFailure.objects.count_one(name, address)
            raise ValidationError("Name and password do not match, or the account is disabled.")
        LoginFailure.objects.forget(name, address)
        self.person = person
        return cleaned


class PasswordForm(forms.Form):
    """A new password, typed twice."""

    password = forms.CharField(
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="At least 10 characters.",
    )
    again = forms.CharField(
        label="Password again",
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

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
            if password != cleaned.get("again"):
                self.add_error("again", "This is not the same password.")
        return cleaned


class JoinForm(PasswordForm):
    username = forms.CharField(
        label="Name",
        max_length=150,
        validators=[UnicodeUsernameValidator()],
        widget=forms.TextInput(attrs={"autocomplete": "username", "autofocus": True}),
        help_text="How the team sees you. Letters, digits and @ . + - _",
    )
    field_order = ("username", "password", "again")

    def clean_username(self) -> str:
        name: str = self.cleaned_data["username"]
        if User.objects.filter(username__iexact=name).exists():
            raise ValidationError("Somebody has this name already. Choose another.")
        return name


class InviteForm(forms.Form):
    role = forms.TypedChoiceField(choices=Role, coerce=int, initial=Role.OPERATOR)


class SecretForm(forms.Form):
    name = forms.CharField(max_length=100, help_text="HF_TOKEN")
    value = forms.CharField(
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}), max_length=4000
    )

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"].strip()
        try:
            words.environment(f"{name}=x")
        except words.WordsError as error:
            raise ValidationError("Write it as a variable: HF_TOKEN.") from error
        return name


class BoxForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Box
        fields = ("home", "hf_cache", "hf_token")
        labels = {"home": "Home folder", "hf_token": "Hugging Face token"}
        help_texts = {
            "home": "Where ~ and $HOME in a profile's volumes lead.",
            "hf_cache": "Mounted into every engine unless its profile says otherwise.",
            "hf_token": "Passed as HF_TOKEN unless the profile says otherwise.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        token = self.fields["hf_token"]
        if isinstance(token, forms.ModelChoiceField):
            token.queryset = Secret.objects.filter(name="HF_TOKEN").order_by("-pk")
            token.empty_label = "none"

    def clean_home(self) -> str:
        return self._path("home")

    def clean_hf_cache(self) -> str:
        return self._path("hf_cache")

    def _path(self, name: str) -> str:
        text: str = self.cleaned_data[name].strip()
        if text:
            try:
                resolve(text, home=self.cleaned_data.get("home") or "")
            except VolumeError as error:
                raise ValidationError(str(error)) from error
        return text
