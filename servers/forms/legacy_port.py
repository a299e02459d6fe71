"""The form of a legacy port."""

import ipaddress
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from servers.models import Box, LegacyPort

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
