"""What pages show of boxes and servers, and the fragments by which the socket renews it.

Every fragment is complete ("this is the card"), so that a browser that has just connected,
or has missed a few, needs no history.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from django.db.models import Q
from django.template.loader import render_to_string

from servers.judge import attention as judge
from servers.judge import holders
from servers.judge.attention import BoxState, Notice
from servers.live import care, messages
from servers.models import Box, ImageFacts, Run, Server, User

type Key = tuple[str, int | None]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A box as pages show it: its row, and its newest sample with names put to containers."""

    pk: int
    slug: str
    health: str
    health_word: str
    is_silent: bool
    seen_at: datetime | None
    problems: tuple[tuple[str, str], ...]  # what, fix
    docker: str  # version; "" when Docker cannot be used
    driver: str  # version; "" when there is none
    t: float | None  # of the sample; None when the collector has been silent for a minute
    stale: str  # why the values are old; "" when they are not
    gpus: tuple[holders.Gpu, ...]
    memory: tuple[tuple[str, int], ...]  # lines of /proc/meminfo, bytes
    uptime: float | None  # seconds
    sees_all: bool  # processes of other PID namespaces too

    @property
    def gpu_title(self) -> str:
        """What the GPUs have in common: "8 × RTX PRO 6000"; their number where they differ."""
        names = {gpu.name for gpu in self.gpus}
        if len(names) != 1:
            return f"{len(self.gpus)} GPUs"
        return names.pop() if len(self.gpus) == 1 else f"{len(self.gpus)} × {names.pop()}"

    @property
    def has_one_kind(self) -> bool:
        return len({gpu.name for gpu in self.gpus}) == 1

    @property
    def memory_total(self) -> int | None:
        return dict(self.memory).get("MemTotal")

    @property
    def memory_free(self) -> int | None:
        return dict(self.memory).get("MemAvailable")


MEMORY_LINES = ("MemTotal", "MemAvailable", "MemFree", "Cached", "Shmem", "SwapTotal", "SwapFree")


def panels(boxes: Iterable[Box], samples: Mapping[str, dict[str, Any] | None]) -> list[Panel]:
    slugs = _container_names()
    return [_panel(box, samples[box.slug], slugs) for box in boxes]


def panel(box: Box) -> Panel:
    return _panel(box, messages.sample(box.slug), _container_names())


def _panel(box: Box, sample: dict[str, Any] | None, slugs: Mapping[str, str]) -> Panel:
    known = sample or {}
    memory = known.get("meminfo") or {}
    return Panel(
        pk=box.pk,
        slug=box.slug,
        health=box.health,
        health_word=box.health_word,
        is_silent=box.is_silent,
        seen_at=box.seen_at,
        problems=_problems(box),
        docker=str(box.facts.get("docker", {}).get("version", "")),
        driver=known.get("driver") or "",
        t=known.get("t"),
        stale=(known.get("error") or "") if known.get("stale_s") is not None else "",
        gpus=holders.gpus(known, slugs),
        memory=tuple((name, memory[name]) for name in MEMORY_LINES if name in memory),
        uptime=known.get("uptime_s"),
        sees_all=bool(known.get("sees_host_pids")),
    )


def _problems(box: Box) -> tuple[tuple[str, str], ...]:
    return tuple((each["what"], each["fix"]) for each in box.problems)


def _container_names() -> dict[str, str]:
    """Ids of the containers that may hold GPU memory, and the slugs of their servers."""
    held = Run.objects.active().exclude(container_id="")
    return dict(held.values_list("container_id", "server__slug"))


def attention(boxes: Iterable[Box], samples: Mapping[str, dict[str, Any] | None]) -> list[Notice]:
    """What needs a person, failed servers first."""
    failed = [
        Notice(level="failed", about="server", slug=slug, what="failed", fix=failure)
        for slug, failure in Server.objects.failures()
    ]
    failed += _unwell()
    states = [
        BoxState(
            slug=box.slug,
            is_silent=box.is_silent,
            was_seen=box.seen_at is not None,
            problems=_problems(box),
            sample=samples[box.slug],
            strays=sum(bool(each["is_running"]) for each in box.left_behind),
        )
        for box in boxes
    ]
    notices = failed + judge.of_boxes(states)
    return sorted(notices, key=lambda notice: notice.level != "failed")


