"""Starts of runs: secrets, rights taken away, phases, usual times, progress, deadlocks, and heads of Ray clusters."""

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime

from django.conf import settings
from django.utils import timezone

from servers.host.docker import throwaway
from servers.host.docker.containers import ContainerError, DockerContainers, Spec
from servers.host.runs.probes import Endpoint
from servers.judge.logs import parsing
from servers.judge.logs.phases import reader as phases
from servers.judge.logs.phases.progress import PhaseProgress
from servers.judge.logs.phases.reader import Reader
from servers.judge.runs import health, start_progress
from servers.judge.runs.limits import PARTS, PIDS, Limits, Part, drop_rights, list_kept
from servers.judge.runs.start_progress import (
    StartProgress,
    Stretch,
    TimelineStep,
    WeightsDownload,
)
from servers.launch.commandline import clusters
from servers.launch.engines import placement
from servers.launch.engines.engine import flag_value, secret_words
from servers.launch.engines.launch import Launch
from servers.launch.redaction import mask_tokens
from servers.lifecycle.links import ways
from servers.models import Run, RunPlan, Secret
from servers.models.people.key import SecretError, SecretValues, mask, unseal_given
from servers.models.runs.run import RunState


def read_progress(run: Run) -> PhaseProgress:
    return Reader.from_json(run.start.reader).progress if run.start.reader else PhaseProgress()


def read_download(run: Run) -> WeightsDownload | None:
    if run.start.download_began_at is None:
        return None
    return WeightsDownload(
        began=run.start.download_began_at,
        ended=run.start.download_ended_at,
        size=run.start.download_size or 0,
        total=run.start.download_total,
        rate=run.start.download_rate,
    )


def list_stretches(run: Run) -> tuple[Stretch, ...]:
    """The phases of its start; () before its container started."""
    if run.started_at is None:
        return ()
    return start_progress.stretches(
        read_progress(run),
        started=run.started_at,
        ended=run.ready_at or run.ended_at,
        download=read_download(run),
    )


def list_steps(run: Run) -> tuple[TimelineStep, ...]:
    """Its states, and the phases of its start, on a line."""
    moments: list[tuple[str, datetime | None]] = [
        (RunState.QUEUED, run.created_at),
        (RunState.PULLING, run.start.pulling_at),
        (RunState.CREATING, run.start.creating_at),
        (RunState.STARTING, run.started_at),
        (RunState.READY, run.ready_at),
    ]
    if run.is_watched:
        # Nobody has asked inferdash for it, and how long it took is known to who was there.
        moments = moments[3:] if run.saw_start or not run.ready_at else moments[4:]
    # Nobody waits for a pull that will not come, or for a stop that nobody asked for.
    moments = [each for each in moments if each[0] != RunState.PULLING or each[1]]
    if run.stopping_at is not None:
        moments.append((RunState.STOPPING, run.stopping_at))
    steps = start_progress.list_steps(
        moments, ended_at=run.ended_at, has_failed=run.state == RunState.FAILED
    )
    if not run.saw_start and run.ready_at:
        return steps
    order = phases.order(run.version.launch.engine)
    return start_progress.with_phases(steps, list_stretches(run), run.start.usual_phases, order)


def measure_progress(run: Run, launch: Launch, *, unified: bool) -> StartProgress | None:
    """Where the start is; None before the container's start, and after the run's."""
    found = list_stretches(run)
    if not found or run.ready_at or run.ended_at:
        return None
    return start_progress.where(
        found,
        read_progress(run),
        download=read_download(run),
        heard=run.start.last_output_at,
        usually=run.start.usual_phases,
        expected=launch.expected,
        engine=launch.engine,
        unified=unified,
        now=timezone.now(),
    )


def describe_deadlock(run: Run, *, unified: bool) -> tuple[str, str]:
    """What it looks like and what to do, where its GPUs give a deadlock away; else two ""."""
    heard = None if run.ready_at else run.start.last_output_at
    now = timezone.now()
    if run.ended_at or not health.is_stuck(run.health.spins_since, heard, unified=unified, now=now):
        return "", ""
    progress = read_progress(run)
    phase = "" if run.ready_at else progress.phase
    ranks = progress.facts.get("ranks", 0)
    cards = max(run.health.spinning_gpus, int(ranks) if isinstance(ranks, float) else 0)
    remedy = health.name_spinning_remedy(run.version.launch.engine, phase, unified=unified)
    return health.describe_spinning(phase, cards=cards), remedy


