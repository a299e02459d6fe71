"""Forms of pulls and of registry credentials."""

import re
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from servers.forms.profile_fields import image_reference
from servers.host.images.registry import HUB, familiar, parse
from servers.models import RegistryCredential

_REGISTRY = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::[0-9]{1,5})?\Z")


class PullForm(forms.Form):
    reference = forms.CharField(
        max_length=300, validators=[image_reference], error_messages={"required": "Name an image."}
    )

    def clean_reference(self) -> str:
        """As Docker calls it, so that the same is not pulled twice."""
        return familiar(self.cleaned_data["reference"])


class RegistryCredentialForm(forms.ModelForm):  # type: ignore[type-arg]
    """Passwords go in and never come out: left empty, the one that is kept stays."""

    registry = forms.CharField(
        max_length=200,
        help_text="As images are called: ghcr.io, nvcr.io, registry.example:5000. docker.io for "
        "Docker’s own.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    username = forms.CharField(
        label="Name",
        max_length=200,
        help_text="For nvcr.io it is $oauthtoken.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    password = forms.CharField(
        label="Password or access token",
        required=False,
        strip=False,
        max_length=2000,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="Kept encrypted, and never shown again.",
    )

    class Meta:
        model = RegistryCredential
        fields = ("registry", "username")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.fields["password"].help_text = "Empty: the one that is kept stays."

    def clean_registry(self) -> str:
        text = self.cleaned_data["registry"].strip().casefold()
        text = re.sub(r"^https?://", "", text).split("/")[0]
        if not _REGISTRY.match(text):
            raise ValidationError("This is no registry, such as ghcr.io or registry.example:5000.")
        registry = parse(f"{text}/x/y").registry
        if registry == HUB and text not in (HUB, "index.docker.io", "registry-1.docker.io"):
            raise ValidationError("A registry has a dot or a port in its name, such as ghcr.io.")
        return registry

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        moved = {"registry", "username"} & set(self.changed_data)
        if not cleaned.get("password") and (not self.instance.pk or moved):
            # A password must never go to whoever is named after it was entered.
            self.add_error("password", "Enter the password or access token.")
        return cleaned

    def save(self, commit: bool = True) -> RegistryCredential:
        login: RegistryCredential = super().save(commit=False)
        if password := self.cleaned_data["password"]:
            login.keep(password)
        if commit:
            login.save()
        return login
