"""Forms of notification channels, and of a person’s own notifications."""

from collections.abc import Iterator
from typing import Any, cast

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.forms.boundfield import BoundWidget

from servers.host import alerts
from servers.models import Box, NotificationChannel, NotificationChoices
from servers.models.alerts import AlertKind, ChannelKind, NotificationTopic

LONGEST = 2000  # characters of an address
_HIDDEN = {"autocomplete": "off", "spellcheck": "false"}


class NotificationChannelForm(forms.ModelForm):  # type: ignore[type-arg]
    """Addresses and keys go in and never come out: left empty, what is there stays."""

    address = forms.CharField(
        required=False,
        max_length=LONGEST,
        widget=forms.TextInput(attrs={**_HIDDEN, "placeholder": "https://"}),
        help_text="The webhook’s address, https://ntfy.example.org/topic, or mail addresses with "
        "commas between. Kept encrypted, and never shown again.",
    )
    key = forms.CharField(
        required=False,
        max_length=500,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text="For JSON: signs what is sent. For ntfy: its access token. Else empty.",
    )
    kinds = forms.MultipleChoiceField(
        label="What about",
        required=False,
        choices=AlertKind.choices,
        widget=forms.CheckboxSelectMultiple,
    )

    class Meta:
        model = NotificationChannel
        fields = ("name", "kind", "box", "least", "is_enabled")
        labels = {
            "box": "Only of the box",
            "least": "From which severity on",
            "is_enabled": "Send there",
        }
        help_texts = {  # noqa: RUF012
            "kind": "A heartbeat requests its address every minute; who watches there misses a box "
            "that has died. One for each box.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        box = cast("forms.ModelChoiceField[Any]", self.fields["box"])
        box.empty_label = "every box"
        self.order_fields(["name", "kind", "address", "key", "box", "least", "is_enabled"])
        if self.instance.pk:
            self.initial["kinds"] = self.instance.kinds
            self.fields[
                "address"
            ].help_text = f"Empty: it stays what it is ({self.instance.hint}). It is never shown."
            self.fields["key"].help_text = "Empty: it stays. Enter the address again to drop it."

    @property
    def plain_fields(self) -> list[forms.BoundField]:
        return [field for field in self.visible_fields() if field.name != "kinds"]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        kind, address = cleaned.get("kind", ""), cleaned.get("address", "")
        if not address and (not self.instance.pk or "kind" in self.changed_data):
            self.add_error("address", "Write where to send it.")
        elif address and (said := _objection(kind, address)):
            self.add_error("address", said)
        if kind == ChannelKind.NTFY and not cleaned.get("key", "").isascii():
            self.add_error("key", "An access token of ntfy has letters and digits only.")
        if kind == ChannelKind.PING and cleaned.get("box") is None:
            self.add_error("box", "Choose the box that gives the sign of life.")
        if kind == ChannelKind.EMAIL and not settings.DEFAULT_FROM_EMAIL:
            self.add_error(
                "kind",
                "No mail server is set up: INFERDASH_EMAIL_URL in .env says which one sends.",
            )
        return cleaned

    def save(self, commit: bool = True) -> NotificationChannel:
        channel: NotificationChannel = super().save(commit=False)
        channel.kinds = self.cleaned_data["kinds"]
        if address := self.cleaned_data["address"]:
            channel.keep(address, self.cleaned_data["key"], _hint(channel.kind, address))
            channel.error = ""
        elif key := self.cleaned_data["key"]:
            channel.keep(channel.address, key, channel.hint)
        if commit:
            channel.save()
        return channel


def _objection(kind: str, address: str) -> str:
    if kind != ChannelKind.EMAIL:
        return alerts.objection(address)
    for each in address.split(","):
        try:
            validate_email(each.strip())
        except ValidationError:
            return f"{each.strip() or 'Nothing'} is no mail address."
    return ""


def _hint(kind: str, address: str) -> str:
    if kind != ChannelKind.EMAIL:
        return alerts.host_of(address)
    people = [each.strip().rpartition("@") for each in address.split(",")]
    return ", ".join(f"{name[:1]}…@{host}" for name, _at, host in people)


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
