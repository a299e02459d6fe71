"""canary: check a server's answers, list what was found, accept what has changed."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from inferdash.terminal import config, show
from inferdash.terminal.api import FAILED, Api
from inferdash.terminal.bench import INTERRUPTED, WAIT


def run(args: Namespace) -> int:
    api = config.api()
    said = api.post("canaries", server=args.server, set=args.set, gives_way=not args.insist)
    if not args.detach:
        try:
            said = _follow(api, said)
        except KeyboardInterrupt:
            show.bar("")
            show.aside(
                f"It goes on without this terminal. inferdash canary show {said['id']} shows it, "
                f"inferdash canary stop {said['id']} ends it.\n"
            )
            return INTERRUPTED
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
    return _print_canary(args, _follow(api, api.post("canaries", str(args.id), "stop")))


def accept(args: Namespace) -> int:
    said = config.api().post("canaries", str(args.id), "accept")
    if args.json:
        return show.write_json(said)
    show.write(f"The next canaries are compared with the answers of canary {said['id']}.")
    return 0


def _follow(api: Api, said: dict[str, Any]) -> dict[str, Any]:
    while said["is_open"]:
        parts = [f"{said['server']}: {said['state']}", said["item"]]
        if said["left"] is not None:
            parts.append(f"at most {show.span(said['left'])} left")
        show.bar(", ".join(filter(None, parts)))
        said = api.get("canaries", str(said["id"]), seen=said["mark"], wait=WAIT)
    show.bar("")
    return said


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
