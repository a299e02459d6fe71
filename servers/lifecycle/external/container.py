"""An external container: its workload, and the diagnosis of its exit."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from django.utils import timezone

from servers.host.docker.containers import ContainerError
from servers.host.external.containers import ASKED, ExternalContainer
from servers.judge.external.engines import DiscoveredEngine, Origin
from servers.launch.commandline.draft import Draft, DraftError
from servers.launch.commandline.inspect import argv, draft_of
from servers.launch.commandline.tokens import EngineKey
from servers.lifecycle.external import import_diff
from servers.lifecycle.external.workload import (
    TAIL,
    ExternalWorkload,
    WatchError,
    WorkloadEnd,
    format_lines,
)
from servers.lifecycle.runs import creation, restart_policy
from servers.models import Box, ProfileVersion, Run
from servers.models.people.key import SecretError
from servers.models.runs.run import RunState
from servers.models.runs.run_parts import find_boundary

log = logging.getLogger(__name__)

BY_POLICY = (
    "Docker’s restart policy has started its container again: it ended in between, and nobody saw "
    "how."
)
REBOOTED = "The box was restarted, and its container started again."
RESTARTED = "Its container was started again, outside inferdash."


class ContainerWorkload(ExternalWorkload):
    def __init__(self, other: ExternalContainer) -> None:
        self.other = other
        container = other.container
        self.key, self.name = container.id, container.name
        self.started_at = container.started_at
        self.image_id = container.image_id
        self.log_from = find_boundary(container.ended_before, container.started_at)

    @property
    def is_running(self) -> bool:
        return self.other.container.state == "running"

    @property
    def is_paused(self) -> bool:
        return self.other.container.state == "paused"

    @property
    def identity(self) -> dict[str, str]:
        """Compose gives a service's containers names of their own."""
        container = self.other.container
        labels = Origin.from_labels(container.labels, self.other.policy)
        # `docker compose run` makes one beside those of the service.
        is_own = container.labels.get("com.docker.compose.oneoff") == "True"
        if labels.project and labels.service and not is_own:
            return {"project": labels.project, "service": labels.service, "number": labels.number}
        return {"name": self.name}

    def draft(self, box: Box, found: DiscoveredEngine | None) -> Draft:
        try:
            return draft_of(
                self.other.inspected,
                creation.docker().made_from(self.image_id),
                engine=cast(EngineKey, found.engine) if found else None,
                model=found.models[0] if found and found.models else "",
                home=box.home,
                hf_cache=box.hf_cache,
                hf_token=_token(box),
            )
        except DraftError as error:
            raise WatchError(
                f"{self.name} cannot be read as a profile: {error} Its engine's API has not "
                "answered either; try again when it does."
            ) from error

    def compare(self, box: Box, made: Draft, version: ProfileVersion) -> None:
        import_diff.of_container(box, self.other, made, version)

    @property
    def argv(self) -> tuple[str, ...]:
        return tuple(argv(self.other.inspected))

    @property
    def env(self) -> Mapping[str, str]:
        """Of the image, too."""
        return self.other.container.env

    def origin(self) -> dict[str, Any]:
        return {
            **Origin.from_labels(self.other.container.labels, self.other.policy).to_json(),
            "name": self.name,
            "image": self.other.image,
            "restarts": self.other.restarts,
            "has_log": self.other.has_log,
        }

    def ways(self, port: int) -> tuple[tuple[str, int], ...]:
        return self.other.ways(port)

    def image_digest(self) -> str:
        return creation.docker().digest_of(self.image_id)

    def end(self, run: Run, exit_code: int | None) -> WorkloadEnd | None:
        container = self.other.container
        is_restarting = container.state == "restarting"
        if container.has_ended or is_restarting:
            code = container.exit_code
            if is_restarting:
                code = self.other.inspected["State"]["ExitCode"]
            return self._build_end(run, code, until="")
        if self.started_at and run.started_at and self.started_at > run.started_at:
            until = find_boundary(container.ended_before, self.started_at)
            return self._build_end(run, exit_code, until=until)
        return None

    def _build_end(self, run: Run, code: int | None, *, until: str) -> WorkloadEnd:
        container = self.other.container
        with_box = bool(until) and restart_policy.was_before_boot(run, run.server.box.booted_at)
        lines = [] if until or not self.other.has_log else self._last_lines()
        judged = self._judge(run, code, is_again=bool(until))
        state = RunState.STOPPED if with_box else judged.state
        says = judged.says if state is RunState.STOPPED and not until else ""
        return WorkloadEnd(
            state=state,
            failure=judged.says if state is RunState.FAILED else "",
            exit_code=code,
            oom_killed=container.oom_killed,
            last_lines=format_lines(run, lines),
            ended_at=container.finished_at or container.ended_before or timezone.now(),
            until_stamp=until,
            status_message=(REBOOTED if with_box else RESTARTED) if until else says,
        )

    def _last_lines(self) -> list[str]:
        """None of a log that Docker cannot hand out: an end is one all the same."""
        try:
            return creation.docker().tail(self.key, TAIL)
        except ContainerError as error:
            log.warning("The last lines of %s are not known: %s", self.key[:12], error)
            return []

    def _judge(self, run: Run, code: int | None, *, is_again: bool) -> restart_policy.ExitJudgement:
        """As of a container of ours. `is_again`: it runs again, and what it ended with is not kept."""
        asked = True if was_asked(run) else self._was_told(run)
        if code is None and is_again and not asked:
            # Docker's policy counts the ends that nobody asked for.
            if self.other.restarts > int(run.start.origin.get("restarts", 0)):
                return restart_policy.ExitJudgement(state=RunState.FAILED, says=BY_POLICY)
            return restart_policy.ExitJudgement(state=RunState.STOPPED, says="")
        ended = replace(self.other.container, exit_code=code)
        return restart_policy.judge_exit(run.ready_at, ended, asked=asked)

    def _was_told(self, run: Run) -> bool | None:
        container = self.other.container
        ended = container.finished_at or container.ended_before or timezone.now()
        return creation.docker().was_told_to_end(self.key, began=run.started_at, ended=ended)


def was_asked(run: Run) -> bool:
    """Whether somebody has asked for its end a moment ago."""
    run.refresh_from_db(fields=["stop_requested_at", "ready_at"])
    asked = run.stop_requested_at
    return asked is not None and timezone.now() - asked < ASKED


def build_removed_end() -> WorkloadEnd:
    return WorkloadEnd(
        state=RunState.STOPPED, status_message=restart_policy.REMOVED, ended_at=timezone.now()
    )


def _token(box: Box) -> str:
    try:
        return box.hf_token.reveal() if box.hf_token else ""
    except SecretError:
        return ""  # then the container's own is kept as a secret
