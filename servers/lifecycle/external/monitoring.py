"""Monitoring of external engines: their servers, and the runs that follow them.

An engine gets a profile of what runs, a server that follows it (a container by its name or its
compose service, a process by its unit or its words), and a run a life. Everything here only looks:
what is not ours is neither told anything, nor moved on, nor ended by inferdash.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from datetime import timedelta
from functools import partial
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F
from django.urls import resolve, reverse
from django.utils import timezone
from django.utils.text import slugify

from servers import events
from servers.host.docker.containers import ContainerError
from servers.judge.external.engines import DiscoveredEngine
from servers.judge.memory.holders import cards_by_container
from servers.judge.profiles.lint_rules import opens_the_box
from servers.launch.commandline.draft import Draft
from servers.launch.engines import ENGINES
from servers.launch.engines.launch import Launch
from servers.lifecycle import external
from servers.lifecycle.external import ExternalWorkload, WatchError, import_diff
from servers.lifecycle.jobs.runner import JobError
from servers.lifecycle.logs import diagnoses
from servers.lifecycle.runs import restart_policy, starts
from servers.lifecycle.runs.ownership import require_external, verb
from servers.models import AuditEntry, Box, Profile, ProfileVersion, Run, Secret, Server, User
from servers.models.people.key import SecretError, SecretValues
from servers.models.runs.run import ACTIVE, PARTS, ExternalRun, ExternalServer, RunState

log = logging.getLogger(__name__)

# Whoever was started less long ago is followed from the start.
FRESH = timedelta(seconds=30)
MOST_REMARKS = 40


def watch(box: Box, key: str, *, by: User | None) -> ExternalRun:
    """The run of what works there, from now on followed as any other.

    Raises WatchError, and ContainerError when Docker cannot be asked.
    """
    stranger = external.find(key)
    if stranger is None:
        raise WatchError("There is nothing of somebody else's there any more.")
    if not stranger.is_running:
        raise WatchError(f"The {stranger.what} does not run any more: there is nothing to monitor.")
    if not external.has_seen(stranger):
        raise WatchError(
            f"No engine was seen in {stranger.name}: neither does its command name one, nor has "
            "one answered on its ports. Nothing else is monitored."
        )
    if Run.objects.active().filter(container_id=stranger.key).exists():
        raise WatchError(f"{stranger.name} is monitored already.")
    try:
        with transaction.atomic():
            made = draft_profile(box, stranger)
            server = _server(box, stranger, made, by)
            run = _begin(server, stranger, made, by=by)
            stranger.compare(box, made, run.version)
            AuditEntry.note(by, "watch", server, **{stranger.what: stranger.name}, run=run.pk)
    except IntegrityError as error:
        raise WatchError(
            f"Another person has just begun to monitor {stranger.name}, or its server has another "
            "run. Look at the box's page again."
        ) from error
    events.publish_change("servers")
    events.publish_change("server", run.server_id)
    return run


@verb
def go_on(server: ExternalServer, /, stranger: ExternalWorkload) -> ExternalRun | None:
    """The next run of a watched server, of what was started anew.

    None where somebody was faster. Raises WatchError for what is no engine by now, and
    ContainerError.
    """
    last = server.run
    try:
        with transaction.atomic():
            made = draft_profile(server.box, stranger)
            run = _begin(server, stranger, made, by=None)
            if last is not None and last.container_id == run.container_id:
                # One log holds both lives.
                Run.objects.filter(pk=last.pk).write(log__until_stamp=run.log.from_stamp)
            AuditEntry.note(None, "start outside inferdash", server, run=run.pk)
    except IntegrityError:
        return None
    events.publish_change("server", server.pk)
    return run


@verb
def unwatch(server: ExternalServer, /, *, by: User | None) -> None:
    """Take a watched server off the dashboard; its runs stay, and what runs notices nothing."""
    with transaction.atomic():
        run = server.runs.active().first()
        if run is not None:
            server.runs.filter(pk=run.pk).move(
                old=ACTIVE,
                new=RunState.STOPPED,
                ended_at=timezone.now(),
                status_message=f"It is not monitored any more. {_whose(run)} goes on without inferdash.",
                # What it prints from now on is not inferdash's to keep.
                log__is_complete=True,
                container_id="",
                container_was=run.container_id,
                health__requests_running=None,
                health__tokens_per_second=None,
            )
        Server.objects.filter(pk=server.pk).update(removed_at=timezone.now())
        AuditEntry.note(by, "unwatch", server, run=run.pk if run else None)
    transaction.on_commit(partial(events.publish_change, "servers"))
    transaction.on_commit(lambda: events.publish_change("server", server.pk))
    transaction.on_commit(lambda: events.wake_watcher(server.box.slug, events.Topic.RUNS))


def _whose(run: Run) -> str:
    return "The process" if run.is_of_process else "Its container"


def draft_profile(box: Box, stranger: ExternalWorkload) -> Draft:
    """The profile of what runs in it. Raises WatchError, and ContainerError."""
    return stranger.draft(box, external.find_engine(stranger.key))


def _server(box: Box, stranger: ExternalWorkload, made: Draft, by: User | None) -> ExternalServer:
    """The one that followed it before, if there was one, else a new one with a profile."""
    watches = stranger.identity
    servers = box.servers.filter(profile__archived_at=None).select_related(
        "profile", "run__version"
    )
    server = servers.filter(watches=watches).order_by("-pk").first()
    if server is None and (profile := import_diff.profile_of(box, stranger.key)):
        # Of a profile that was made of it before: that server becomes its own.
        server = servers.filter_managed().filter(profile=profile, run=None).order_by("pk").first()
    if server is None:
        wanted = "-".join(filter(None, (watches.get("project"), watches.get("service"))))
        slug = free_slug(wanted or made.name or stranger.name)
        notes = f"As the {stranger.what} {stranger.name} ran on {box} when it was first monitored."
        profile = Profile.objects.create(slug=slug, name=slug, owner=by, notes=notes)
        server = Server.objects.create(slug=slug, profile=profile, box=box, watches=watches)
    server.removed_at, server.watches = None, watches
    server.save(update_fields=["removed_at", "watches"])
    return require_external(server)


def free_slug(wanted: str) -> str:
    """One that neither a profile, a server nor a page has. Raises WatchError."""
    base = slugify(wanted.removesuffix(".gguf"))[:56] or "watched"
    for number in range(1, 1000):
        slug = base if number == 1 else f"{base}-{number}"
        is_page = resolve(reverse("profile", args=[slug])).url_name != "profile"
        is_taken = any(of.objects.filter(slug=slug).exists() for of in (Profile, Server))
        if not is_page and not is_taken:
            return slug
    raise WatchError(f"There are a thousand profiles called {base}. Rename some of them.")


def _begin(
    server: ExternalServer, stranger: ExternalWorkload, made: Draft, *, by: User | None
) -> ExternalRun:
    last = server.run
    before = last.version if last else server.profile.current
    version = _version(server.profile, before, made, stranger.what, by)
    launch = version.launch
    started = stranger.started_at or timezone.now()
    saw_start = timezone.now() - started < FRESH
    origin = _origin(stranger, made)
    run = Run.build(
        server=server,
        version=version,
        state=RunState.STARTING,
        created_at=started if saw_start else timezone.now(),
        started_at=started,
        saw_start=saw_start,
        is_watched=True,
        start__origin=origin,
        log__is_complete=not origin["has_log"],
        log__from_stamp=stranger.log_from,
        log__files=stranger.log_files(last),
        container_id=stranger.key,
        image_id=stranger.image_id,
        start__image_digest=stranger.image_digest(),
        gpus=launch.gpus,
        **_reached_at(stranger, launch),
    )
    run.save()
    # Before a line of its log is read: what it was given must not be kept from it.
    given = SecretValues(named=made.secrets, others=stranger.list_secrets(made))
    starts.remember_given(run, given)
    run.start.command = [starts.mask_secrets(run, word) for word in stranger.argv]
    run.start.around = diagnoses.surroundings(run)
    run.start.save(update_fields=["command", "around"])
    Server.objects.filter(pk=server.pk).update(run=run)
    return require_external(run)


def _origin(stranger: ExternalWorkload, made: Draft) -> dict[str, Any]:
    remarks = [[each.kind, each.says] for each in made.remarks if each.kind != "trusts"]
    found = external.find_engine(stranger.key)
    # Docker does not know of a unit that runs `docker` for a container.
    seen = found.origin.to_json() if found is not None else {}
    return {**seen, **stranger.origin(), "remarks": remarks[:MOST_REMARKS]}


def _reached_at(stranger: ExternalWorkload, launch: Launch) -> dict[str, Any]:
    engine, found = ENGINES[launch.engine], external.find_engine(stranger.key)
    name = engine.served_name(launch)
    if found is not None and found.port and found.address:
        is_listed = name in found.models or not found.models
        named = name if is_listed else found.models[0]
        return {"address": found.address, "port": found.port, "served_name": named}
    ways = stranger.ways(engine.port(launch))
    address, port = ways[0] if ways else (None, None)
    return {"address": address, "port": port, "served_name": name}


def _version(
    profile: Profile, last: ProfileVersion | None, made: Draft, what: str, by: User | None
) -> ProfileVersion:
    """What its last run was, unless it was made anew with something else."""
    before = last.launch if last else None
    kept = before.secret_env if before else {}
    launch = replace(made.launch, secret_env=seal_secrets(made, kept, by))
    if last is not None and launch == before:
        return last
    changed = profile.current_id if last is not None and profile.current_id != last.pk else None
    Profile.objects.filter(pk=profile.pk).update(saves=F("saves") + 1)
    message = f"As its {what} runs" if last is None else f"Its {what} was started as another"
    if last is not None and what == "container":
        message = "Its container was made anew"
    version = profile.save_version(launch, by=by, message=message)
    if changed is not None:
        # Somebody has made the profile something else meanwhile: that stays the newest word.
        Profile.objects.filter(pk=profile.pk).update(current=changed)
    return version


def seal_secrets(made: Draft, kept: dict[str, int], by: User | None) -> dict[str, int]:
    """The secrets' rows: those that hold the value already, new ones for the others."""
    known = Secret.objects.in_bulk(list(kept.values()))
    return {
        name: kept[name]
        if name in kept and kept[name] in known and _holds(known[kept[name]], value)
        else Secret.seal(name, value, by).pk
        for name, value in made.secrets.items()
    }


