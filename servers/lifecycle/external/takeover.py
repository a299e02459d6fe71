"""The takeover of an external engine: stopped, its memory awaited, its profile started.

It is the one time that something is done to a container of somebody else's, because a person has
confirmed it by its name. The container itself stays, so that there is a way back.
"""

import shlex
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import ClassVar, Self

from django.db import transaction
from django.utils import timezone

from servers import events
from servers.events import wait
from servers.host.docker.containers import ContainerError
from servers.host.external.containers import (
    GRACE,
    ExternalContainer,
    ExternalContainers,
    StartedError,
    find_started_process,
)
from servers.host.kernel import processes
from servers.host.kernel.proc import Kernel, Process, Processes
from servers.host.kernel.processes import EndingError, ProcessId
from servers.judge.external.engines import DiscoveredEngine
from servers.judge.memory import release
from servers.judge.profiles.lint_rules import opens_the_box
from servers.launch.commandline import export
from servers.launch.engines import placement
from servers.launch.engines.placement import VolumeError
from servers.launch.spec import Spec
from servers.lifecycle import external
from servers.lifecycle.external import import_diff, monitoring
from servers.lifecycle.external.monitoring import ProfileError
from servers.lifecycle.jobs.runner import JobError
from servers.lifecycle.runs import commands, creation, starts
from servers.lifecycle.runs.ownership import require_managed
from servers.models import AuditEntry, Box, Job, Profile, Run, Server, User
from servers.models.runs.run import ManagedRun, RunState
from servers.state import samples

# Seconds: what has not come back by then is a matter for a person.
MEMORY_WITHIN = 240.0
STARTS_WITHIN = 90.0
# Refusals that hold for any image, and not for the empty one of a trial alone.
_TOLD_BY_TRIAL = (
    "no_gpu_driver", "unknown_runtime", "no_device", "rlimit", "no_network_named", "port_taken",
)  # fmt: skip
_DEEPEST = 12  # generations between an engine and its worker
_NOT_YET = (RunState.QUEUED, RunState.CREATING)


class TakeOverError(JobError):
    """It was not taken over; the text says how far it came. `command` brings the old one back."""


@dataclass(frozen=True, kw_only=True)
class _Old:
    """What is to be stopped, as a person has looked at it."""

    found: DiscoveredEngine
    profile: Profile | None = None  # that was made of it


@dataclass(frozen=True, kw_only=True)
class _OldContainer(_Old):
    other: ExternalContainer

    @property
    def members(self) -> release.Members:
        return release.Members(container=self.found.container, pids=self.found.pids)

    @property
    def stays(self) -> bool:
        """Whether there is still something of it once it has ended."""
        return not self.other.removes_itself

    @property
    def way_back(self) -> str:
        """A command that starts it again; secrets in it are left to whoever types it."""
        if self.stays:
            return f"docker start {shlex.quote(self.found.name)}"
        launch = self.profile.launch if self.profile else None
        return export.docker_run(launch, name=self.found.name).strip() if launch else ""

    def may_hold(self, port: int) -> bool:
        """Whether it has the port, which is free once it has ended."""
        published = {each.host_port for each in self.other.container.published}
        return port in published | {self.found.port}

    def find_pinned_image(self, wanted: str) -> str:
        """The id of the very image that ran, where the profile still wants that; else ""."""
        return self.other.container.image_id if wanted == self.other.image else ""

    def stop(self) -> None:
        """Raises TakeOverError."""
        found, started_at = self.found, self.other.container.started_at
        theirs = ExternalContainers(creation.docker().install, creation.docker().host)
        try:
            # Whoever watches it must not take its end for a failure.
            monitoring.note_wish_to_end(found.container)
            theirs.stop(found.container, name=found.name, started_at=started_at)
        except ContainerError as error:
            is_left = " It was left as it is." if self.goes_on() else ""
            raise TakeOverError(f"{error}{is_left}") from error
        finally:
            theirs.close()

    def goes_on(self) -> bool:
        """Whether it certainly runs as it did."""
        try:
            now = creation.docker().other(self.found.container)
        except ContainerError:
            return False
        return now is not None and now.is_life(self.other.container.started_at)

    def is_back(self) -> bool:
        """Whether something has started it again meanwhile. Raises ContainerError."""
        now = creation.docker().other(self.found.container)
        return now is not None and now.container.state in ("running", "restarting")


