"""bench: measure a server, list results, compare them, export one."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from inferdash.terminal import config, show
from inferdash.terminal.api import FAILED
from inferdash.terminal.checkups import INTERRUPTED, follow, follow_begun

_SECONDS = ("ttft", "e2el")
_HEADS = {
    "user_rate": "TOK/S EACH", "output_rate": "TOK/S ALL", "ttft": "FIRST", "e2el": "WHOLE",
    "prefill_rate": "PROMPT TOK/S", "cached_share": "CACHED %",
}  # fmt: skip


def run(args: Namespace) -> int:
    api = config.api()
    asked: dict[str, Any] = {"server": args.server, "gives_way": not args.insist}
    if args.replay:
        replay = {"hour": args.replay, "pace": args.pace, "is_random": args.random}
        said = api.post("benchmarks", **asked, replay=replay)
    elif args.prompts:
        names = ("prompts", "output", "people", "rates", "rounds", "seconds")
        said = api.post("benchmarks", **asked, custom={name: getattr(args, name) for name in names})
    else:
        said = api.post("benchmarks", **asked, preset=args.preset)
    if not args.detach:
        ended = follow_begun(api, "benchmarks", said, _line, command="inferdash bench")
        if ended is None:
            return INTERRUPTED
        said = ended
    return _print_result(args, said)


def list_hours(args: Namespace) -> int:
    found = config.api().get("benchmarks", "hours", args.server)
    if args.json:
        return show.write_json(found)
    rows = [[each["hour"], str(each["requests"])] for each in found]
    show.write(show.table(["HOUR", "REQUESTS"], rows))
    return 0


def list_results(args: Namespace) -> int:
    found = config.api().get("benchmarks", server=args.server or None)
    if args.json:
        return show.write_json(found)
    rows = [
        [
            str(each["id"]), each["server"], each["title"], each["box"] or "–", each["state"],
            _clean(each), show.ago(each["asked_at"]), each["asked_by"] or "",
        ]
        for each in found
    ]  # fmt: skip
    show.write(show.table(["ID", "SERVER", "CHECK-UP", "BOX", "STATE", "CLEAN", "AGO", "BY"], rows))
    return 0


def show_result(args: Namespace) -> int:
    return _print_result(args, config.api().get("benchmarks", str(args.id)))


def stop(args: Namespace) -> int:
    api = config.api()
    said = api.post("benchmarks", str(args.id), "stop")
    return _print_result(args, follow(api, "benchmarks", said, _line))


def compare(args: Namespace) -> int:
    """Each of the others with the first."""
    api = config.api()
    found = {
        other: api.get("benchmarks", str(args.before), "compare", str(other))
        for other in args.after
    }
    if args.json:
        [first, *others] = found.values()
        return show.write_json(list(found.values()) if others else first)
    rows = [
        [
            str(other), each["point"], _HEADS.get(each["figure"], each["figure"]),
            _figure(each["figure"], each["before"]), _figure(each["figure"], each["after"]),
            f"{100 * each['change']:+.1f} %", each["verdict"],
        ]
        for other, differences in found.items()
        for each in differences
    ]  # fmt: skip
    if not rows:
        show.write("They have no point in common.")
        return FAILED
    heads = ["ID", "POINT", "FIGURE", "BEFORE", "AFTER", "CHANGE", ""]
    cut = 0 if len(found) > 1 else 1  # of two there is nothing to tell apart
    show.write(show.table(heads[cut:], [row[cut:] for row in rows]))
    return 0


def export(args: Namespace) -> int:
    show.write(config.api().text("benchmarks", str(args.id), "export", args.form).rstrip("\n"))
    return 0


def _line(said: dict[str, Any]) -> str:
    parts = [f"{said['server']}: {said['state']}", said["point"]]
    if said["left"] is not None:
        parts.append(f"about {show.span(said['left'])} left")
    return ", ".join(filter(None, parts))


def _print_result(args: Namespace, said: dict[str, Any]) -> int:
    if args.json:
        show.write_json(said)
    else:
        words = f"{said['server']}, {said['title']}: {said['state']}. {said['says']}".strip()
        show.write(f"{words} (result {said['id']})")
        keys = [key for key in _HEADS if any(key in each["figures"] for each in said["points"])]
        rows = [
            [
                each["label"],
                *(_mean(each, key) for key in keys),
                ", ".join(each["not_clean"]) or "yes",
            ]
            for each in said["points"]
        ]
        if rows:
            show.write(show.table(["POINT", *(_HEADS[key] for key in keys), "CLEAN"], rows))
    return FAILED if said["state"] == "failed" else 0


def _mean(point: dict[str, Any], key: str) -> str:
    found = point["figures"].get(key)
    return _figure(key, found["mean"]) if found else "–"


def _figure(key: str, value: float) -> str:
    if key in _SECONDS:
        return f"{1000 * value:.0f} ms" if value < 1 else f"{value:.1f} s"
    return f"{value:.1f}"


def _clean(said: dict[str, Any]) -> str:
    return {True: "yes", False: "no", None: "–"}[said["is_clean"]]
