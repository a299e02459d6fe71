"""The commands. They print to standard output and return an exit code."""

from __future__ import annotations

import getpass
import json
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from inferdash.terminal import config, show
from inferdash.terminal.api import FAILED, MISSING, USAGE, WAIT, Api, TerminalError

_UP = ("ready", "asleep")
_OVER = ("stopped", "failed")


def login(args: Namespace) -> int:
    key = sys.stdin.readline() if not sys.stdin.isatty() else getpass.getpass("Key: ")
    authority = _authority(args.ca) if args.ca else ""
    made = Api(args.url, key.strip(), authority)
    count = len(made.get("servers"))
    kept = config.keep(made.url, key.strip(), authority)
    show.write(f"Logged in to {made.url}, which has {count} servers. Kept in {kept}.")
    return 0


def _authority(file: str) -> str:
    try:
        return Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise TerminalError(
            f"{file} cannot be read: {error}.", "Name the ca.crt of inferdash.", code=USAGE
        ) from error


def logout(_args: Namespace) -> int:
    show.write("Forgotten." if config.forget() else "Nothing was kept here.")
    return 0


def ps(args: Namespace) -> int:
    found = config.api().get("servers")
    if args.names:
        show.write("\n".join(each["slug"] for each in found))
    elif args.json:
        show.write_json(found)
    else:
        rows = []
        for each in found:
            what = [each["box"], each["engine"], each["model"], _load(each)]
            rows.append([each["slug"], show.state(each), *what])
        heads = ["SERVER", "STATE", "BOX", "ENGINE", "MODEL", "NOW"]
        claimed = [", ".join(map(show.claim, each["claims"])) for each in found]
        if any(claimed):
            heads.insert(2, "CLAIMED BY")
            for row, words in zip(rows, claimed):  # noqa: B905 - Python 3.9
                row.insert(2, words)
        show.write(show.table(heads, rows))
    return 0


def _load(server: dict[str, Any]) -> str:
    parts = []
    if server["requests_running"]:
        parts.append(f"{server['requests_running']} running")
    if server["tokens_per_second"]:
        parts.append(f"{server['tokens_per_second']:.0f} tok/s")
    return ", ".join(parts)


def start(args: Namespace) -> int:
    api = config.api()
    if args.any_box:
        said = api.post("profiles", args.server, "start")
        show.aside(f"{said['placed']}\n")
        return _wait(api, args, said) if args.wait else _print_result(args, said)
    when_taken = "wait" if args.queue else "beside" if args.beside else "refuse"
    said = api.post(
        "servers",
        args.server,
        "start",
        despite=args.despite,
        despite_claim=args.despite_claim,
        when_taken=when_taken,
    )
    return _wait(api, args, said) if args.wait else _print_result(args, said)


def stop(args: Namespace) -> int:
    api = config.api()
    if not args.yes and sys.stdin.isatty() and not _may_stop(api.get("servers", args.server)):
        show.write("Nothing was stopped.")
        return 0
    said = api.post(
        "servers", args.server, "stop", after_requests=args.drain, despite_claim=args.despite_claim
    )
    return _print_result(args, _follow(api, said, *_OVER, "never started") if args.wait else said)


def _may_stop(server: dict[str, Any]) -> bool:
    """Asked where requests run, or the engine does not say whether any do."""
    count = server["requests_running"]
    if server["state"] not in _UP or count == 0:
        return True
    by = server["run"]["started_by"]
    said = "Its engine does not say whether requests run." if count is None else f"{count} run."
    sys.stdout.write(
        f"{server['slug']}{f', started by {by}' if by else ''}. {said} Stop it? [y/N] "
    )
    sys.stdout.flush()
    return sys.stdin.readline().strip().casefold() in ("y", "yes")


def restart(args: Namespace) -> int:
    api = config.api()
    said = api.post("servers", args.server, "restart", despite_claim=args.despite_claim)
    return _wait(api, args, said) if args.wait else _print_result(args, said)


def _wait(api: Api, args: Namespace, said: dict[str, Any]) -> int:
    """Until it is ready, or has failed."""
    said = _follow(api, said, *_UP, *_OVER)
    _print_result(args, said)
    if said["state"] in _UP:
        return 0
    if not args.json:
        _write_why(api.get("runs", str(said["run"]["id"]), "why"))
    return FAILED


def _follow(api: Api, said: dict[str, Any], *over: str) -> dict[str, Any]:
    def line(server: dict[str, Any]) -> str:
        return f"{server['slug']}: {show.state(server)}"

    return api.follow(said, "servers", said["slug"], over=over, line=line)


def _print_result(args: Namespace, said: dict[str, Any]) -> int:
    where = f" at {said['base_url']} on {said['box']}" if said["base_url"] else ""
    return show.answer(args, said, f"{said['slug']}: {show.state(said)}{where}")


def logs(args: Namespace) -> int:
    api = config.api()
    api.is_shown = False  # --raw is for files, and lines are shown below
    run = args.run or _run(api, args.server)
    at = 1 if args.all else -args.lines
    while True:
        said = api.get(
            "runs", str(run), "log", start=at, limit=5000, wait=WAIT if args.follow else 0
        )
        for line in said["lines"]:
            stamp = f"{line['at']} " if args.timestamps else ""
            text = line["text"] if args.raw else show.readable(line["text"])
            show.write(json.dumps(line) if args.json else f"{stamp}{text}")
        at = said["next"]
        if said["is_complete"] or (not args.follow and not said["lines"]):
            return 0


def why(args: Namespace) -> int:
    """As with `fit`, the code is the answer: FAILED for a run that has failed."""
    api = config.api()
    said = api.get("runs", str(args.run or _run(api, args.server)), "why")
    if args.json:
        show.write_json(said)
    else:
        _write_why(said)
    return FAILED if said["run"]["state"] == "failed" else 0