def _holds(secret: Secret, value: str) -> bool:
    try:
        return secret.reveal() == value
    except SecretError:
        return False


class ProfileError(JobError):
    """No profile is made; the text says why, and what to do."""


def make_profile(box: Box, container: str, *, by: User | None) -> Profile:
    """The profile of what the watcher has seen under this key; the one that there is already.

    Raises ProfileError, and ContainerError when Docker cannot be asked.
    """
    found = external.find_engine(container)
    if found is None:
        raise ProfileError("It is not there any more, or was never seen to be an engine.")
    if known := import_diff.profile_of(box, container):
        return known
    try:
        stranger = external.find(container)
        if stranger is None:
            raise ProfileError("It is gone, and nothing of it is left to read.")
        made = draft_profile(box, stranger)
        check_profile_import(made, by)
        with transaction.atomic():
            profile = _store_profile(box, found, made, by)
            version = profile.current
            assert version is not None
            stranger.compare(box, made, version)
    except WatchError as error:
        raise ProfileError(str(error)) from error
    events.publish_change("servers")
    return profile


def check_profile_import(made: Draft, by: User | None) -> None:
    """What an admin alone may write into a profile is an admin's to copy, too."""
    opens = opens_the_box(asdict(made.launch))
    if opens and not (by and by.may_administer):
        raise ProfileError(
            f"It was started with what only an admin may give a container: {', '.join(opens)}. An "
            "admin can make the profile."
        )


