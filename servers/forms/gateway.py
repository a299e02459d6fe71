"""Forms of the gateway: captures, keys, legacy ports."""

import ipaddress
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone

from servers.models import Box, LegacyPort, Permission, Role, User

# Minutes.
LASTS = {
    15: "15 minutes",
    30: "30 minutes",
    60: "an hour",
    120: "2 hours",
    240: "4 hours",
    480: "8 hours",
    1440: "24 hours",
}


class CaptureForm(forms.Form):
    minutes = forms.TypedChoiceField(label="For", coerce=int, choices=LASTS.items(), initial=15)
    only = forms.ChoiceField(
        label="Requests to",
        required=False,
        help_text="A server, or every server that answers to a model’s name.",
    )
    reason = forms.CharField(
        label="Why",
        max_length=200,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        help_text="Everybody reads it, on every page, as long as capture is on.",
    )

    def __init__(self, *args: Any, names: Iterable[str], **kwargs: Any) -> None:
        """`names` of servers and models that programs may ask for."""
        super().__init__(*args, **kwargs)
        only = self.fields["only"]
        if isinstance(only, forms.ChoiceField):
            only.choices = [("", "all servers"), *((name, name) for name in names)]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if "minutes" in cleaned:
            cleaned["lasts"] = timedelta(minutes=cleaned["minutes"])
        return cleaned


# Days; 0: it never ends.
ONLY_ASKS = 0  # among the roles; that of chat, which is offered for no key
LIVES = {30: "in 30 days", 90: "in 90 days", 365: "in a year", 0: "never"}


class KeyForm(forms.Form):
    name = forms.CharField(
        label="Name",
        max_length=80,
        widget=forms.TextInput(attrs={"placeholder": "my laptop", "autocomplete": "off"}),
    )
    role = forms.TypedChoiceField(label="Scope", coerce=int)
    models_allowed = forms.CharField(
        label="Models",
        required=False,
        max_length=1000,
        help_text="Names, separated by spaces. Empty: all.",
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    requests_per_minute = forms.IntegerField(
        label="Requests a minute",
        required=False,
        min_value=1,
        max_value=100_000,
        help_text="Empty: unlimited.",
    )
    lives = forms.TypedChoiceField(label="Expires", coerce=int, choices=LIVES.items(), initial=90)

    def __init__(self, *args: Any, person: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        may = [
            role
            for role in Role
            if role.permissions <= Role(person.role).permissions
            and Permission.VIEW in role.permissions
        ]
        role = self.fields["role"]
        if isinstance(role, forms.TypedChoiceField):
            role.choices = [(each.value, f"do what {each.label}s may") for each in may]
            # The least: more is chosen on purpose.
            role.initial = may[0].value if may else ONLY_ASKS
            if person.may_chat:
                role.choices = [(ONLY_ASKS, "use models only"), *role.choices]
                role.help_text = (
                    "“Use models only” opens the gateway, and neither the API nor the terminal."
                )
                role.initial = ONLY_ASKS

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("role") == ONLY_ASKS:
            cleaned |= {"role": Role.OPERATOR.value, "only_asks": True}
        days = cleaned.get("lives") or 0
        named = (cleaned.get("models_allowed") or "").replace(",", " ").split()
        cleaned["models_allowed"] = list(dict.fromkeys(named))
        cleaned["expires_at"] = timezone.now() + timedelta(days=days) if days else None
        return cleaned


MOST_SOURCES = 50
FIRST_FREE = 1024  # what lies below only root may open


class LegacyPortForm(forms.Form):
    port = forms.IntegerField(
        label="Port",
        min_value=FIRST_FREE,
        max_value=65535,
        widget=forms.NumberInput(attrs={"placeholder": "8000", "autocomplete": "off"}),
        help_text="The port that programs call now. Nothing else may listen on it.",
    )
    model = forms.CharField(
        label="Model",
        max_length=200,
        required=False,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text="Used where a request names one that is not known here. Other names for a "
        "model stand in its profile.",
    )
    sources = forms.CharField(
        label="No key needed from",
        max_length=2000,
        required=False,
        widget=forms.TextInput(
            attrs={"placeholder": "192.168.1.20 10.0.0.0/24", "autocomplete": "off"}
        ),
        help_text="Addresses or networks, apart by spaces. From elsewhere a key is needed.",
    )

    def __init__(self, *args: Any, box: Box, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.box = box

    def clean_port(self) -> int:
        port: int = self.cleaned_data["port"]
        if LegacyPort.objects.filter(box=self.box, port=port).exists():
            raise ValidationError(f"Port {port} is open already. Close it first.")
        return port

    def clean_sources(self) -> list[str]:
        found: list[str] = []
        for word in self.cleaned_data["sources"].replace(",", " ").split():
            try:
                network = ipaddress.ip_network(word)
            except ValueError as error:
                raise ValidationError(f"“{word[:60]}” is no address or network: {error}.") from None
            if network.prefixlen == 0:
                raise ValidationError(f"{word} is everybody. Name the networks of your programs.")
            found.append(str(network))
        if len(found) > MOST_SOURCES:
            raise ValidationError(f"Name {MOST_SOURCES} networks at most.")
        return list(dict.fromkeys(found))