def find_log_remarks(run: Run) -> tuple[parsing.LogPatternRemark, ...]:
    """What its log has that it must not have, and once it is ready, what it lacks."""
    launch = run.version.launch
    wanted = launch.log_must if run.ready_at else ()
    return parsing.find_pattern_remarks(wanted, launch.log_must_not, run.log.found)


def list_ray_heads() -> list[int]:
    """Servers whose engines may have workers on other boxes, by their rows' numbers."""
    return [run.server_id for run in list_ray_runs()]


def list_ray_runs() -> Iterable[Run]:
    active = Run.objects.active().filter(server__removed_at=None)
    for run in active.select_related("server__box", "version").order_by("pk"):
        if clusters.uses_ray(run.launch, run.start.command):
            yield run


log = logging.getLogger(__name__)

# Variables by which an engine learns the key that it asks callers for.
ENGINE_KEYS = ("VLLM_API_KEY", "LLAMA_API_KEY")


class SecretsError(Exception):
    """The run cannot be made; the text says why and what to do."""


def site(run: Run) -> placement.Site:
    """What this box adds to the profile, secrets in the clear. For the worker's eyes only."""
    box = run.server.box
    launch = run.launch
    wanted = Secret.objects.in_bulk(list(launch.secret_env.values()))
    missing = [name for name, pk in launch.secret_env.items() if pk not in wanted]
    if missing:
        raise SecretsError(
            f"The secret behind {missing[0]} was deleted. Edit the profile and enter it again."
        )
    try:
        return placement.Site(
            home=box.home,
            hf_cache=box.hf_cache,
            hf_token=box.hf_token.reveal() if box.hf_token else "",
            secrets={name: wanted[pk].reveal() for name, pk in launch.secret_env.items()},
        )
    except SecretError as error:
        raise SecretsError(str(error)) from error


def secret_values(run: Run) -> list[str]:
    """Every value that must not appear in this run's log, errors or command.

    Those that its container was given, and those that it would be given now.
    """
    launch = run.launch
    secrets = [run.server.box.hf_token, *Secret.objects.filter(pk__in=launch.secret_env.values())]
    found = set(secret_words(launch.flags))
    if run.plan.sealed_secrets is not None:
        found.update(_readable(lambda: unseal_given(bytes(run.plan.sealed_secrets or b"")).values))
    for secret in filter(None, secrets):
        found.update(_readable(lambda secret=secret: [secret.reveal()]))  # type: ignore[misc]
    return sorted(filter(None, found))


def _readable(read: Callable[[], Collection[str]]) -> Collection[str]:
    try:
        return read()
    except SecretError as error:
        # The others must be masked all the same.
        log.warning("%s", error)
        return []


def remember(run: Run, here: placement.Site) -> None:
    """Before the container starts: what it knows must be masked for as long as it prints."""
    remember_given(run, SecretValues(named=here.secrets, others=[here.hf_token]))


def remember_again(run: Run, env: Mapping[str, str]) -> None:
    """The same from the environment of a container that is there already."""
    names = ("HF_TOKEN", *run.launch.secret_env)
    remember_given(run, SecretValues(named={name: env[name] for name in names if name in env}))


def remember_given(run: Run, given: SecretValues) -> None:
    """The same, where somebody has picked it out."""
    run.plan.sealed_secrets = given.seal()
    RunPlan.objects.filter(run=run.pk).update(sealed_secrets=run.plan.sealed_secrets)


def mask_secrets(run: Run, text: str) -> str:
    return without_tokens(mask(text, secret_values(run)))


def without_tokens(text: str) -> str:
    """Those that are known by their shape alone."""
    known = text.encode(errors="replace")
    # An engine may print NUL, and PostgreSQL keeps no text that holds one.
    return mask_tokens([known])[0].decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def find_endpoint(run: Run) -> Endpoint | None:
    """Where the engine answers, for who runs on its box or on the hub; None before it has a port,
    and on a hub that has no way to its box.

    The only way to an engine: no address that a person typed is ever asked.
    """
    if run.address is None or run.port is None:
        return None
    via = None
    if settings.WIRE == "hub":
        if not ways.has_way(run.server.box):
            return None
        via = ways.find_way(run.server.box)
    return Endpoint(address=run.address, port=run.port, key=_find_engine_key(run), via=via)


