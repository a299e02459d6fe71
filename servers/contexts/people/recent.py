"""The page context of recent actions: the newest lines of the audit log that a person may see."""

from dataclasses import dataclass
from datetime import datetime

from django.template.loader import render_to_string
from django.urls import reverse

from servers.models import AuditEntry, Server, User

MOST = 8
# What is done to servers can be seen on their pages; the rest of the log is an admin's to read.
_SEEN_BY_ALL = (
    *("start", "stop", "restart", "remove", "restore", "place", "claim", "apply fix"),
    *("watch", "unwatch", "start outside inferdash", "keep running", "let requests start"),
)
# The audit log names what was done as a command; here it reads as a sentence.
_SENTENCES = {
    "ask prompt set": "ran prompts on",
    "apply fix": "applied a fix to",
    "benchmark": "began a check-up of",
    "benchmark done": "finished a check-up of",
    "cancel benchmark": "stopped a check-up of",
    "chat": "asked",
    "download captured": "downloaded captured calls of",
    "let requests start": "let requests start",
    "preset": "saved a preset of",
    "preset deleted": "deleted a preset of",
    "start outside inferdash": "started outside inferdash:",
    "unwatch": "stopped monitoring",
    "watch": "began to monitor",
}
_IRREGULAR = {
    "give": "gave",
    "keep": "kept",
    "let": "let",
    "make": "made",
    "put": "put",
    "reset": "reset",
    "set": "set",
    "stop": "stopped",
}


@dataclass(frozen=True, kw_only=True)
class RecentAction:
    by: str
    verb: str
    subject: str
    url: str  # of the server, where there is one of this name
    at: datetime


def list_recent(person: User) -> list[RecentAction]:
    entries = AuditEntry.objects.select_related("by")
    if not person.may_administer:
        entries = entries.filter(action__in=_SEEN_BY_ALL)
    newest = list(entries[:MOST])
    named = Server.objects.filter(slug__in={each.subject for each in newest})
    there = set(named.values_list("slug", flat=True))
    return [
        RecentAction(
            by=entry.by.username if entry.by else "inferdash",
            verb=_tell(entry.action),
            subject=entry.subject,
            url=reverse("server", args=[entry.subject]) if entry.subject in there else "",
            at=entry.at,
        )
        for entry in newest
    ]


def _tell(action: str) -> str:
    """ "start" as "started", "save prompt set" as "saved prompt set"."""
    if action in _SENTENCES:
        return _SENTENCES[action]
    verb, _space, rest = action.partition(" ")
    past = _IRREGULAR.get(verb) or (f"{verb}d" if verb.endswith("e") else f"{verb}ed")
    return f"{past} {rest}".strip()


def html(person: User) -> str:
    context = {"recent": list_recent(person), "person": person}
    return render_to_string("people/_live_recent.html", context)