@dataclass(frozen=True, kw_only=True)
class _OldProcess(_Old):
    """The same of a process, of which nothing stays."""

    life: ProcessId
    folder: str = ""  # where it was started in; "" where that is not known
    stays: ClassVar = False

    @classmethod
    def find(cls, found: DiscoveredEngine) -> Self:
        life = ProcessId.parse(found.container)
        assert life is not None
        try:
            folder = find_started_process(life.pid, start=life.start).folder
        except StartedError:
            folder = ""
        return cls(found=found, life=life, folder=folder)

    @property
    def members(self) -> release.Members:
        return release.Members(pids=self.found.pids)

    @property
    def way_back(self) -> str:
        if (unit := self.found.origin.unit) and unit != "session":
            scope, _colon, unit = unit.rpartition(": ")
            return f"{'systemctl --user' if scope else 'sudo systemctl'} start {shlex.quote(unit)}"
        there = f"cd {shlex.quote(self.folder)} && " if self.folder else ""
        return there + self.found.command

    def find_pinned_image(self, wanted: str) -> str:
        return ""

    def may_hold(self, port: int) -> bool:
        return port == self.found.port or not self.found.port

    def stop(self) -> None:
        kernel, found = Kernel(), self.found
        # As they are now: the number of a worker that has ended since may be anybody's.
        now = Processes(kernel).read(set(found.pids))
        below = [each for each in now if _is_below(each, self.life, kernel)]
        monitoring.note_wish_to_end(found.container)
        try:
            processes.end_process(found.pid, start=self.life.start, container=None, grace=GRACE)
            # Its workers end with it; who does not is ended as what an engine has left behind.
            for each in below:
                processes.end_process(each.pid, start=each.start, container=each.container)
        except EndingError as error:
            raise TakeOverError(str(error)) from error

    def goes_on(self) -> bool:
        return self.life.is_running()

    def is_back(self) -> bool:
        return False


type _AnyOld = _OldContainer | _OldProcess


def take_over(box: Box, job: Job, *, tell: Callable[[str], None]) -> str:
    """Stop it and start its profile. `tell` hears how far it is.

    Raises TakeOverError, and ContainerError when Docker cannot be asked.
    """
    old = _old(job)
    by = job.asked_by
    server = _server(box, old, by)
    old = replace(old, profile=server.profile)
    job.write(profile=server.profile.slug)
    run = _next_run(server, old, by)
    _rehearse(run, old)
    name = old.found.name
    before = samples.newest(box.slug)
    said_before = server.took_over
    _note(server, old)
    job.write(server=server.slug, command=old.way_back)
    tell(f"Stopping {name}: it has up to {GRACE} s to end by itself.")
    try:
        old.stop()
    except TakeOverError:
        if old.goes_on():
            Server.objects.filter(pk=server.pk).update(took_over=said_before)
            monitoring.note_wish_to_end(old.found.container, is_told=False)
        raise
    AuditEntry.note(by, "stop for take over", name, server=server.slug, box=box.slug)
    tell(f"{name} has ended. Waiting until its memory is given back.")
    _wait_for_memory(box, old, release.held_before(before, old.members))
    _check_it_stays_away(old)
    tell(f"{name} has ended. Starting {server}.")
    return _start(run, server, old, by)


