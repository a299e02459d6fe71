"""The form of a person's own notifications."""

from collections.abc import Iterator
from typing import Any

from django import forms
from django.conf import settings
from django.forms.boundfield import BoundWidget

from servers.models import Box, NotificationChoices
from servers.models.alerts.choices import NotificationTopic

type Row = tuple[str, BoundWidget, BoundWidget | None]


class NotificationChoicesForm(forms.Form):
    browser = forms.MultipleChoiceField(required=False, widget=forms.CheckboxSelectMultiple)
    mail = forms.MultipleChoiceField(required=False, widget=forms.CheckboxSelectMultiple)
    address = forms.EmailField(
        label="Mail address",
        required=False,
        widget=forms.EmailInput(attrs={"autocomplete": "email"}),
    )

    def __init__(self, data: Any = None, *, choices: NotificationChoices) -> None:
        initial = {
            "browser": choices.browser,
            "mail": choices.mail,
            "address": choices.address,
        }
        super().__init__(data, initial=initial)
        slugs = Box.objects.values_list("slug", flat=True)
        topics = [
            *NotificationTopic.choices,
            *((f"box:{slug}", f"Every alert of {slug}") for slug in slugs),
        ]
        self.has_mail = bool(settings.DEFAULT_FROM_EMAIL)
        for name in ("browser", "mail"):
            field = self.fields[name]
            if isinstance(field, forms.MultipleChoiceField):
                field.choices = topics
        if not self.has_mail:
            del self.fields["mail"], self.fields["address"]

    def rows(self) -> Iterator[Row]:
        """A topic each: its words, and its ticks for the browser and for mail."""
        mails = list(self["mail"]) if self.has_mail else [None] * len(self["browser"])
        for browser, mail in zip(self["browser"], mails, strict=True):
            yield str(browser.choice_label), browser, mail

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("mail") and not cleaned.get("address") and "address" not in self.errors:
            self.add_error("address", "Write where mail should go.")
        return cleaned
