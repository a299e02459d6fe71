"""Page contexts of boxes and servers, and the fragments that the socket sends.

Every fragment is complete ("this is the card"), so that a browser that has just connected,
or has missed a few, needs no history.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from django.db.models import Prefetch, prefetch_related_objects
from django.template.loader import render_to_string

from servers.contexts import (
    alerts,
    benchmarks,
    dashboard,
    disks,
    external,
    gateway,
    links,
    server_page,
)
from servers.contexts.memory import (
    GpuRow,
    HardwareReport,
    Owner,
    build_rows,
    care_of,
    hardware,
    list_server_owners,
    read_owners,
)
from servers.judge.memory import holders
from servers.models import Box, Claim, ImageFacts, ModelInventory, Server, User
from servers.state.samples import newest

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
    gpus: tuple[holders.GpuMemory, ...]
    memory: tuple[tuple[str, int], ...]  # lines of /proc/meminfo, bytes
    uptime: float | None  # seconds
    sees_all: bool  # processes of other PID namespaces too
    hardware: HardwareReport
    owners: tuple[Owner, ...] = ()  # on the box's own page
    rows: tuple[GpuRow, ...] = ()
    is_folded: bool = False  # among so many boxes that each is a line, to be opened
    claims: tuple[Claim, ...] = ()
    unmonitored: int = 0  # external engines that have no server

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
    def free_count(self) -> int:
        return sum(not row.owners for row in self.rows)

    @property
    def held(self) -> int:
        """Bytes in use on all GPUs together, as far as they tell."""
        return sum(gpu.in_use or 0 for gpu in self.gpus)

    @property
    def memory_of_gpus(self) -> int:
        return sum(gpu.total or 0 for gpu in self.gpus)

    @property
    def held_percent(self) -> float:
        return round(100 * self.held / (self.memory_of_gpus or 1), 1)

    @property
    def memory_total(self) -> int | None:
        return dict(self.memory).get("MemTotal")

    @property
    def memory_free(self) -> int | None:
        return dict(self.memory).get("MemAvailable")


# So many boxes have their GPUs in sight at once.
UNFOLDED = 3
MEMORY_LINES = ("MemTotal", "MemAvailable", "MemFree", "Cached", "Shmem", "SwapTotal", "SwapFree")


def panels(
    boxes: Iterable[Box],
    samples: Mapping[str, dict[str, Any] | None],
    *,
    is_folded: bool = False,
) -> list[Panel]:
    known, unmonitored = read_owners(), external.count_unmonitored()
    found, shown_boxes = [], list(boxes)
    claims = Prefetch("claims", Claim.objects.active(), to_attr="fetched_claims")
    prefetch_related_objects(shown_boxes, claims)
    for box in shown_boxes:
        shown = _panel(box, samples[box.slug], known.servers)
        rows = build_rows(box, shown.gpus, known)
        found.append(
            replace(
                shown,
                unmonitored=unmonitored.get(box.pk, 0),
                rows=rows,
                is_folded=is_folded,
            )
        )
    return found


def panel(box: Box) -> Panel:
    """With who is on its GPUs."""
    known = read_owners()
    found = _panel(box, newest(box.slug), known.servers)
    rows = build_rows(box, found.gpus, known)
    return replace(found, owners=list_server_owners(box, found.gpus), rows=rows)


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
        problems=alerts.problems(box),
        docker=str(box.facts.get("docker", {}).get("version", "")),
        driver=known.get("driver") or "",
        t=known.get("t"),
        stale=(known.get("error") or "") if known.get("stale_s") is not None else "",
        gpus=holders.gpus(known, slugs),
        memory=tuple((name, memory[name]) for name in MEMORY_LINES if name in memory),
        uptime=known.get("uptime_s"),
        sees_all=bool(known.get("sees_host_pids")),
        hardware=hardware(sample, box.left_behind),
        claims=tuple(box.current_claims),
    )


def render(
    keys: set[Key],
    person: User,
    *,
    page: str = "dashboard",
    pk: int | None = None,
    host: str = "",
) -> str:
    """The fragments of a page that have changed; for ("everything", None) all of them.

    `page` is what the browser shows: dashboard, servers, chat, capture, models (those on disks), found (what was
    there before), alerts, channels, boxes, box_add, benchmarks or one, a profile, its form, or a tab of the server
    or box with that `pk`.
    """
    if not person.may_view:
        return _render_chat(keys, person, page)
    everything = ("everything", None) in keys
    is_about_servers = _is_about_servers(keys)
    boxes = list(Box.objects.all())
    every_box = everything or ("boxes", None) in keys
    changed_boxes = [box for box in boxes if every_box or ("box", box.pk) in keys]
    parts = [_html("memory/_live_dot.html", box=box) for box in changed_boxes]
    # With every look at the boxes, too: it ends by the clock, of which no message tells.
    if every_box or ("capture", None) in keys:
        parts.append(gateway.render_capture(person, page))
    # Not for every server that has changed: busy ones do each second, and boxes are looked at anyway.
    is_about_alerts = every_box or bool(keys & {("alerts", None), ("servers", None)})
    if page != "dashboard" and is_about_alerts:
        notices = alerts.now()
        parts.append(alerts.bell_html(len(alerts.list_for(person, notices))))
        if page == "alerts":
            parts.append(_html("alerts/_live_open.html", **alerts.page(person, notices)))
    if page == "channels" and person.may_administer and (everything or ("alerts", None) in keys):
        parts.append(_html("alerts/_live_channels.html", channels=alerts.list_channels()))
    parts += gateway.render_capture_parts(keys, person, page)
    parts += gateway.render_parts(keys, person, page)
    parts += disks.render_images(keys, page)
    if page == "dashboard":
        parts += _dashboard(keys, person, boxes, changed_boxes)
    elif page == "servers":
        parts += _cards(keys, person)
    elif page == "box":
        for box in (box for box in changed_boxes if box.pk == pk):
            parts.append(_detail_html(panel(box)))
            parts.append(_html("memory/_live_care.html", care=care_of(box, person)))
            parts.append(_html("memory/_live_others.html", others=external.others_of(box, person)))
        if is_about_servers and (mine := next((each for each in boxes if each.pk == pk), None)):
            parts.append(_beside_html(mine, person))
    elif page == "hardware":
        parts += [_hardware_html(panel(box)) for box in changed_boxes if box.pk == pk]
    elif page == "found":
        keys_of_it = {("box", pk), ("boxes", None), ("models", None), ("everything", None)}
        if keys & keys_of_it and (mine := next((b for b in boxes if b.pk == pk), None)):
            parts.append(_html("external/_live.html", findings=external.found_on(mine, person)))
    elif page in ("profile", "form") and (everything or ("images", None) in keys):
        parts.append(_html("profiles/_live_images.html", mark=ImageFacts.objects.mark()))
    elif page == "models" and (everything or ("models", None) in keys):
        parts.append(_html("weights/_live_mark.html", mark=ModelInventory.objects.mark()))
    elif page == "chat":
        if is_about_servers:
            parts.append(_chat_html(person))
        if is_about_servers or changed_boxes:
            parts.append(gateway.render_sidebar(person))
    parts += disks.render_downloads(keys, person, page)
    parts += benchmarks.render_mark(keys, page)
    parts += links.render_parts(keys, person, page)
    parts += server_page.render_parts(keys, person, page, pk, host)
    return "".join(parts)


def _render_chat(keys: set[Key], person: User, page: str) -> str:
    """For who may chat and not look: no box, alert, log, figure or cause, whatever `page` says."""
    everything = ("everything", None) in keys
    parts = []
    if everything or keys & {("capture", None), ("boxes", None)}:
        parts.append(gateway.render_capture(person, page))
    parts += gateway.render_parts(keys, person, page)
    if page == "chat" and _is_about_servers(keys):
        parts += [_chat_html(person), gateway.render_sidebar(person)]
    return "".join(parts)


def _is_about_servers(keys: set[Key]) -> bool:
    return any(kind in ("server", "servers", "everything") for kind, _pk in keys)


def _chat_html(person: User) -> str:
    return _html("gateway/chat/_live.html", servers=Server.objects.for_dashboard(), person=person)


def _dashboard(
    keys: set[Key], person: User, boxes: list[Box], changed_boxes: list[Box]
) -> list[str]:
    samples = {box.slug: newest(box.slug) for box in boxes}
    notices = alerts.list_for(person, alerts.attention(boxes, samples))
    parts = [
        _html("memory/_live_reboots.html", reboots=dashboard.list_reboots(), person=person),
        alerts.list_html(tuple(notices)),
        alerts.bell_html(len(notices)),
    ]
    cards = _cards(keys, person)
    if cards:
        recent = dashboard.list_recent(person)
        parts += [*cards, _html("people/_live_recent.html", recent=recent, person=person)]
    shown = panels(changed_boxes, samples, is_folded=len(boxes) > UNFOLDED)
    return parts + [_box_html(each) for each in shown]


def _cards(keys: set[Key], person: User) -> list[str]:
    servers = Server.objects.for_dashboard().for_person(person)
    if keys & {("servers", None), ("everything", None)}:
        return [_html("runs/_live_cards.html", servers=servers, person=person)]
    changed = [pk for kind, pk in keys if kind == "server" and pk is not None]
    if not changed:
        return []
    return [
        _html("runs/_live_card.html", server=server, run=server.run, person=person)
        for server in servers.filter(pk__in=external.with_others(changed))
    ]


# Every viewer gets the same panels each second: they are rendered once.
@lru_cache(maxsize=64)
def _box_html(panel: Panel) -> str:
    return _html("memory/_live_box.html", panel=panel)


@lru_cache(maxsize=16)
def _detail_html(panel: Panel) -> str:
    return _html("memory/_live_detail.html", panel=panel)


@lru_cache(maxsize=16)
def _hardware_html(panel: Panel) -> str:
    return _html("memory/_live_hardware.html", panel=panel)


def _beside_html(box: Box, person: User) -> str:
    """A box's servers and claims."""
    servers = Server.objects.for_dashboard().filter(box=box)
    return _html("memory/_live_beside.html", box=box, servers=servers, person=person)


def _html(template: str, **context: Any) -> str:
    return render_to_string(template, context)