def _old(job: Job) -> _AnyOld:
    """Raises TakeOverError for what is not there any more as it was confirmed."""
    found = external.find_engine(str(job.params.get("container")))
    if found is None or found.has_ended or found.started_at != job.params.get("started_at"):
        raise TakeOverError(
            f"{job.what} is not there any more as you have seen it: it has ended or was started "
            "anew. Nothing was done; look at the page again."
        )
    if found.origin.install:
        raise TakeOverError(
            f"{job.what} belongs to {found.origin.started_by}. Stop it there. Nothing was done."
        )
    if found.is_process:
        return _OldProcess.find(found)
    other = creation.docker().other(found.container)
    if other is None or other.container.name != job.what:
        raise TakeOverError(f"{job.what} was removed or renamed. Nothing was done.")
    return _OldContainer(found=found, other=other)


def _server(box: Box, old: _AnyOld, by: User | None) -> Server:
    """The server that watches it, else that of the profile that was made of it, else a new one."""
    active = Run.objects.active().filter_external().filter(server__box=box)
    run = active.filter(container_id=old.found.container).select_related("server").first()
    try:
        profile = (
            run.server.profile if run else monitoring.make_profile(box, old.found.container, by=by)
        )
    except ProfileError as error:
        raise TakeOverError(f"{error} Nothing was stopped.") from error
    servers = box.servers.select_related("profile__current", "box__hf_token")
    server = (
        servers.get(pk=run.server_id)
        if run
        else servers.filter_managed().filter(profile=profile).order_by("pk").first()
    )
    if server is None:
        server = Server.objects.create(
            slug=monitoring.free_slug(profile.slug), profile=profile, box=box
        )
    opens = opens_the_box(asdict(profile.launch))
    if opens and not (by and by.may_administer):
        raise TakeOverError(
            f"{profile} has what only an admin may give a container: {', '.join(opens)}. Nothing "
            "was stopped."
        )
    return server


def _next_run(server: Server, old: _AnyOld, by: User | None) -> ManagedRun:
    version = server.profile.current
    if version is None:
        raise TakeOverError(f"The profile {server.profile} has no version. Nothing was stopped.")
    run = require_managed(
        Run.build(server=server, version=version, started_by=by, plan__values=server.values)
    )
    run.plan.pinned_image = old.find_pinned_image(version.launch.image)
    return run


def _rehearse(run: Run, old: _AnyOld) -> None:
    """Everything that would refuse the start and can be known before. Raises TakeOverError, and
    ContainerError when Docker cannot be asked."""
    server = run.server
    if server.runs.active().filter_managed().exists():
        raise TakeOverError(f"{server} runs already. Stop it first; nothing was stopped.")
    launch = run.launch
    image = creation.image(run)
    if image is None:
        raise TakeOverError(
            f"{server.box} does not have the image {launch.image} that the profile {server.profile} "
            "names. Pull it first, or write another into the profile. Nothing was stopped."
        )
    try:
        spec = placement.spec(
            launch,
            starts.site(run),
            name=creation.container_name(run),
            labels={},
            host_port=launch.host_port,
            entrypoint=image.entrypoint,
            kernels_volume="",
            image=image.id,
        )
        creation.check(spec, "")
        _try_docker(spec, old)
    except (starts.SecretsError, VolumeError) as error:
        raise TakeOverError(
            f"{server.box} would refuse the profile {server.profile}: {error} Nothing was stopped."
        ) from error


def _try_docker(spec: Spec, old: _AnyOld) -> None:
    """What only Docker can tell: whether it gives GPUs, has the runtime, and the port is free.

    Raises Refused, and ContainerError when it cannot be asked.
    """
    ports = tuple(each for each in spec.ports if not old.may_hold(each.host_port))
    gpus = "none" if spec.gpus == "none" else "all"  # which ones is chosen at the start
    # Mounts were looked at, and a volume would be left behind.
    trial = replace(spec, ports=ports, gpus=gpus, mounts=(), env={})
    error = creation.docker().refusal(trial)
    # NVIDIA's own hook may complain of the empty image that is tried with.
    if error is None or error.kind not in _TOLD_BY_TRIAL or "nvidia-container-cli" in error.detail:
        return
    raise starts.SecretsError(str(error))