def _store_profile(box: Box, found: DiscoveredEngine, made: Draft, by: User | None) -> Profile:
    slug = free_slug(made.name or found.name)
    name = found.command[:120] if found.is_process else found.name
    profile = Profile.objects.create(
        slug=slug, name=slug, owner=by, notes=f"As the {found.what} {name} was started on {box}."
    )
    launch = replace(made.launch, secret_env=seal_secrets(made, {}, by))
    profile.save_version(launch, by=by, message=f"As {found.name} was started"[:200])
    Server.objects.create(slug=slug, profile=profile, box=box)
    AuditEntry.note(by, "create profile", profile, of=found.name, box=box.slug)
    return profile


LIVING = [RunState.STARTING, RunState.READY]

# A container that keeps dying before it is ready, so many times, is followed again when it has
# run for so long: Docker starts one anew every minute, for days.
LOOP, LASTING = 3, timedelta(minutes=1)

PAUSED = "Its container is paused: nothing in it runs until somebody unpauses it."
LOOPS = (
    "It is started again and again, and dies each time before it is ready. It is followed again "
    "when it has run for a minute."
)

_untold: set[str] = set()  # those of whom it was said that they are not followed


def step(box: Box, found: Iterable[ExternalWorkload], sample: Mapping[str, Any] | None) -> None:
    """Look at every watched run of the box, and begin those of what was started anew.

    `found` are those that run now. Raises ContainerError once all is done that needs no Docker.
    """
    cards = cards_by_container(sample or {})
    trouble: ContainerError | None = None
    for run in _active(box):
        _note_cards(run, cards.get(run.container_id, frozenset()))
        try:
            look(run)
        except ContainerError as error:
            trouble = error
    running = {each.key: each for each in found}
    watched = box.servers.filter_external().filter(removed_at=None)
    for server in watched.select_related("box__hf_token", "profile", "run__version"):
        if server.run is None or server.run.is_active:
            continue
        stranger = _successor(server, running)
        if stranger is None or not external.has_seen(stranger) or _keeps_dying(server, stranger):
            continue
        try:
            _note_loop(server, go_on(server, stranger))
        except WatchError as error:
            if stranger.key not in _untold:
                _untold.add(stranger.key)
                log.warning("%s is not followed any further: %s", server, error)
    if trouble is not None:
        raise trouble


