"""canary: check a server's answers, list what was found, accept what has changed."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from inferdash.terminal import config, show
from inferdash.terminal.api import FAILED
from inferdash.terminal.checkups import INTERRUPTED, follow, follow_begun


def run(args: Namespace) -> int:
    api = config.api()
    said = api.post("canaries", server=args.server, set=args.set, gives_way=not args.insist)
    if not args.detach:
        ended = follow_begun(api, "canaries", said, _line, command="inferdash canary")
        if ended is None:
            return INTERRUPTED
        said = ended
    return _print_canary(args, said)


def list_canaries(args: Namespace) -> int:
    found = config.api().get("canaries", server=args.server or None)
    if args.json:
        return show.write_json(found)
    rows = [
        [
            str(each["id"]), each["server"], each["set"], each["box"], each["state"],
            each["verdict"] or "–", show.ago(each["asked_at"]), each["asked_by"] or "inferdash",
        ]
        for each in found
    ]  # fmt: skip
    show.write(show.table(["ID", "SERVER", "SET", "BOX", "STATE", "VERDICT", "AGO", "BY"], rows))
    return 0


def show_canary(args: Namespace) -> int:
    return _print_canary(args, config.api().get("canaries", str(args.id)))


def stop(args: Namespace) -> int:
    api = config.api()
    said = api.post("canaries", str(args.id), "stop")
    return _print_canary(args, follow(api, "canaries", said, _line))


def accept(args: Namespace) -> int:
    said = config.api().post("canaries", str(args.id), "accept")
    if args.json:
        return show.write_json(said)
    show.write(f"The next canaries are compared with the answers of canary {said['id']}.")
    return 0


def _line(said: dict[str, Any]) -> str:
    parts = [f"{said['server']}: {said['state']}", said["item"]]
    if said["left"] is not None:
        parts.append(f"at most {show.span(said['left'])} left")
    return ", ".join(filter(None, parts))


def _print_canary(args: Namespace, said: dict[str, Any]) -> int:
    if args.json:
        show.write_json(said)
    else:
        words = f"{said['server']}: {said['verdict'] or said['state']}. {said['says']}".strip()
        show.write(f"{words} (canary {said['id']})")
        if said["items"]:
            rows = [[each["title"], each["verdict"], each["says"]] for each in said["items"]]
            show.write(show.table(["ITEM", "VERDICT", "WHY"], rows))
        if said["changes"]:
            show.write(f"Changed since: {', '.join(said['changes'])}")
        for reason in said["reasons"]:
            show.write(f"Known: {reason}")
    is_bad = said["state"] == "failed" or (said["verdict"] == "wrong" and not said["is_accepted"])
    return FAILED if is_bad else 0
