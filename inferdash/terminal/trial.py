"""trial: try an upgrade of a server, follow it, keep it or go back."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from inferdash.terminal import config, show
from inferdash.terminal.api import FAILED
from inferdash.terminal.checkups import INTERRUPTED, follow, follow_begun

_STEPS = {
    "measure-old": "measuring what runs", "check-old": "checking its answers",
    "load-new": "loading the new one", "measure-new": "measuring the new one",
    "check-new": "checking its answers", "go-back": "loading the old one again", "over": "over",
    "wait": "waiting until nobody uses it", "again-old": "loading the old one once more",
    "measure-old2": "measuring it again", "again-new": "loading the new one once more",
    "measure-new2": "measuring it again",
}  # fmt: skip
_DECISIONS = {"keep": "kept", "back": "went back", "abandoned": "given up", "": "under way"}


def run(args: Namespace) -> int:
    api = config.api()
    said = api.post("trials", server=args.server, when=args.when, is_twice=args.twice)
    if not args.detach:
        ended = follow_begun(api, "trials", said, _line, command="inferdash trial", stop="back")
        if ended is None:
            return INTERRUPTED
        said = ended
    return _print_trial(args, said)


def list_trials(args: Namespace) -> int:
    found = config.api().get("trials", server=args.server or None)
    if args.json:
        return show.write_json(found)
    rows = [
        [
            str(each["id"]), each["server"], each["box"], _DECISIONS[each["decision"]],
            show.ago(each["asked_at"]), each["asked_by"] or "", each["says"],
        ]
        for each in found
    ]  # fmt: skip
    show.write(show.table(["ID", "SERVER", "BOX", "STATE", "AGO", "BY", "WHY"], rows))
    return 0


def show_trial(args: Namespace) -> int:
    return _print_trial(args, config.api().get("trials", str(args.id)))


def keep(args: Namespace) -> int:
    return _print_trial(args, config.api().post("trials", str(args.id), "keep"))


def go_back(args: Namespace) -> int:
    """Until the old one is ready again."""
    api = config.api()
    said = api.post("trials", str(args.id), "back")
    return _print_trial(args, said if args.detach else follow(api, "trials", said, _line))


def _line(said: dict[str, Any]) -> str:
    return f"{said['server']}: {_STEPS.get(said['step'], said['step'])}"


def _print_trial(args: Namespace, said: dict[str, Any]) -> int:
    """Fails where what was tried is not what runs in the end."""
    if args.json:
        show.write_json(said)
    else:
        state = _STEPS.get(said["step"], said["step"]) if said["is_open"] else ""
        words = f"{said['server']}: {state or _DECISIONS[said['decision']]}. {said['says']}"
        show.write(f"{words.strip()} (trial {said['id']})")
        for name in (
            "measured_before",
            "measured_after",
            "measured_before_again",
            "measured_after_again",
        ):
            if said[name] is not None:
                show.write(f"inferdash bench show {said[name]}")
        for name in ("answers_before", "answers_after"):
            if said[name] is not None:
                show.write(f"inferdash canary show {said[name]}")
    return FAILED if not said["is_open"] and said["decision"] != "keep" else 0