def _write_why(said: dict[str, Any]) -> None:
    of = said["run"]
    if of["state"] != "failed":
        show.write(f"Run {of['id']} of {of['server']} has not failed: it is {of['state']}.")
        return
    show.write(said["summary"] or "Nobody has found out why yet.")
    for number, text in said["evidence"]:
        show.write(f"  {number}: {text}")
    if of["memory"]:
        show.write(f"Memory: {of['memory']}")
    fixes = said.get("fixes", [])  # an inferdash that is older does not tell them
    if fixes:
        show.write("What to do:")
    for text in fixes:
        show.write(f"  - {text}")
    if said["is_partial"]:
        show.write("Only a part of its log was there; it is looked at again.")


def _run(api: Api, server: str) -> int:
    run = api.get("servers", server)["run"]
    if run is None:
        raise TerminalError(f"{server} has never been started.", code=MISSING)
    return int(run["id"])


def fit(args: Namespace) -> int:
    said = config.api().get("servers", args.server, "fit")
    if args.json:
        show.write_json(said)
    else:
        marks = {"ok": "✓", "warning": "!", "error": "✗", "unknown": "?"}
        for each in said["checks"]:
            remedy = f" {each['remedy']}" if each["remedy"] and each["level"] != "ok" else ""
            show.write(f"{marks.get(each['level'], '?')} {each['says']}{remedy}")
        for each in said["findings"]:
            show.write(f"{marks.get(each['level'], '!')} {each['says']}")
        if said["memory"]:
            show.write(said["memory"]["says"])
        show.write("It may start." if said["may_start"] else "It would fail.")
    return 0 if said["may_start"] else FAILED


def box(args: Namespace) -> int:
    api = config.api()
    found = [api.get("boxes", args.box)] if args.box else api.get("boxes")
    if args.json:
        return show.write_json(found)
    for each in found:
        free = (
            f", {show.gib(each['memory_free'])} of main memory free" if each["memory_free"] else ""
        )
        show.write(f"{each['slug']}: {each['health']}{free}")
        for problem in each["problems"]:
            show.write(f"  ! {problem}")
        rows = [
            [
                f"  {gpu['index']}", gpu["name"], f"{show.gib(gpu['used'])} of {show.gib(gpu['total'])}",
                "–" if gpu["utilisation"] is None else f"{gpu['utilisation']} %",
                gpu["verdict"].replace("_", " "), _holders(gpu),
            ]
            for gpu in each["gpus"]
        ]  # fmt: skip
        if rows:
            show.write(show.table(["  GPU", "NAME", "MEMORY", "BUSY", "VERDICT", "HELD BY"], rows))
        for gpu in each["gpus"]:
            if gpu["reason"]:
                show.write(f"  GPU {gpu['index']}: {gpu['reason']} {gpu['advice']}")
    return 0


def _holders(gpu: dict[str, Any]) -> str:
    held = [each for each in gpu["memory"] if each["kind"] in ("server", "process", "unattributed")]
    return ", ".join(f"{each['name']} {show.gib(each['size'])}" for each in held)


def models(args: Namespace) -> int:
    api = config.api()
    boxes = [args.box] if args.box else [each["slug"] for each in api.get("boxes")]
    found = {slug: api.get("boxes", slug, "models") for slug in boxes}
    rows = (
        [
            each["name"], show.gib(each["size"]), each["quantization"] or each["format"],
            each["because"] and f"{each['state']}: {each['because']}" or each["state"],
            slug, each["path"],
        ]
        for slug, stored in found.items()
        for each in stored
    )  # fmt: skip
    return show.answer_rows(
        args, found, ["MODEL", "SIZE", "MADE AS", "WHOLE?", "BOX", "PATH"], rows
    )


def profile_list(args: Namespace) -> int:
    found = config.api().get("profiles", q=args.text)
    rows = (
        [
            each["slug"], f"v{each['version']}", each["engine"], each["model"],
            ", ".join(each["servers"]),
        ]
        for each in found
    )  # fmt: skip
    return show.answer_rows(args, found, ["PROFILE", "VERSION", "ENGINE", "MODEL", "SERVERS"], rows)


def profile_export(args: Namespace) -> int:
    sys.stdout.write(config.api().text("profiles", args.profile, "export", args.form))
    return 0


def profile_import(args: Namespace) -> int:
    api, text = config.api(), _read(args.file)
    if args.into:
        said = api.put("profiles", args.into, document=text, message=args.message)
    else:
        said = api.post(
            "profiles", document=text, box=args.box, name=args.name, message=args.message
        )
    on = ", ".join(said["servers"]) or "no box"
    remarks = [f"  {remark}" for remark in said.get("remarks", ())]
    text = "\n".join([f"{said['slug']}: version {said['version']}, on {on}", *remarks])
    return show.answer(args, said, text)


def _read(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise TerminalError(f"{name} cannot be read: {error}.", code=USAGE) from error


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
    return show.answer(args, said, f"{_what(said)}: claimed by {show.claim(said)}.")


def claims(args: Namespace) -> int:
    found = config.api().get("claims")
    rows = (
        [str(each["id"]), _what(each), each["box"], show.claim(each), each["note"]]
        for each in found
    )
    return show.answer_rows(args, found, ["ID", "WHAT", "BOX", "CLAIMED BY", "NOTE"], rows)


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
    return show.answer(args, said, f"{_what(said)}: not claimed any more.")


def _what(found: dict[str, Any]) -> str:
    if found["server"]:
        return str(found["server"])
    gpus = found["gpus"]
    return f"GPU{'' if len(gpus) == 1 else 's'} {', '.join(map(str, gpus))}"