def _note_loop(server: ExternalServer, run: ExternalRun | None) -> None:
    """Each life may be ready for a moment, and looks well by itself."""
    found = restart_policy.count_crashes(server)
    if run is not None and found.is_loop:
        Run.objects.filter(pk=run.pk).update(
            status_message=restart_policy.explain_crash_loop(found)
        )
        events.publish_change("server", server.pk)


def _keeps_dying(server: ExternalServer, stranger: ExternalWorkload) -> bool:
    began = stranger.started_at
    lately = list(server.runs.order_by("-pk").values_list("state", "ready_at")[:LOOP])
    is_loop = len(lately) == LOOP and all(
        state == RunState.FAILED and ready_at is None for state, ready_at in lately
    )
    if not is_loop or began is None or timezone.now() - began > LASTING:
        return False
    if (
        Run.objects.filter(pk=server.run_id or 0)
        .exclude(status_message=LOOPS)
        .update(status_message=LOOPS)
    ):
        events.publish_change("server", server.pk)
    return True


def _note_cards(run: ExternalRun, held: frozenset[int]) -> None:
    """Where it was given all GPUs: those that it really uses, so that the others count as free."""
    used = frozenset(map(int, run.gpus.split(","))) if run.gpus[:1].isdigit() else frozenset()
    if held <= used or run.version.launch.gpus != "all":
        return
    run.gpus = ",".join(map(str, sorted(held | used)))
    Run.objects.filter(pk=run.pk).update(gpus=run.gpus)
    events.publish_change("server", run.server_id)


def _active(box: Box) -> list[ExternalRun]:
    found = Run.objects.filter_external().filter(server__box=box, state__in=LIVING)
    return list(found.select_related("server__box__hf_token", "version", *PARTS))


def _successor(
    server: ExternalServer, running: dict[str, ExternalWorkload]
) -> ExternalWorkload | None:
    """The container of the last run, started again, or who has taken the place of the last one."""
    last = server.run
    assert last is not None
    same = running.get(last.container_id)
    if same is not None:
        began = same.started_at
        return same if began and last.started_at and began > last.started_at else None
    busy = set(Run.objects.active().values_list("container_id", flat=True))
    for stranger in running.values():
        if stranger.identity == server.watches and stranger.key not in busy:
            return stranger
    return None


def note_wish_to_end(key: str, *, is_told: bool = True) -> None:
    """Somebody has told it, or Docker, that it is to end: that will be no failure.

    Not `is_told`: it goes on, and an end that comes now is its own.
    """
    mine = Run.objects.filter_external().filter(container_id=key, state__in=LIVING)
    mine.update(stop_requested_at=timezone.now() if is_told else None)


@verb
def look(run: ExternalRun, /, *, exit_code: int | None = None) -> None:
    """Record the end of a watched run's life. `exit_code` is what an event has said of it."""
    end, is_paused = external.find_end(run, exit_code=exit_code)
    if end is not None:
        _end(run, end.state, **end.fields)
    else:
        _note_pause(run, is_paused)


def _end(run: ExternalRun, state: RunState, **fields: Any) -> None:
    moved = Run.objects.filter(pk=run.pk).move(old=LIVING, new=state, **fields)
    if moved:
        run.refresh_from_db()
        events.publish_change("server", run.server_id)


def _note_pause(run: ExternalRun, is_paused: bool) -> None:
    said = PAUSED if is_paused else ""
    if run.status_message != said and (said or run.status_message == PAUSED):
        Run.objects.filter(pk=run.pk).update(status_message=said)
        events.publish_change("server", run.server_id)


@verb
def look_surely(run: ExternalRun, /, *, exit_code: int | None = None) -> None:
    """As look(), but a Docker that is away is said, and nothing is claimed."""
    try:
        look(run, exit_code=exit_code)
    except ContainerError as error:
        log.warning("run %s cannot be looked at: %s", run.pk, error)


def of_container(box: Box, container_id: str) -> ExternalRun | None:
    """The watched run of a container that lives."""
    return next((run for run in _active(box) if run.container_id == container_id), None)
