"""The form of an API key."""

from datetime import timedelta
from typing import Any

from django import forms
from django.utils import timezone

from servers.models import Permission, Role, User

# Days; 0: it never ends.
ONLY_ASKS = 0  # among the roles; that of chat, which is offered for no key
LIVES = {30: "30 days", 90: "90 days", 365: "a year", 0: "until it is revoked"}


class KeyForm(forms.Form):
    name = forms.CharField(
        label="What is it for?",
        max_length=80,
        widget=forms.TextInput(attrs={"placeholder": "my laptop", "autocomplete": "off"}),
    )
    role = forms.TypedChoiceField(label="It may", coerce=int)
    models_allowed = forms.CharField(
        label="Only these models",
        required=False,
        max_length=1000,
        help_text="Of the gateway; names apart by spaces. Empty: all.",
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    requests_per_minute = forms.IntegerField(
        label="Requests a minute",
        required=False,
        min_value=1,
        max_value=100_000,
        help_text="Requests to models a minute. Empty: unlimited.",
    )
    lives = forms.TypedChoiceField(label="It lives", coerce=int, choices=LIVES.items(), initial=90)

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
            role.choices = [(each.value, f"do what {each.with_article} may") for each in may]
            # The least: more is chosen on purpose.
            role.initial = may[0].value if may else ONLY_ASKS
            if person.may_chat:
                role.choices = [(ONLY_ASKS, "use models only"), *role.choices]
                role.help_text = (
                    "“Ask models only” suits chat programs and scripts: it opens the gateway and "
                    "nothing else, neither the API nor the terminal. For those choose a role."
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
