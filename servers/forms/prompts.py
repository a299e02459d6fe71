"""A set of prompts, and what a browser may keep of a round of it."""

import json
from dataclasses import dataclass
from typing import Any

from django import forms
from django.http import QueryDict

from servers.forms.conversation import KeepError, message, read_json
from servers.models import PromptSet
from servers.models.gateway.prompts import MOST

LONGEST = 20_000  # characters of a prompt
PARAMS_LIMIT = 64 * 2**10  # bytes
SPARE = 2  # empty fields below those that are filled
FEWEST = 5  # fields of a new one


class PromptSetForm(forms.ModelForm):  # type: ignore[type-arg]
    """Its prompts come as one field each; the empty ones are left out."""

    class Meta:
        model = PromptSet
        fields = ("name",)

    def __init__(self, data: QueryDict | None = None, **more: Any) -> None:
        super().__init__(data, **more)
        given = data.getlist("prompt") if data is not None else self.instance.prompts
        self.prompts = [text.replace("\0", "").strip() for text in given if text.strip()]

    @property
    def rows(self) -> list[str]:
        """What the fields hold, with some that are empty."""
        count = max(FEWEST, len(self.prompts) + SPARE)
        return [*self.prompts, *[""] * (min(count, MOST) - len(self.prompts))]

    @property
    def seen(self) -> str:
        """Which save of the set its fields go by; whoever is told of a newer one goes by that."""
        return self.instance.saved_at.isoformat() if self.instance.pk else ""

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if self.seen and self.data.get("seen") != self.seen:
            by = self.instance.by or "Somebody"
            self.add_error(
                None,
                f"{by} has saved this set since you opened it: open it in another tab to see how. "
                "What you typed is still below; saving again replaces theirs.",
            )
        if not self.prompts:
            self.add_error(None, "Write at least one prompt.")
        if len(self.prompts) > MOST:
            self.add_error(None, f"These are {len(self.prompts)} prompts, and {MOST} is the limit.")
        for at, text in enumerate(self.prompts, 1):
            # Rounds of a set that was edited in between are laid together by what prompts say.
            if (first := self.prompts.index(text) + 1) < at:
                self.add_error(None, f"Prompt {at} is the same as prompt {first}. Change one.")
            if len(text) > LONGEST:
                said = f"Prompt {at} has {len(text)} characters, and {LONGEST} is the limit."
                self.add_error(None, said)
        return cleaned


@dataclass(frozen=True, kw_only=True)
class PromptRunForm:
    run_id: int
    params: dict[str, str]


def read_round(text: bytes) -> PromptRunForm:
    """What a round begins with. Raises KeepError."""
    said = read_json(text)
    run = said.get("run") if isinstance(said, dict) else None
    params = said.get("params") if isinstance(said, dict) else None
    if not isinstance(run, int) or isinstance(run, bool):
        raise KeepError("No server is chosen. Pick one that is ready.")
    if not isinstance(params, dict) or not all(isinstance(each, str) for each in params.values()):
        raise KeepError("These are no parameters. Reload the page.")
    if len(json.dumps(params)) > PARAMS_LIMIT:
        raise KeepError(f"The parameters are larger than {PARAMS_LIMIT >> 10} KiB. Shorten them.")
    return PromptRunForm(run_id=run, params=params)


def read_answer(text: bytes, place: int) -> dict[str, Any]:
    """Raises KeepError."""
    return message(str(place), read_json(text))
