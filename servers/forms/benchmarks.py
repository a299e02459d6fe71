"""Forms of check-ups: an editor's own points, the hour that a replay is of, the hour of a trial."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone

from servers.judge.benchmarks.custom import CustomPoints

MOST = 8  # values in a list
LONGEST = 3600  # seconds that are planned
_PLAIN = {"autocomplete": "off", "inputmode": "numeric"}


class NumberListField(forms.CharField):
    """Numbers with commas between, as a tuple."""

    def __init__(
        self,
        *,
        kind: Callable[[str], Any],
        least: float,
        most: float,
        example: str,
        **kwargs: Any,
    ) -> None:
        super().__init__(max_length=200, widget=forms.TextInput(attrs=_PLAIN), **kwargs)
        self.kind, self.least, self.most, self.example = kind, least, most, example

    def clean(self, value: Any) -> tuple[Any, ...]:
        texts = [each.strip() for each in super().clean(value).split(",") if each.strip()]
        try:
            found = tuple(dict.fromkeys(self.kind(each) for each in texts))
        except ValueError:
            wanted = "whole numbers" if self.kind is int else "numbers"
            raise ValidationError(
                f"Write {wanted} with commas between, such as {self.example}."
            ) from None
        if len(found) > MOST:
            raise ValidationError(f"Write at most {MOST} numbers.")
        if not all(self.least <= each <= self.most for each in found):
            raise ValidationError(f"Write numbers from {self.least:g} to {self.most:,g}.")
        return found


class CustomForm(forms.Form):
    prompts = NumberListField(
        label="Tokens of a prompt", initial="500, 4000", kind=int, least=1, most=1_000_000,
        example="500, 4000", help_text="A point for each length.",
    )  # fmt: skip
    output = forms.IntegerField(
        label="Tokens of an answer", initial=128, min_value=1, max_value=8192
    )
    people = NumberListField(
        label="People at once", initial="1, 8", kind=int, least=1, most=256, example="1, 8",
        required=False, help_text="Each sends the next request when the last one is answered.",
    )  # fmt: skip
    rates = NumberListField(
        label="Or requests a second", kind=float, least=0.01, most=100, example="0.5, 2",
        required=False,
        help_text="They arrive at random moments, however slow the answers; waiting counts.",
    )  # fmt: skip
    rounds = forms.IntegerField(label="Rounds", initial=3, min_value=1, max_value=10)
    seconds = forms.IntegerField(label="Seconds a round", initial=20, min_value=2, max_value=300)
    insists = forms.BooleanField(label="Do not give way to people", required=False)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if self.errors:
            return cleaned
        if bool(cleaned["people"]) == bool(cleaned["rates"]):
            said = "Fill in people at once or requests a second, and leave the other one empty."
            self.add_error("people" if not cleaned["people"] else "rates", said)
            return cleaned
        names = "prompts", "output", "people", "rates", "rounds", "seconds"
        points = CustomPoints(**{name: cleaned[name] for name in names})
        if points.planned > LONGEST:
            minutes = points.planned / 60
            raise ValidationError(
                f"{points.count} points take {minutes:.0f} minutes, and an hour is the most. Choose "
                "fewer points, rounds or seconds."
            )
        cleaned["points"] = points
        return cleaned


PACES = {1: "as fast as it was", 2: "twice as fast", 4: "4 times as fast", 10: "10 times as fast"}


class ReplayForm(forms.Form):
    hour = forms.ChoiceField(label="Hour")
    pace = forms.TypedChoiceField(label="Speed", coerce=int, choices=PACES.items(), initial=1)
    arrivals = forms.ChoiceField(
        label="Arrivals",
        choices=[("same", "at the same moments"), ("random", "at random moments")],
        help_text="Latency counts from the moment of arrival in both cases.",
    )
    insists = forms.BooleanField(label="Do not give way to people", required=False)

    def __init__(
        self, *args: Any, hours: Sequence[tuple[datetime, int]], may_insist: bool, **kwargs: Any
    ) -> None:
        """`hours` with how many requests each had."""
        super().__init__(*args, **kwargs)
        hour = self.fields["hour"]
        if isinstance(hour, forms.ChoiceField):
            hour.choices = [(at.isoformat(), _name_hour(at, count)) for at, count in hours]
        if not may_insist:
            del self.fields["insists"]

    def clean_hour(self) -> datetime:
        return datetime.fromisoformat(self.cleaned_data["hour"])


class TrialForm(forms.Form):
    when = forms.ChoiceField(
        label="Begin",
        choices=[
            ("now", "now"),
            ("idle", "when nobody has used it for 15 minutes"),
            ("tonight", "tonight, from 2:00, when nobody has used it for 15 minutes"),
        ],
        initial="now",
        required=False,
    )
    is_twice = forms.BooleanField(
        label="Load each twice, in turns",
        help_text="Three loads instead of one; heat and neighbours then count for both.",
        required=False,
    )

    def clean_when(self) -> str:
        return self.cleaned_data["when"] or "now"


def _name_hour(at: datetime, count: int) -> str:
    requests = "1 request" if count == 1 else f"{count:,} requests"
    return f"{timezone.localtime(at):%a %-d %b, %H:%M}: {requests}"
