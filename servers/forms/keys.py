"""The form of an API key."""

from datetime import timedelta
from typing import Any

from django import forms
from django.utils import timezone

from servers.models import Permission, Role, User

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