def _unwell() -> list[Notice]:
    """Engines whose GPUs give a deadlock away, or that are dead behind a green health path."""
    found = []
    signs = Q(spins_since__isnull=False) | Q(unhealthy_since__isnull=False, state="ready")
    for run in Run.objects.active().filter(signs).select_related("version", "server__box"):
        launch, box = run.version.launch, run.server.box
        words, fix = run.stuck_words(launch.engine, unified=box.is_unified)
        what = f"is stuck: {words}"
        if not words and run.is_unhealthy:
            what = f"is unhealthy: {run.unhealthy_because}"
            fix = "Look at its log, then restart it."
            if launch.restart_unhealthy and not run.outlook:
                fix = "By its profile it is ended and started again soon."
        if words or run.is_unhealthy:
            slug = run.server.slug
            found.append(Notice(level="failed", about="server", slug=slug, what=what, fix=fix))
    return found


def render(keys: set[Key], person: User, *, page: str = "dashboard", pk: int | None = None) -> str:
    """The fragments of a page that have changed; for ("everything", None) all of them.

    `page` is what the browser shows: dashboard, chat, a profile, its form, or the server or box
    with that `pk`.
    """
    everything = ("everything", None) in keys
    is_about_servers = everything or any(kind in ("server", "servers") for kind, _pk in keys)
    boxes = list(Box.objects.all())
    every_box = everything or ("boxes", None) in keys
    changed_boxes = [box for box in boxes if every_box or ("box", box.pk) in keys]
    parts = [_dot_html(box) for box in changed_boxes]
    if page == "dashboard":
        parts += _dashboard(keys, person, boxes, changed_boxes)
    elif page == "server" and pk is not None and (everything or ("server", pk) in keys):
        server = Server.objects.with_details().filter(pk=pk).first()
        if server is not None:
            parts.append(_html("servers/_live_head.html", **head(server, server.run, person)))
    elif page == "box":
        for box in (box for box in changed_boxes if box.pk == pk):
            parts += [_detail_html(panel(box)), care.html(box, person)]
    elif page in ("profile", "form") and (everything or ("images", None) in keys):
        parts.append(_html("profiles/_live_images.html", mark=ImageFacts.objects.mark()))
    elif page == "chat" and is_about_servers:
        parts.append(_html("chat/_live.html", servers=Server.objects.for_dashboard()))
    return "".join(parts)


def head(server: Server, run: Run | None, person: User) -> dict[str, Any]:
    """What the top of a server's page shows of one of its runs."""
    return {"server": server, "run": run, "person": person, "is_latest": run == server.run}


def _dashboard(
    keys: set[Key], person: User, boxes: list[Box], changed_boxes: list[Box]
) -> list[str]:
    everything = ("everything", None) in keys
    samples = {box.slug: messages.sample(box.slug) for box in boxes}
    parts = [_attention_html(tuple(attention(boxes, samples)))]
    servers = Server.objects.for_dashboard()
    if everything or ("servers", None) in keys:
        parts.append(_html("servers/_live_cards.html", servers=servers, person=person))
    elif changed := [pk for kind, pk in keys if kind == "server" and pk is not None]:
        parts += [
            _html("servers/_live_card.html", server=server, run=server.run, person=person)
            for server in servers.filter(pk__in=changed)
        ]
    return parts + [_box_html(shown) for shown in panels(changed_boxes, samples)]


# Every viewer gets the same panels each second: they are rendered once.
@lru_cache(maxsize=64)
def _box_html(panel: Panel) -> str:
    return _html("boxes/_live_box.html", panel=panel)


@lru_cache(maxsize=16)
def _detail_html(panel: Panel) -> str:
    return _html("boxes/_live_detail.html", panel=panel)


def _dot_html(box: Box) -> str:
    return _html("boxes/_live_dot.html", box=box)


@lru_cache(maxsize=16)
def _attention_html(notices: tuple[Notice, ...]) -> str:
    return _html("_live_attention.html", notices=notices)


def _html(template: str, **context: Any) -> str:
    return render_to_string(template, context)
