"""boxes: list them, invite one, let it in or refuse it, bring it up, revoke it."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, Namespace
from typing import Any

from inferdash.terminal import config, show
from inferdash.terminal.api import FAILED, FORBIDDEN, MISSING, USAGE, Api, TerminalError

LOOK_EVERY = 1.0  # seconds


def add_to(to: ArgumentParser, json: ArgumentParser) -> None:
    kinds = to.add_subparsers(dest="kind", required=True, metavar="COMMAND")
    of_box = ArgumentParser(add_help=False)
    of_box.add_argument("box", help="its name")
    yes = ArgumentParser(add_help=False)
    yes.add_argument("-y", "--yes", action="store_true", help="without a question")

    kinds.add_parser("list", help="all, and those that ask", parents=[json]).set_defaults(do=ls)
    kinds.add_parser("add", help="a token for one more", parents=[json]).set_defaults(do=add)
    one = kinds.add_parser("let-in", help="one that asks", parents=[of_box, yes, json])
    one.add_argument("--as", dest="name", default="", metavar="NAME", help="call it this")
    one.add_argument("--replace", action="store_true", help="it is that box with a new key")
    one.set_defaults(do=let_in)
    one = kinds.add_parser("refuse", help="one that asks", parents=[of_box, json])
    one.set_defaults(do=refuse)
    one = kinds.add_parser("bring-up", help="to the hub's version", parents=[of_box, yes, json])
    one.set_defaults(do=bring_up)
    one = kinds.add_parser("release", help="one that two machines run as", parents=[of_box, json])
    one.set_defaults(do=release)
    one = kinds.add_parser("revoke", help="cut one off", parents=[of_box, yes, json])
    one.set_defaults(do=revoke)


def ls(args: Namespace) -> int:
    api = config.api()
    found = api.get("boxes")
    asking = _list_asking(api)
    if args.json:
        return show.write_json({"boxes": found, "asking": asking})
    rows = [
        [
            each["slug"], _state(each["link"]), each["health"], str(len(each["gpus"])),
            each["link"]["version"] or "–", _clock(each["link"]["clock_offset"]),
        ]
        for each in found
    ]  # fmt: skip
    show.write(show.table(["BOX", "LINK", "HEALTH", "GPUS", "VERSION", "CLOCK"], rows))
    for each in asking:
        show.write(f"{each['name']} asks to join from {each['address']}: {each['words']}")
    return 0


def _list_asking(api: Api) -> list[dict[str, Any]]:
    """Nothing for a key that may not decide about them."""
    try:
        return [each for each in api.get("links") if each["state"] == "asks"]
    except TerminalError as error:
        if error.code != FORBIDDEN:
            raise
        return []


def _state(link: dict[str, Any]) -> str:
    since = show.ago(link["since"])
    return f"{link['state']} for {since}" if since else str(link["state"])


def _clock(offset: float | None) -> str:
    return "–" if offset is None else f"{offset:+.1f} s"


def add(args: Namespace) -> int:
    said = config.api().post("links", "invitations")
    text = (
        f"Run this on the other box, in its folder of inferdash:\n\n  {said['command']}\n\n"
        "It works once, for 30 minutes. The box shows six words; then: inferdash boxes let-in NAME"
    )
    return show.answer(args, said, text)


def let_in(args: Namespace) -> int:
    api = config.api()
    link = _find(api, args.box, "asks")
    question = f"Does the terminal of {link['name']} show “{link['words']}”?"
    if not _is_sure(args, question):
        show.write("It was not let in.")
        return 0
    said = api.post("links", str(link["id"]), "let-in", name=args.name, replaces=args.replace)
    return show.answer(args, said, f"{said['name']} is let in.")


def refuse(args: Namespace) -> int:
    api = config.api()
    said = api.post("links", str(_find(api, args.box, "asks")["id"]), "refuse")
    return show.answer(args, said, f"{said['name']} is refused.")


def release(args: Namespace) -> int:
    api = config.api()
    said = api.post("links", str(_find(api, args.box, "held")["id"]), "release")
    return show.answer(args, said, f"{said['name']} is let in again.")


def revoke(args: Namespace) -> int:
    api = config.api()
    link = _find(api, args.box, "joined")
    if not _is_sure(args, f"Cut {link['name']} off? Its engines go on."):
        show.write("It was not revoked.")
        return 0
    said = api.post("links", str(link["id"]), "revoke")
    text = f"{said['name']} is revoked."
    if said["secrets"]:
        text += f" It has seen {', '.join(said['secrets'])}: change them."
    return show.answer(args, said, text)


def bring_up(args: Namespace) -> int:
    """Until it is there, or back."""
    api = config.api()
    link = _find(api, args.box, "joined")
    if not _is_sure(args, f"Bring {link['name']} to the hub's version? Its engines go on."):
        show.write("It stays as it is.")
        return 0
    at = ("links", str(link["id"]), "bring-up")
    said, told = api.post(*at), ""
    while said["is_open"]:
        percent = f" {said['percent']} %" if said["step"] == "fetching" and said["percent"] else ""
        if not args.json and (now := f"{_STEPS.get(said['step'], said['step'])}{percent}") != told:
            show.write(now)
            told = now
        time.sleep(LOOK_EVERY)
        said = api.get(*at)
    if said["step"] != "done":
        raise TerminalError(said["said"] or f"It was {said['step']}.", "", code=FAILED)
    return show.answer(args, said, f"{link['name']} has {said['version']} now.")


_STEPS = {
    "asked": "waiting for the box",
    "described": "the hub packs its release",
    "packed": "the box is about to fetch it",
    "switching": "restarting",
}


def _find(api: Api, name: str, state: str) -> dict[str, Any]:
    found = [e for e in api.get("links") if e["name"] == name and e["state"] == state]
    if not found:
        what = {"asks": "asks to join", "held": "is held"}.get(state, "has joined")
        raise TerminalError(f"No box {name} {what}.", "inferdash boxes list", code=MISSING)
    if len(found) > 1:
        said = "; ".join(f"{each['words']} from {each['address']}" for each in found)
        raise TerminalError(
            f"Several boxes called {name} ask: {said}.", "Decide on the page Boxes.", code=USAGE
        )
    return dict(found[0])


def _is_sure(args: Namespace, question: str) -> bool:
    """Without a terminal to ask, only --yes is an answer."""
    if args.yes:
        return True
    if not sys.stdin.isatty():
        raise TerminalError(question, "Answer with --yes.", code=USAGE)
    sys.stdout.write(f"{question} [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().casefold() in ("y", "yes")
