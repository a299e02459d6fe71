"""How a launch reads on a page: each flag and variable with the reason for it."""

from django import template

from servers.commandline import explained
from servers.commandline.explained import Row
from servers.engines.launch import Launch
from servers.forms.profile import ProfileForm
from servers.forms.profile_values import MASK

register = template.Library()

# Fields of a launch that the form shows under another name.
_TITLES = {"ipc": "Share the box's IPC (--ipc=host)", "secret_env": "Secrets"}


@register.filter
def flag_rows(launch: Launch) -> list[Row]:
    return explained.flag_rows(launch.flags, launch.reasons)


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
