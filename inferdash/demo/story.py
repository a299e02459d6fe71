"""Sample data of the demo: profiles, starts, a failure, a leak, a chat.

Everything but the past (history, older conversations) is asked of the real workers and waited for.
"""

import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import django

django.setup()

from django.conf import settings  # noqa: E402
from django.utils import timezone  # noqa: E402

from inferdash.demo.box import SimulatedBox, make_boxes, utilisation  # noqa: E402
from inferdash.demo.load import Heat, Traffic  # noqa: E402
from inferdash.demo.script import GIB, SAMPLE, find_model  # noqa: E402
from servers import (  # noqa: E402
    events,
    lifecycle,
    tasks,
)
from servers.judge.links.words import make_words  # noqa: E402
from servers.judge.memory import history  # noqa: E402
from servers.judge.memory.history import SPANS, Point, Series  # noqa: E402
from servers.judge.runs import metrics  # noqa: E402
from servers.launch.engines.launch import Launch  # noqa: E402
from servers.lifecycle.runs.ownership import require_managed  # noqa: E402
from servers.models import (  # noqa: E402
    Box,
    BoxInvitation,
    BoxLink,
    FiguresChunk,
    HistoryChunk,
    Profile,
    Run,
    Server,
    User,
)
from servers.models.runs.run import ManagedServer, RunState  # noqa: E402
from servers.state import samples, store  # noqa: E402

PATIENCE = 90.0  # seconds; on a busy machine everything takes its time
KEPT = {1: 3600, 10: 86400, 60: 7 * 86400}


def main() -> None:
    folder, port = Path(os.environ["INFERDASH_DEMO"]), int(os.environ["INFERDASH_DEMO_PORTS"])
    simulated = make_boxes(folder, port=port, names=os.environ["INFERDASH_DEMO_BOXES"])
    ada = User.objects.get(username="ada")
    boxes = {each.name: _box(each.name) for each in simulated}
    for each in simulated:
        _remember(each, boxes[each.name])
    _have_box_ask()
    servers = {}
    for each in SAMPLE["plans"]:
        if box := boxes.get(each["box"]):
            server = _place(box, each["slug"], each["name"], each["launch"], ada)
            servers[each["slug"]] = (server, each["fate"])
    for server, fate in servers.values():
        if fate != "loading":
            _start(server, ada)
    for server, fate in servers.values():
        if fate == "leaves a worker":
            _stop(server, ada)
        elif fate == "loading":
            _start(server, ada)
    sys.stdout.write("the demo is filled\n")


def _have_box_ask() -> None:
    """One more, which Settings, Boxes shows."""
    ident = "demo"
    invitation = BoxInvitation.objects.create(
        ident=ident, public_key="none", expires_at=timezone.now() + timedelta(hours=12)
    )
    BoxLink.objects.create(
        invitation=invitation, name="laurel", hostname="laurel.lan", came_from="192.0.2.17",
        version=settings.VERSION, public_key="none", seal_key="none", clock_offset=0.1,
        words=make_words(ident.encode()),
    )  # fmt: skip
    events.publish_change("links")


def _box(name: str) -> Box:
    """Its row, which its watcher makes, once its GPUs are known."""
    _wait(lambda: bool(Box.objects.filter(slug=name).exclude(facts={}).exists()), f"the box {name}")
    return Box.objects.get(slug=name)


