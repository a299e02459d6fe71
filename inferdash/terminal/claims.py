"""claim, claims, release: who needs a server or GPUs, until when."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from inferdash.terminal import config, show
from inferdash.terminal.api import MISSING, USAGE, TerminalError


def claim(args: Namespace) -> int:
    words = [each.strip() for each in args.gpus.split(",") if each.strip()]
    if bool(args.server) == bool(words):
        raise TerminalError("Name a server, or GPUs with --gpus 0,1.", "Not both.", code=USAGE)
    if bad := [each for each in words if not each.isdigit()]:
        raise TerminalError(f"{bad[0]} is no number of a GPU.", "Write --gpus 0,1.", code=USAGE)
    said = config.api().post(
        "claims",
        server=args.server,
        box=args.box,
        gpus=list(map(int, words)),
        hours=args.hours,
        note=args.note,
    )
    return _print_result(args, said, f"{_what(said)}: claimed by {show.claim(said)}.")


def claims(args: Namespace) -> int:
    found = config.api().get("claims")
    if args.json:
        return show.write_json(found)
    rows = [
        [str(each["id"]), _what(each), each["box"], show.claim(each), each["note"]]
        for each in found
    ]
    show.write(show.table(["ID", "WHAT", "BOX", "CLAIMED BY", "NOTE"], rows))
    return 0


def release(args: Namespace) -> int:
    api = config.api()
    found = [
        each for each in api.get("claims") if args.what in (str(each["id"]), each["server"] or "")
    ]
    if not found:
        raise TerminalError(
            f"There is no claim of {args.what}.", "inferdash claims lists them.", code=MISSING
        )
    said = api.delete("claims", str(found[0]["id"]))
    return _print_result(args, said, f"{_what(said)}: not claimed any more.")


def _what(found: dict[str, Any]) -> str:
    if found["server"]:
        return str(found["server"])
    gpus = found["gpus"]
    return f"GPU{'' if len(gpus) == 1 else 's'} {', '.join(map(str, gpus))}"


def _print_result(args: Namespace, said: dict[str, Any], words: str) -> int:
    if args.json:
        return show.write_json(said)
    show.write(words)
    return 0
