"""How a launch reads on a page: each flag and variable with the reason for it."""

from dataclasses import replace

from django import template

from servers.commandline import explained
from servers.commandline.explained import Row
from servers.engines.diff import Difference
from servers.engines.engine import secret_words
from servers.engines.launch import Launch
from servers.forms.profile import ProfileForm
from servers.forms.profile_values import MASK
from servers.models.secret import mask

register = template.Library()

# Fields of a launch that the form shows under another name.
_TITLES = {"ipc": "Share the box's IPC (--ipc=host)", "secret_env": "Secrets"}


@register.filter
def flag_rows(launch: Launch) -> list[Row]:
    keys = secret_words(launch.flags)
    rows = explained.flag_rows(launch.flags, launch.reasons)
    return [replace(row, text=mask(row.text, keys)) for row in rows]


@register.filter
def without_keys(differences: list[Difference]) -> list[Difference]:
    """Keys among the flags are masked: who compares need not know them."""
    return [
        replace(each, before=_masked(each.name, each.before), after=_masked(each.name, each.after))
        if each.part == "flags"
        else each
        for each in differences
    ]


def _masked(name: str, said: str | None) -> str | None:
    if not said:
        return said
    # What one flag says, or under "order" the whole command line; "·" stands between repeats.
    words = said.replace("·", " ").split()
    return mask(said, secret_words((name, *words)))


@register.filter
def variable_rows(launch: Launch) -> list[Row]:
    secrets = dict.fromkeys(launch.secret_env, MASK)
    return explained.variable_rows({**launch.env, **secrets}, launch.reasons)


@register.filter
def field_title(name: str) -> str:
    """A field of a launch as the form calls it; a flag or variable as it is."""
    field = ProfileForm.base_fields.get(name)
    if field is None:
        return _TITLES.get(name, name)
    return str(field.label or name.replace("_", " ").capitalize())