def _wait(condition: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > until:
            raise SystemExit(f"The demo has waited {PATIENCE:.0f} s for {what}.")
        time.sleep(0.2)


def _place(box: Box, slug: str, name: str, launch: dict[str, Any], by: User) -> ManagedServer:
    profile = Profile.objects.create(slug=slug, name=name, owner=by)
    told = launch | {"flags": tuple(launch["flags"])}
    profile.save_version(Launch(**told), by=by, message="First version")
    return require_managed(Server.objects.create(slug=slug, profile=profile, box=box))


def _start(server: ManagedServer, by: User) -> None:
    run = lifecycle.start(server, by=by)
    assert run is not None
    tasks.nudge(run)


def _stop(server: Server, by: User) -> None:
    _wait(lambda: _state(server) == RunState.READY, f"{server.slug} to be ready")
    run = Server.objects.get(pk=server.pk).run
    assert run is not None
    lifecycle.stop(require_managed(run), by=by)
    tasks.nudge(run)


def _state(server: Server) -> str:
    run = Run.objects.filter(server=server).order_by("-pk").first()
    return run.state if run else ""


def _remember(box: SimulatedBox, row: Box) -> None:
    """A week of history, as the watcher would have kept it, from the same load that goes on."""
    until = int(time.time())
    loads = _loads(box)
    lately: list[dict[str, Any]] = []
    for step, kept in KEPT.items():
        cards: dict[str, dict[int, Point]] = {}
        engines: dict[str, dict[int, Point]] = {}
        heats = [Heat(idle_watts=card.heat.idle_watts, most_watts=card.heat.most_watts, seed=n + step)
                 for n, card in enumerate(box.cards)]  # fmt: skip
        traffics = {slug: Traffic(rate=rate, speed=find_model(model).speed, seed=step + len(slug))
                    for slug, model, rate, _cards in loads}  # fmt: skip
        for t in range(until - kept - until % step, until, step):
            # Whenever the demo is opened: people have worked for hours, and slept before.
            ago = (until - t) % 86400 / 3600
            share = random.Random(t // 3600).uniform(0.75, 1.1)  # noqa: S311 - no secret
            day = share if ago < 8 or ago > 20 else 0.2
            effort = dict.fromkeys(range(len(box.cards)), 0.0)
            for slug, model, rate, held in loads:
                traffic = traffics[slug]
                traffic.rate = rate * day
                before = traffic.generation_tokens, traffic.prompt_tokens
                pace = min(step, 10)
                traffic.step(pace)
                for index in held:
                    effort[index] = max(effort[index], traffic.effort)
                if step >= metrics.FINEST:
                    engines.setdefault(slug, {})[t] = _figures(traffic, before, pace, model)
            of_cards = {}
            for index, card in enumerate(box.cards):
                heats[index].step(min(step, 30), effort[index])
                holder = next((slug for slug, _m, _r, held in loads if index in held), "")
                uuid = str(card.facts["uuid"])
                point = _gpu_point(box, card.facts, heats[index], effort[index], holder, step)
                cards.setdefault(uuid, {})[t] = point
                of_cards[uuid] = [point["util"], point["used"] * 1024]
            if step == 1 and t >= until - samples.HISTORY:
                lately.append({"t": t, "gpus": of_cards})
        HistoryChunk.objects.bulk_create(
            [HistoryChunk(box=row, step=step, start=start, body=history.pack(series))
             for start, series in _chunks(cards, step)], ignore_conflicts=True)  # fmt: skip
        FiguresChunk.objects.bulk_create(
            [FiguresChunk(box=row, step=step, start=start, body=history.pack(series))
             for start, series in _chunks(engines, step)], ignore_conflicts=True)  # fmt: skip

    for each in reversed(lately):
        store.client.lpush(f"inferdash:history:{box.name}", json.dumps(each))


def _loads(box: SimulatedBox) -> list[tuple[str, str, float, list[int]]]:
    """What has served on this box all week: slug, model, rate, GPUs."""
    found = []
    for plan in SAMPLE["plans"]:
        model, gpus = plan["launch"]["checkpoint"], plan["launch"]["gpus"]
        rate = find_model(model).rate
        if plan["box"] == box.name and rate:
            held = [0] if gpus == "all" else list(map(int, gpus.split(",")))
            found.append((plan["slug"], model, rate, held))
    return found


def _gpu_point(
    box: SimulatedBox, facts: dict[str, Any], heat: Heat, effort: float, holder: str, step: int
) -> Point:
    if box.is_unified:
        total, reserved, usual = box.memory // 1024, 0, int(2.0 * GIB / 1024)
        held, cache = int(93.4 * GIB / 1024) if holder else 0, int(14 * GIB / 1024)
    else:
        total, reserved = facts["total"] // 1024, facts["reserved"] // 1024
        usual, held, cache = 420 * 1024, int(facts["total"] * 0.92 / 1024) if holder else 0, 0
    parts = {"=usual": usual} | ({"=reserved": reserved} if reserved else {})
    parts |= {f"=server:{holder}": held} if held else {}
    parts |= {"=cache": cache} if cache else {}
    util = utilisation(effort, heat)
    point: Point = parts | {
        "=free": total - sum(parts.values()),
        "util": util, "power": round(heat.watts * 10), "temperature": round(heat.temperature),
        "used": usual + held,
    }  # fmt: skip
    if step > 1:
        point |= {
            "util_max": min(100, util + 4), "power_max": round(heat.watts * 10.6),
            "temperature_max": round(heat.temperature) + 1, "used_max": point["used"],
        }  # fmt: skip
    return point


def _figures(traffic: Traffic, before: tuple[float, float], pace: int, model: str) -> Point:
    running = len(traffic.jobs)
    token = (1 + running / 14) / find_model(model).speed
    firsts = sorted(traffic.first_tokens)
    traffic.first_tokens.clear()
    figures: dict[str, float] = {
        "running": running, "queued": len(traffic.queue), "kv": traffic.kv_share,
        "generation": (traffic.generation_tokens - before[0]) / pace,
        "prompt": (traffic.prompt_tokens - before[1]) / pace,
    }  # fmt: skip
    # An engine that has answered nothing in this time has no latency in it either.
    if firsts:
        figures |= {
            "first_p50": firsts[len(firsts) // 2],
            "first_p95": firsts[int(len(firsts) * 0.95)],
        }
    if figures["generation"]:
        figures |= {"token_p50": token, "token_p95": token * 1.7}
    point = {name: round(each * metrics.SCALES[name]) for name, each in figures.items()}
    return point | {f"{name}_max": value for name, value in point.items()}


def _chunks(found: dict[str, dict[int, Point]], step: int) -> Iterator[tuple[int, Series]]:
    by_start: dict[int, Series] = {}
    for key, times in found.items():
        for t, point in times.items():
            by_start.setdefault(history.slot(t, SPANS[step]), {}).setdefault(key, {})[t] = point
    yield from sorted(by_start.items())


if __name__ == "__main__":
    main()