def find_key_in(words: tuple[str, ...], env: Mapping[str, str | None]) -> str:
    """The key that an engine was told to ask callers for; "" for none."""
    named = (found for name in ENGINE_KEYS if (found := env.get(name)))
    return flag_value(words, "--api-key") or next(named, "")


def _find_engine_key(run: Run) -> str:
    launch = run.launch
    if key := flag_value(launch.flags, "--api-key"):
        return key
    for name in ENGINE_KEYS:
        if name in launch.secret_env:
            # What it was started with: a secret that is replaced counts from the next start.
            given = _unseal_named(run.plan.sealed_secrets).get(name)
            return _reveal(launch.secret_env[name]) if given is None else given
        if name in launch.env:
            return launch.env[name]
    return ""


def _unseal_named(sealed: bytes | memoryview | None) -> Mapping[str, str]:
    """Variables by their names; {} where they cannot be read."""
    try:
        return unseal_given(bytes(sealed)).named if sealed is not None else {}
    except SecretError:
        return {}


def _reveal(secret: int) -> str:
    """A secret's value; "" of one that is gone or cannot be read: then its engine refuses what it
    is asked, and nothing else stands still."""
    found = Secret.objects.filter(pk=secret).first()
    try:
        return found.reveal() if found is not None else ""
    except SecretError:
        return ""


_BARE = Spec(image="", init=False)
_IGNORED = "Docker takes the option, and the container keeps the right all the same."
_NO_PIDS = "Docker says that it cannot count processes here: the cgroup controller pids is missing."

_known: dict[str, dict[str, str]] = {}  # by Docker's address, for the life of this process
_lock = threading.Lock()


def harden(docker: DockerContainers, spec: Spec, allowed: Limits) -> Spec:
    """The container without what engines do not need. Raises ContainerError."""
    return drop_rights(spec, pids=allowed.pids_limit, without=list_unsupported(docker))


def list_unsupported(docker: DockerContainers) -> dict[str, str]:
    """Which parts of it this Docker does not do, and why: empty on nearly every box.

    Never read from a row: whoever can write rows could give rights back by one. Raises
    ContainerError when Docker cannot be asked; then it is asked again the next time.
    """
    with _lock:
        if docker.host not in _known:
            _known[docker.host] = _try_hardening(docker)
        return dict(_known[docker.host])


def _try_hardening(docker: DockerContainers) -> dict[str, str]:
    counts = docker.facts().counts_processes
    missing = {} if counts else {"pids": _NO_PIDS}
    if not _trouble(docker, set(PARTS) - set(missing)):
        return missing
    each = {part: _trouble(docker, {part}) for part in PARTS if part not in missing}
    return missing | {part: why for part, why in each.items() if why}


def _trouble(docker: DockerContainers, parts: set[Part]) -> str:
    """Why a program does not run with these parts, or runs as if without; "" where it does."""
    left_out = set(PARTS) - parts
    spec = drop_rights(_BARE, pids=PIDS, without=left_out)
    try:
        said = throwaway.read_trial_status(docker, spec, root=settings.HOST_ROOT)
    except ContainerError as error:
        if not throwaway.can_be_asked(error):
            raise
        return _of_options(docker, spec, error)
    kept = list_kept(said, parts)
    return _IGNORED if kept else ""


def _of_options(docker: DockerContainers, spec: Spec, error: ContainerError) -> str:
    """Docker's words on the options; where the box's own shell runs in no container, as on a box
    that keeps its programs elsewhere, those on an empty container with them."""
    try:
        throwaway.read_trial_status(docker, _BARE, root=settings.HOST_ROOT)
    except ContainerError as of_shell:
        if not throwaway.can_be_asked(of_shell):
            raise
        refusal = _refusal(docker, spec)
        return (refusal.detail or str(refusal)) if refusal else ""
    return error.detail or str(error)


def _refusal(docker: DockerContainers, spec: Spec) -> ContainerError | None:
    """Docker's own of an empty container. Where it makes none at all, nothing was learnt of the
    options: they are used, and the start says what comes of it."""
    try:
        return docker.refusal(spec)
    except ContainerError as error:
        if not throwaway.can_be_asked(error):
            raise
        return None
