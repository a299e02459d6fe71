"""Runs that the kernel has killed for lack of memory."""

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone

from servers import events
from servers.host.docker.containers import ContainerError
from servers.host.kernel.proc import Kernel
from servers.host.kernel.processes import ProcessId
from servers.host.kernel.resources import CgroupMemory, read_memory
from servers.judge.logs import evidence
from servers.judge.logs.evidence import Oom
from servers.lifecycle.runs import creation
from servers.models import Box, Run
from servers.models.runs.run import ACTIVE, RunState

log = logging.getLogger(__name__)

# Whoever ended so long ago is not looked at any more.
LATELY = timedelta(minutes=10)
# A container that is seen so soon after its start had no kill that is not of this moment.
NEW = timedelta(seconds=30)
# Exit codes of who was asked to end, or was done.
_CLEAN = (0, 130, 143)


@dataclass(kw_only=True)
class _Looked:
    """What was last seen of the main memory of a run that lives."""

    pid: int
    before: int | None = None  # kills that the cgroup counted before anybody looked
    memory: CgroupMemory | None = None
    pids: frozenset[int] = frozenset()  # all that were ever seen in it


class OomMonitor:
    """Asks each source that needs no privilege, and the kernel's log where it can be read."""

    def __init__(self, box: Box, *, kernel: Kernel | None = None) -> None:
        self.box = box
        self._kernel = kernel or Kernel(root=settings.KERNEL_ROOT)
        self._looked: dict[tuple[int, str], _Looked] = {}

    def look(self, sample: Mapping[str, Any] | None) -> None:
        """One round: short, for every second."""
        with_container = Run.objects.filter(server__box=self.box).exclude(container_id="")
        living = with_container.filter(state__in=ACTIVE)
        self._look_at_cgroups(living.fetch_any())
        told = (sample or {}).get("oom") or {}
        if not (told.get("killed") or told.get("moves")):
            return
        ended = with_container.filter(
            state=RunState.FAILED, ended_at__gte=timezone.now() - LATELY
        ).fetch_any()
        for run in [*living.fetch_any(), *ended]:
            for found in self._of_sample(run, told):
                self._note(run, found)

    def _look_at_cgroups(self, living: list[Run]) -> None:
        """While a container lives its cgroup tells; it goes with the last process."""
        for run in living:
            key = (run.pk, str(run.started_at))
            looked = self._looked.get(key)
            if looked is None:
                pid = _first_pid(run)
                if pid is None:
                    continue
                looked = self._looked[key] = _Looked(pid=pid)
            memory = read_memory(self._kernel, looked.pid)
            if memory is None:
                continue
            if looked.before is None:
                looked.before = 0 if _is_new(run) else memory.kills
            looked.memory, looked.pids = memory, looked.pids | memory.pids
            # A process in no container may share its cgroup with others.
            if memory.kills > looked.before and ProcessId.parse(run.container_id) is None:
                held = memory.held
                found = Oom(source="cgroup", at=time.time(), held=held, limit=memory.limit)
                self._note(run, found)

    def forget(self) -> None:
        """What was seen of runs that are over for long."""
        keep = set(
            Run.objects.filter(pk__in=[pk for pk, _began in self._looked])
            .exclude(ended_at__lt=timezone.now() - LATELY)
            .values_list("pk", flat=True)
        )
        self._looked = {key: seen for key, seen in self._looked.items() if key[0] in keep}

    def note_kill(self, run_id: int) -> None:
        """Docker has told that the kernel killed something in this run's container."""
        run = Run.objects.filter(pk=run_id, server__box=self.box).first()
        if run is not None:
            self._note(run, Oom(source="docker", at=time.time()))

    def _of_sample(self, run: Run, told: Mapping[str, Any]) -> Iterator[Oom]:
        kills = told.get("killed") or []
        seen = self._seen_of(run)
        life = ProcessId.parse(run.container_id)
        pids = (seen.pids if seen else frozenset()) | ({life.pid} if life else frozenset())
        for each in kills:
            is_its = each.get("container") == run.container_id or (
                each.get("container") is None and each["pid"] in pids
            )
            if is_its and _is_during(run, each["t"]):
                yield Oom(
                    source="kernel",
                    at=each["t"],
                    name=each["name"],
                    pid=each["pid"],
                    held=each["held"],
                    is_limit=each["is_limit"],
                    others=tuple((name, size) for name, size in each["others"]),
                    said=each["said"],
                )
        if run.state == RunState.FAILED and run.exit_code not in _CLEAN and run.ended_at:
            for move in told.get("moves") or []:
                if evidence.may_explain(
                    move["t"], run.ended_at.timestamp()
                ) and not evidence.is_anothers(kills, run.container_id, move):
                    others = tuple((name, size) for name, size in move["largest"] if size)
                    yield Oom(source="counter", at=move["t"], others=others)

    def _seen_of(self, run: Run) -> _Looked | None:
        return self._looked.get((run.pk, str(run.started_at)))

    def _note(self, run: Run, found: Oom) -> None:
        if not evidence.says_more(found, Oom.from_json(run.log.oom)):
            return
        seen = self._seen_of(run)
        if seen is not None and seen.memory is not None:
            found = replace(
                found,
                held=found.held or seen.memory.held,
                limit=found.limit or seen.memory.limit,
            )
        kept = found.to_json()
        # What was found of its end before that was known is found anew.
        same = Run.objects.filter(pk=run.pk, log__oom=run.log.oom)
        if same.write(log__oom=kept, log__diagnosis={}):
            run.log.oom = kept
            events.publish_change("server", run.server_id)
            log.warning("%s: %s", run, evidence.explain_oom(found))


def _first_pid(run: Run) -> int | None:
    """Of its container, or the process itself."""
    if (life := ProcessId.parse(run.container_id)) is not None:
        return life.pid
    try:
        container = creation.docker().inspect(run.container_id)
    except ContainerError:
        return None
    return container.pid if container else None


def _is_new(run: Run) -> bool:
    return run.started_at is not None and timezone.now() - run.started_at < NEW


def _is_during(run: Run, t: float) -> bool:
    """A container that is started again has had other ends before."""
    at = datetime.fromtimestamp(t, UTC) + timedelta(seconds=1)
    is_begun = run.started_at is None or run.started_at <= at
    late = timedelta(seconds=evidence.READ_LATE)
    return is_begun and (run.ended_at is None or at <= run.ended_at + late)
