"""Images and models on a box: what lies there or is newer elsewhere; pulled, followed, moved to, removed."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Any

from inferdash.terminal import config, show
from inferdash.terminal.api import FAILED, INTERRUPTED, USAGE, Api, TerminalError

_MIB = 2**20
_JOB_OVER = ("done", "failed", "cancelled", "held")
_DOWNLOAD_OVER = ("done", "failed", "cancelled", "paused")


def list_images(args: Namespace) -> int:
    api = config.api()
    found = {slug: api.get("boxes", slug, "images") for slug in _boxes(api, args.box)}
    if args.json:
        return show.write_json(found)
    every = [(slug, each) for slug, there in found.items() for each in there]
    shown = [(slug, each) for slug, each in every if args.all or _is_shown(each)]
    rows = [
        [
            _name(each), each["id"].replace("sha256:", "")[:12], show.gib(each["size"]),
            each["version"] or "–", _kind(each), slug, _users(each),
        ]
        for slug, each in shown
    ]  # fmt: skip
    show.write(show.table(["IMAGE", "ID", "SIZE", "ENGINE", "FOR", "BOX", "USED BY"], rows))
    if len(shown) < len(every):
        size = sum(each["size"] for _slug, each in every if not _is_shown(each))
        show.write(f"{len(every) - len(shown)} more without an engine, {show.gib(size)}: --all")
    for slug in found:
        for each in api.get("boxes", slug, "images", "newer"):
            show.write(f"{slug}: {_news(each)}")
    return 0


def list_newer(args: Namespace) -> int:
    api = config.api()
    if args.ask:
        for slug in _boxes(api, args.box):
            api.post("boxes", slug, "images", "newer")
            show.aside(f"{slug} asks the registries; look again in a moment.\n")
    found = {slug: api.get("boxes", slug, "images", "newer") for slug in _boxes(api, args.box)}
    if args.json:
        return show.write_json(found)
    for slug, there in found.items():
        for each in there:
            show.write(f"{slug}: {_news(each)}")
            for server in each["servers"]:
                show.write(f"  {server['server']}: {server['says']}")
                for problem in server["problems"]:
                    show.write(f"    ! {problem}")
    return 0


def pull_image(args: Namespace) -> int:
    api = config.api()
    said = api.post("image-jobs", reference=args.image, box=args.box, newer=args.newer)
    if args.detach:
        return _print_job(args, said)
    try:
        said = _follow_job(api, said)
        if said["state"] == "held" and args.despite:
            said = _follow_job(api, api.post("image-jobs", str(said["id"]), "go-on"))
    except KeyboardInterrupt:
        return _leave(said, "images jobs", "images cancel")
    return _print_job(args, said)


def _leave(said: dict[str, Any], shows: str, ends: str) -> int:
    """Somebody has interrupted the waiting alone."""
    show.bar("")
    show.aside(
        f"It goes on without this terminal. inferdash {shows} shows it; inferdash {ends} "
        f"{said['id']} ends it.\n"
    )
    return INTERRUPTED


def move_tag(args: Namespace) -> int:
    api = config.api()
    box = _one_box(api, args.box)
    to = "before" if args.back else "newer"
    said = api.post("boxes", box, "images", "move", reference=args.image, to=to)
    return _print_job(args, _follow_job(api, said))


def remove_images(args: Namespace) -> int:
    api = config.api()
    box = _one_box(api, args.box)
    return _print_job(args, _follow_job(api, api.delete("boxes", box, "images", image=args.image)))


def prune_images(args: Namespace) -> int:
    """What inferdash itself brought and nobody needs; --all: also what others brought."""
    api = config.api()
    box = _one_box(api, args.box)
    found = api.get("boxes", box, "images")
    going = [each for each in found if each["may_go"] and (each["is_ours"] or args.all)]
    if not going:
        show.aside(f"Nothing on {box} may go.\n")
        return 0
    for each in going:
        show.aside(f"{_name(each)}  {show.gib(_alone(each))}  {each['why']}\n")
    size = show.gib(sum(_alone(each) for each in going))
    if not args.yes:
        if not sys.stdin.isatty():
            raise TerminalError(
                "Nothing was removed.", "Say --yes where nobody can be asked.", code=USAGE
            )
        if input(f"Remove these {len(going)} images, at least {size}? [y/N] ").strip() != "y":
            return FAILED
    said = api.delete("boxes", box, "images", image=[each["id"] for each in going])
    return _print_job(args, _follow_job(api, said))


def list_jobs(args: Namespace) -> int:
    found = config.api().get("image-jobs")
    rows = (
        [
            str(each["id"]), each["kind"], each["reference"], each["box"], each["state"],
            show.percent(each["percent"]).strip(), each["asked_by"] or "", each["says"],
        ]
        for each in found
    )  # fmt: skip
    heads = ["ID", "WHAT", "IMAGE", "BOX", "STATE", "THERE", "BY", ""]
    return show.answer_rows(args, found, heads, rows)


def cancel_job(args: Namespace) -> int:
    api = config.api()
    said = api.post("image-jobs", str(args.id), "cancel")
    if said["is_unwanted"]:
        said = _follow_job(api, said)
    _print_job(args, said)
    return 0 if said["state"] == "cancelled" else FAILED


def _follow_job(api: Api, said: dict[str, Any]) -> dict[str, Any]:
    path = ("image-jobs", str(said["id"]))
    return api.follow(said, *path, over=_JOB_OVER, line=_job_line)


def _job_line(said: dict[str, Any]) -> str:
    what = said["reference"] or "make room"
    if said["is_unwanted"]:
        return f"{what}: ending"
    if said["kind"] != "pull" or said["state"] != "doing":
        return f"{what}: {said['state']}"
    if said["percent"] is None:
        parts = [what, show.gib(said["done"])]
        if said["total"]:
            parts.append(f"of what has begun so far, {show.gib(said['total'])}")
    else:
        there = f"{show.gib(said['done'])} of {show.gib(said['total'])}"
        parts = [f"{what} {show.meter(said['percent'])} {said['percent']} %", there]
    if said["is_unpacking"]:
        parts.append("everything has come, being unpacked")
    elif said["rate"]:
        parts.append(f"{said['rate'] / _MIB:.1f} MiB/s")
        if said["left"] is not None:
            parts.append(f"{show.span(said['left'])} left")
    done = sum(each["state"] in ("done", "there") for each in said["layers"])
    if said["layers"]:
        parts.append(f"{done} of {len(said['layers'])} layers")
    return ", ".join(parts)


def _print_job(args: Namespace, said: dict[str, Any]) -> int:
    if args.json:
        show.write_json(said)
    else:
        what = said["reference"] or "Images"
        show.write(f"{what} on {said['box']}: {said['state']}. {said['says']}".rstrip(". ") + ".")
        if said["state"] == "held":
            show.write(
                f"inferdash images pull {said['reference']} --despite pulls it all the same, "
                f"inferdash images cancel {said['id']} leaves it."
            )
    return FAILED if said["state"] in ("failed", "cancelled", "held") else 0


def _boxes(api: Api, named: str) -> list[str]:
    return [named] if named else [each["slug"] for each in api.get("boxes")]


def _one_box(api: Api, named: str) -> str:
    found = _boxes(api, named)
    if len(found) != 1:
        names = ", ".join(found) or "none yet"
        raise TerminalError(
            "It is not said which box it is on.", f"Name one by --box: {names}.", code=USAGE
        )
    return found[0]


def _is_shown(image: dict[str, Any]) -> bool:
    return bool(image["engine"] or image["profiles"] or image["worked"])


def _name(image: dict[str, Any]) -> str:
    if image["names"]:
        return str(image["names"][0])
    return str(image["digests"][0]).partition("@")[0] if image["digests"] else "–"


def _kind(image: dict[str, Any]) -> str:
    return f"{image['architecture']}{' !' if image['is_other_kind'] else ''}"


def _users(image: dict[str, Any]) -> str:
    used = [f"{each} (runs)" for each in image["running"]]
    used += [each for each in image["profiles"] if each not in image["running"]]
    if image["hidden_profiles"]:
        used.append(f"{image['hidden_profiles']} private")
    return ", ".join(used + image["others"])


def _alone(image: dict[str, Any]) -> int:
    return int(image["size"] - (image["shared"] or 0))


def _news(each: dict[str, Any]) -> str:
    if each["error"]:
        return f"{each['reference']}: {each['error']}"
    if not each["has_newer"]:
        return f"{each['reference']} was moved, and can go back."
    where = "is here" if each["newer_id"] else "is to be had"
    return f"a newer build of {each['reference']} {where}. {each['says']}".rstrip()


def pull_model(args: Namespace) -> int:
    api = config.api()
    if args.limit < 0:
        raise TerminalError("--limit is MiB/s, 0 or more.", code=USAGE)
    said = api.post(
        "downloads", model=args.model, revision=args.revision, box=args.box, files=args.include,
        into=args.into, limit=int(args.limit * _MIB),
    )  # fmt: skip
    if args.detach:
        return _print_download(args, said)
    try:
        path = ("downloads", str(said["id"]))
        said = api.follow(said, *path, over=_DOWNLOAD_OVER, line=_download_line)
    except KeyboardInterrupt:
        return _leave(said, "pulls", "pulls cancel")
    return _print_download(args, said)


def _download_line(said: dict[str, Any]) -> str:
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


def _print_download(args: Namespace, said: dict[str, Any]) -> int:
    more = " ".join(each for each in (said["says"], said["advice"], said["trouble"]) if each)
    text = f"{said['model']} on {said['box']}: {said['state']}{'. ' if more else ''}{more}"
    show.answer(args, said, text)
    return FAILED if said["state"] in ("failed", "cancelled") else 0


def show_pulls(args: Namespace) -> int:
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
        text = f"{said['model']} on {said['box']}: {said['wanted']} is wanted."
        return show.answer(args, said, text)
    found = api.get("downloads")
    rows = (
        [
            str(each["id"]), each["model"], each["box"], each["state"],
            show.percent(each["percent"]).strip(), show.gib(each["total"]),
            "" if not each["rate"] else f"{each['rate'] / _MIB:.1f} MiB/s", each["trouble"] or each["says"],
        ]
        for each in found
    )  # fmt: skip
    heads = ["ID", "MODEL", "BOX", "STATE", "THERE", "SIZE", "PACE", ""]
    return show.answer_rows(args, found, heads, rows)