def _note(server: Server, old: _AnyOld) -> None:
    """The way back, for the server's page: before anything is done."""
    revivers = old.found.revivers
    server.took_over = {
        "name": old.found.name,
        "container": old.found.container if old.stays else "",
        "command": old.way_back,
        # Line by line, so that each command stands under what it keeps away.
        "revived_by": "\n".join(each.says for each in revivers),
        "keeps_away": "\n".join(each.command for each in revivers),
        "at": timezone.now().isoformat(timespec="seconds"),
    }
    Server.objects.filter(pk=server.pk).update(took_over=server.took_over)


def _is_below(process: Process, life: ProcessId, kernel: Kernel) -> bool:
    """Whether it descends from that life of a process."""
    at = process.ppid
    for _generation in range(_DEEPEST):
        said = kernel.life(at)
        if said is None:
            return False
        if at == life.pid:
            return said.start == life.start
        at = said.ppid
    return False


def _wait_for_memory(box: Box, old: _AnyOld, before: release.Held) -> None:
    """Raises TakeOverError for what does not come back in time."""
    if not before:
        return
    since = time.time()

    def describe_missing() -> str:
        sample = samples.newest(box.slug)
        if sample is None:
            return ""  # nobody tells any more
        if float(sample.get("t") or 0) <= since:
            return "its memory"
        return release.describe_missing(before, sample, old.members)

    still = wait(
        describe_missing,
        lambda missing: not missing,
        groups=[events.LIVE],
        seconds=MEMORY_WITHIN,
        is_about=lambda message: (message.get("kind"), message.get("id")) == ("box", box.pk),
    )
    if not still:
        return
    raise TakeOverError(
        f"{old.found.name} has ended, but {still} was not given back within "
        f"{MEMORY_WITHIN:.0f} s, so that nothing was started. The box’s page says who holds it. The "
        "old one is started again by:",
        old.way_back,
    )


def _check_it_stays_away(old: _AnyOld) -> None:
    """Raises TakeOverError where somebody has started it again meanwhile."""
    if old.is_back():
        raise TakeOverError(
            f"{old.found.name} was stopped, and something has started it again at once: "
            f"{old.found.origin.revived_by}. Nothing else was done."
        )


def _start(run: ManagedRun, server: Server, old: _AnyOld, by: User | None) -> str:
    for mine in server.runs.active().filter_external():
        monitoring.look(mine)
    with transaction.atomic():
        Server.objects.filter(pk=server.pk).update(watches={}, removed_at=None)
        server.watches, server.removed_at = {}, None
        queued = commands.queue(run, by=by, action="take over", of=old.found.name)
    events.publish_change("servers")
    events.wake_watcher(server.box.slug, events.Topic.RUNS)
    if queued is None:
        raise TakeOverError(
            f"{old.found.name} has ended, and {server} was not started: it has a run already.",
            old.way_back,
        )
    state = _after_queue(queued)
    if state is RunState.FAILED:
        queued.refresh_from_db()
        raise TakeOverError(
            f"{old.found.name} has ended, but {server} did not start: {queued.why} The old one is "
            f"{'still there, and is ' if old.stays else ''}started again by:",
            old.way_back,
        )
    likeness = import_diff.profile_of(server.box, old.found.container)
    of = f" by the profile {likeness}" if likeness else ""
    stays = f" {old.found.name} is stopped and stays on the box." if old.stays else ""
    return f"{server} takes over from {old.found.name}{of}, and is starting.{stays}"


def _after_queue(run: Run) -> RunState:
    """Where it stands as soon as its container was made, or was not."""
    return wait(
        lambda: RunState(Run.objects.values_list("state", flat=True).get(pk=run.pk)),
        lambda state: state not in _NOT_YET,
        groups=[events.LIVE],
        seconds=STARTS_WITHIN,
        is_about=lambda message: message.get("id") == run.server_id,
    )
