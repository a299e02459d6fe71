"""Servers in the playground's list."""

import json
from typing import Any

from django import template
from django.urls import reverse

from servers.judge.profiles.features import MissingFeature
from servers.lifecycle.profiles import checks
from servers.lifecycle.profiles.checks import Chat
from servers.models import Server
from servers.models.runs.run import RunState
from servers.templatetags.launches import change_words

register = template.Library()


@register.filter
def chat_abilities(server: Server) -> Chat | None:
    """None for a server that cannot be talked to now: nobody asks."""
    run = server.run
    return (
        checks.find_abilities(server) if run is not None and run.state == RunState.READY else None
    )


@register.filter
def chat_lacks(server: Server, chat: Chat | None) -> str:
    """As JSON: what is missing, in words, with the fix and where it is sent."""
    if chat is None:
        return "[]"
    return json.dumps([_lack(server, lack, lack.key in chat.saved) for lack in chat.lacks])


@register.filter
def chat_pictures(chat: Chat | None) -> str:
    """Whether its model takes pictures: true, false, or "" where nobody can tell."""
    taken = chat.takes_pictures if chat is not None else None
    return "" if taken is None else str(taken).lower()


@register.filter
def chat_context(chat: Chat | None) -> str:
    """Tokens of the longest request, "" where nobody can tell."""
    return str(chat.context or "") if chat is not None else ""


@register.filter
def chat_tools(chat: Chat | None) -> str:
    return str(chat is not None and chat.calls_tools).lower()


def _lack(server: Server, lack: MissingFeature, is_saved: bool) -> dict[str, Any]:
    said = {"key": lack.key, "says": lack.says.text, "fix": "", "url": "", "edit": ""}
    if is_saved:
        said["says"] += f" The profile has it by now: restart {server}."
    elif server.is_watched:
        said["says"] += f" {server} is only monitored: change it where it was started."
    elif lack.fix is not None:
        said["fix"] = change_words(lack.fix)
        said["url"] = reverse("chat_fix", args=[server.slug, lack.key])
    else:
        said["edit"] = reverse("profile_edit", args=[server.profile.slug])
    return said
