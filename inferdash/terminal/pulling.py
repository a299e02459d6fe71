"""Downloads of models, followed until they are done; and the list of them."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from inferdash.terminal import config, show
from inferdash.terminal.api import FAILED, USAGE, Api, TerminalError

WAIT = 20  # seconds that an answer may be held back
INTERRUPTED = 130
_MIB = 2**20


def pull(args: Namespace) -> int:
    api = config.api()
    if args.limit < 0:
        raise TerminalError("--limit is MiB/s, 0 or more.", code=USAGE)
    said = api.post(
        "downloads", model=args.model, revision=args.revision, box=args.box, files=args.include,
        into=args.into, limit=int(args.limit * _MIB),
    )  # fmt: skip
    if args.detach:
        return _print_result(args, said)
    try:
        said = _follow(api, said)
    except KeyboardInterrupt:
        show.bar("")
        show.aside(
            f"It goes on without this terminal. inferdash pulls shows it; inferdash pulls cancel "
            f"{said['id']} ends it.\n"
        )
        return INTERRUPTED
    return _print_result(args, said)


def _follow(api: Api, said: dict[str, Any]) -> dict[str, Any]:
    """Until it is over, or somebody has paused it."""
    while said["state"] not in ("done", "failed", "cancelled", "paused"):
        show.bar(_line(said))
        said = api.get("downloads", str(said["id"]), seen=said["mark"], wait=WAIT)
    show.bar("")
    return said


def _line(said: dict[str, Any]) -> str:
    if said["percent"] is None:
        return f"{said['model']}: {said['state']}"
    parts = [f"{said['model']} {show.meter(said['percent'])} {said['percent']} %"]
    if said["state"] == "downloading":
        parts.append(f"{show.gib(said['done'])} of {show.gib(said['total'])}")
        if said["rate"]:
            parts.append(f"{said['rate'] / _MIB:.1f} MiB/s")
        if said["left"] is not None:
            parts.append(f"{show.span(said['left'])} left")
    else:
        parts.append(said["state"])
    if said["trouble"]:
        parts.append(said["trouble"])
    return ", ".join(parts)


def _print_result(args: Namespace, said: dict[str, Any]) -> int:
    if args.json:
        show.write_json(said)
    else:
        more = " ".join(each for each in (said["says"], said["advice"], said["trouble"]) if each)
        show.write(f"{said['model']} on {said['box']}: {said['state']}{'. ' if more else ''}{more}")
    return FAILED if said["state"] in ("failed", "cancelled") else 0


def pulls(args: Namespace) -> int:
    api = config.api()
    if args.action and args.id is None:
        raise TerminalError(
            f"Which one to {args.action} is missing.",
            "inferdash pulls shows their numbers.",
            code=USAGE,
        )
    if args.action:
        body = {"delete_parts": args.delete_parts} if args.action == "cancel" else {}
        said = api.post("downloads", str(args.id), args.action, **body)
        if args.json:
            show.write_json(said)
        else:
            show.write(f"{said['model']} on {said['box']}: {said['wanted']} is wanted.")
        return 0
    found = api.get("downloads")
    if args.json:
        return show.write_json(found)
    rows = [
        [
            str(each["id"]), each["model"], each["box"], each["state"],
            show.percent(each["percent"]).strip(), show.gib(each["total"]),
            "" if not each["rate"] else f"{each['rate'] / _MIB:.1f} MiB/s", each["trouble"] or each["says"],
        ]
        for each in found
    ]  # fmt: skip
    heads = ["ID", "MODEL", "BOX", "STATE", "THERE", "SIZE", "PACE", ""]
    show.write(show.table(heads, rows))
    return 0
