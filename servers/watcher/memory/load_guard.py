"""The load guard: a look each second where GPUs share the machine's memory."""

import logging
from collections.abc import Mapping
from typing import Any

from django.conf import settings

from servers.judge.memory.load_guard import GuardThresholds, MemoryGuard
from servers.lifecycle.memory import load_guard
from servers.models import Box, Run
from servers.models.runs.run import DesiredState, RunState

log = logging.getLogger(__name__)


class LoadMonitor:
    def __init__(self, box: Box) -> None:
        self.box = box
        self._thresholds = GuardThresholds(alarm=settings.LOADING_ALARM, stop=settings.LOADING_STOP)
        self._guards: dict[int, MemoryGuard] = {}

    @property
    def is_off(self) -> bool:
        return not (self._thresholds.alarm or self._thresholds.stop)

    def step(self, sample: Mapping[str, Any]) -> None:
        """Nothing where GPUs have memory of their own: there an engine fails by itself."""
        available = (sample.get("meminfo") or {}).get("MemAvailable")
        is_unified = any(card.get("kind") == "unified" for card in sample.get("gpus") or [])
        if self.is_off or not is_unified or available is None:
            return
        # Of what is stale nothing follows, but /proc goes on when the driver hangs.
        swap = sample.get("swap") or {}
        swapped = (swap.get("in") or 0) + (swap.get("out") or 0)
        runs = self._list_loading()
        self._guards = {pk: guard for pk, guard in self._guards.items() if pk in runs}
        for pk, run in runs.items():
            if pk not in self._guards:
                left = load_guard.foreseen(run)
                self._guards[pk] = MemoryGuard(self._thresholds, foreseen=left)
            told = self._guards[pk].step(sample["t"], available=available, swapped=swapped)
            if told.level == "stop" and not run.is_watched:
                if load_guard.stop(run, told.says):
                    log.warning("run %s is stopped: %s", pk, told.says)
            elif told.says or run.memory_warning:
                load_guard.strain(run, told.says)

    def _list_loading(self) -> dict[int, Run]:
        found = Run.objects.filter(
            server__box=self.box, state=RunState.STARTING, wanted=DesiredState.RUNNING
        ).select_related("server__box__hf_token", "server__profile", "version")
        return {run.pk: run for run in found}
