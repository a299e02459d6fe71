"""Sentences of what people did: entries of the audit log, which keeps actions as commands."""

from collections.abc import Iterator, Mapping
from typing import Any

from django.utils import timezone
from django.utils.dateparse import parse_datetime

# Those whose first verb alone in the past tense is no good sentence.
_SENTENCES = {
    "accept answers": "accepted the answers of",
    "apply fix": "applied a fix to",
    "ask image": "inspected the image",
    "ask prompt set": "ran prompts on",
    "benchmark": "began a check-up of",
    "benchmark done": "finished a check-up of",
    "cancel benchmark": "stopped a check-up of",
    "canary": "began to check the answers of",
    "canary done": "checked the answers of",
    "cancel canary": "stopped checking the answers of",
    "change role": "changed the role of",
    "change password": "changed the password of",
    "change box": "changed the settings of the box",
    "change notifications": "changed the notifications of",
    "chat": "used in the playground",
    "claim": "claimed",
    "delete captured": "deleted captured calls:",
    "delete result": "deleted an uploaded result of",
    "delete round": "deleted a prompt run of",
    "disable person": "disabled the account of",
    "download captured": "downloaded captured calls of",
    "enable person": "enabled the account of",
    "end capture": "ended the capture",
    "end invite": "withdrew the invitation",
    "end trial": "ended the trial of",
    "give up waiting": "gave up waiting to start",
    "invite": "invited",
    "invite box": "made a token for one more box,",
    "join": "joined as",
    "keep running": "keeps running",
    "let in box": "let in the box",
    "let requests start": "let requests start",
    "limit download": "limited the download of",
    "place": "placed",
    "preset": "saved a preset of",
    "preset deleted": "deleted a preset of",
    "put away restart": "dismissed the restart of",
    "refuse box": "refused the box",
    "remove box": "removed the box",
    "reset link": "made a link to reset the password of",
    "reset password": "reset the password of",
    "revoke box": "revoked the box",
    "set parameters": "set the parameters of",
    "start outside inferdash": "started outside inferdash:",
    "stop for take over": "stopped, to take it over,",
    "switch capture on": "began the capture",
    "try download again": "tried again to download",
    "try upgrade": "tried an upgrade of",
    "unwatch": "stopped monitoring",
    "upload result": "uploaded a result of",
    "watch": "began to monitor",
    "withdraw invitation": "withdrew the token",
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
# Of jobs the audit log has the wish, "pull image", and the end, "pull image done".
_JOBS = {
    "adopt": ("take in", "took in"),
    "build image": ("build", "built"),
    "delete": ("delete", "deleted"),
    "download": ("download", "downloaded"),
    "kill": ("end", "ended"),
    "move image": ("move the tag", "moved the tag"),
    "profile": ("make a profile of", "made a profile of"),
    "prune image": ("clean up", "cleaned up"),
    "pull image": ("pull", "pulled"),
    "reclaim": ("reclaim memory:", "reclaimed memory:"),
    "takeover": ("take over", "took over"),
    "unlink": ("free", "freed"),
    "watch": ("monitor", "began to monitor"),
}
_FAILURES = {"failed": "could not", "refused": "could not", "cancelled": "no longer wanted to"}
_NAMES = {"may": "scope", "new": "now", "old": "before", "of": "from", "pk": "id"}
_LEFT_OUT: tuple[Any, ...] = ("", None, [], {})
_MOST = 300  # characters


def describe_action(action: str) -> str:
    """ "start" as "started", "save prompt set" as "saved prompt set"."""
    if action in _SENTENCES:
        return _SENTENCES[action]
    job, _space, end = action.rpartition(" ")
    if job in _JOBS and (end == "done" or end in _FAILURES):
        wish, past = _JOBS[job]
        return past if end == "done" else f"{_FAILURES[end]} {wish}"
    if action in _JOBS:
        return f"began to {_JOBS[action][0]}"
    verb, _space, rest = action.partition(" ")
    past = _IRREGULAR.get(verb) or (f"{verb}d" if verb.endswith("e") else f"{verb}ed")
    return f"{past} {rest}".strip()


def describe_detail(action: str, detail: Mapping[str, Any], *, box: str = "") -> str:
    """What else is known of it, in words: "version 3, run 12, after its requests"; "" for nothing.

    `box`: where its server is, where it is to be named; an entry may say that itself.
    """
    words = list(_list_words(action, detail))
    if box and not {"box", "placed"} & detail.keys():
        words.insert(0, f"on {box}")
    return ", ".join(words)[:_MOST]


def _list_words(action: str, detail: Mapping[str, Any]) -> Iterator[str]:
    for key, value in detail.items():
        if value in _LEFT_OUT:
            continue
        if action == "stop" and key == "when":
            # Stopping at once is what stopping means.
            if value != "Stopped":
                yield "after its requests" if value == "Drained" else str(value)
            continue
        yield _tell(_NAMES.get(key, key).replace("_", " "), value)


def _tell(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return name if value else f"not {name}"
    if isinstance(value, list):
        return f"{name}: {', '.join(map(str, value))}"
    if isinstance(value, dict):
        return f"{name}: {', '.join(f'{key} {each}' for key, each in value.items())}"
    if name in ("until", "at") and (moment := parse_datetime(str(value))):
        return f"{name} {timezone.localtime(moment):%-d %b %H:%M}"
    if name in ("why", "reason", "said"):
        return str(value)
    is_short = isinstance(value, int) or name in ("box", "from", "to", "for", "until")
    return f"{name} {value}" if is_short else f"{name}: {value}"
