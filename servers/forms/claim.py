"""The form of a claim of GPUs or a server."""

from datetime import timedelta
from typing import Any

from django import forms
from django.utils import timezone

from servers.models import Box

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
