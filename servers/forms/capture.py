"""The form that starts a capture of prompts and answers."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django import forms

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
