"""Messages for saves that make no new version."""

from collections.abc import Mapping

from servers.forms.environment import EnvironmentForm
from servers.forms.profile import ProfileForm
from servers.models import ProfileVersion
from servers.models.profiles.environment import EnvironmentVersion


def describe_unversioned(
    form: ProfileForm | EnvironmentForm,
    before: Mapping[str, object],
    version: ProfileVersion | EnvironmentVersion | None,
) -> str:
    """What a save has kept that makes no version."""
    changed = [
        name for name, value in form.describe().items() if _lines(value) != _lines(before[name])
    ]
    if not changed:
        return "Nothing was changed."
    titles = [str(form[name].label).lower() for name in changed]
    return f"Saved: {', '.join(titles)}. It stays version {version.number if version else 0}."


def _lines(value: object) -> object:
    """A text without the line ends that a browser writes its own way."""
    return value.splitlines() if isinstance(value, str) else value
