"""Subjects of check-ups: engines of ready runs, and the names by which results tell of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from servers.host.benchmarks.requests import BenchmarkTarget
from servers.host.runs import probes
from servers.host.runs.probes import CHAT_PATH, Endpoint
from servers.judge.runs.health import cards_of
from servers.launch import numbers
from servers.launch.engines import other
from servers.launch.engines.engine import flag_value
from servers.lifecycle.jobs.runner import JobError
from servers.lifecycle.runs import starts
from servers.models import Box, Run
from servers.models.runs.run import PARTS, DesiredState, RunState

_LENGTHS = ("--max-model-len", "--context-length", "--ctx-size")


def refuse(run: Run | None) -> str:
    """Why it cannot be measured now; "" where it can. Nothing is started or woken for it."""
    if not settings.HAS_BENCHMARKS:
        return "Check-ups are turned off here (INFERDASH_BENCHMARKS=off)."
    if run is None or run.state != RunState.READY or run.wanted != DesiredState.RUNNING:
        return "It is not ready: start it first."
    if run.sleeps:
        return "It is asleep: wake it first."
    if run.is_watched:
        return "Somebody else has started it: inferdash only watches it."
    if not other.can_chat(run.version.launch):
        return "It answers no chats, and check-ups measure chats."
    return ""


def explain_busy(box: Box) -> str:
    """Why a second check-up of a box has to wait."""
    return (
        f"Another check-up is under way on {box}: a second one would disturb it. Wait for its end, "
        "or stop it."
    )


@dataclass(frozen=True, kw_only=True)
class BenchmarkSubject:
    run: Run
    endpoint: Endpoint
    longest: int | None  # tokens of a prompt with its answer; None: not known

    @property
    def target(self) -> BenchmarkTarget:
        headers = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in self.endpoint.headers.items()
        }
        url = str(self.endpoint.url(CHAT_PATH))
        return BenchmarkTarget(
            url=url, model=self.run.served_name, headers=headers, via=self.endpoint.via
        )


def find_run(pk: int) -> Run | None:
    """With all that a check-up reads of it."""
    runs = Run.objects.select_related("server__box", "version__profile", *PARTS)
    return runs.filter(pk=pk).first()


def require_subject(run: Run) -> BenchmarkSubject:
    """Raises JobError where it cannot be measured now."""
    if why := refuse(run):
        raise JobError(why)
    endpoint = starts.find_endpoint(run)
    if endpoint is None:
        raise JobError("Its engine has no address.")
    return BenchmarkSubject(run=run, endpoint=endpoint, longest=_find_longest(run, endpoint))


def explain_end(subject: BenchmarkSubject) -> str:
    """Why it can be measured no more; "" where it still serves."""
    run = Run.objects.select_related("version", "plan").get(pk=subject.run.pk)
    return f"It stopped meanwhile. {said}" if (said := refuse(run)) else ""


def _find_longest(run: Run, endpoint: Endpoint) -> int | None:
    """As its flags say, or as vLLM and SGLang tell beside the name of their model."""
    if length := numbers.whole(flag_value(run.launch.flags, *_LENGTHS) or ""):
        return length
    said = probes.fetch_json(endpoint, "/v1/models")
    models = said.get("data") if isinstance(said, dict) else None
    first = models[0] if isinstance(models, list) and models else None
    told = first.get("max_model_len") if isinstance(first, dict) else None
    return told if isinstance(told, int) and told > 0 else None


def describe(run: Run, sample: Mapping[str, Any] | None) -> dict[str, Any]:
    """What it is measured on, by the names of a result's schema; None or "": not known."""
    launch = run.launch
    return {
        "profile": run.version.profile.name,
        "version": run.version.number,
        "image": launch.image,
        "image_digest": run.start.image_digest,
        "image_id": run.image_id,
        "engine": launch.engine,
        "engine_version": run.start.engine_version,
        "model": launch.checkpoint,
        "commit": run.start.checkpoint_revision,
        "driver": (sample or {}).get("driver") or run.server.box.facts.get("driver") or "",
        "cards": [_describe_card(each) for each in cards_of(sample or {}, run.container_id)],
        "gpus": run.gpus,
    }


def _describe_card(card: Mapping[str, Any]) -> dict[str, Any]:
    names = ("index", "name", "power_limit_w", "sm_mhz", "sm_max_mhz", "mem_mhz", "mem_max_mhz")
    return {name: card.get(name) for name in names}
