"""Schemas of the API. Sizes are bytes, spans seconds; null: unknown, or not applicable."""

from datetime import UTC, datetime
from typing import Any, Self

from ninja import Schema

from servers.contexts.links import LinkedBox
from servers.contexts.pages import Panel
from servers.judge.memory import holders
from servers.judge.weights import checkpoints
from servers.lifecycle import gateway
from servers.lifecycle.memory import describe_release, find_release_code
from servers.lifecycle.runs import starts
from servers.models import Claim, Run, Server, StoredCheckpoint
from servers.state.samples import EngineMetrics, figures_of


class RowOut(Schema):
    @classmethod
    def from_same(cls, row: object, **others: Any) -> Self:
        """Each field as the row has it under the same name, but for `others`."""
        same = {name: getattr(row, name) for name in cls.model_fields if name not in others}
        return cls(**same, **others)


# What RunOut reads of a run.
RELATED = (
    "server__box", "server__profile", "version__profile", "started_by", "plan__repeats", "start",
    "log", "health",
)  # fmt: skip


class RunOut(RowOut):
    id: int
    server: str
    box: str
    profile: str
    version: int
    # queued, pulling, creating, starting, ready, asleep, waking, draining, stopping, stopped, failed
    state: str
    started_by: str | None
    created_at: datetime
    ready_at: datetime | None
    ended_at: datetime | None
    image_id: str
    engine_version: str
    exit_code: int | None
    phase: str  # of a start: where it is; "" otherwise
    percent: int | None
    unhealthy: str  # why; "" when it is well
    sleep: str  # what it released, and how fast it wakes up; "" when it is awake
    sleep_code: str  # the id of that message
    memory: str  # of one that has ended: what came back, in words
    memory_code: str  # the id of that message
    failure: str  # why it failed, in a sentence; "" when it did not
    cause: str  # the id of a known cause; "" otherwise
    log_lines: int

    @classmethod
    def from_run(cls, run: Run) -> "RunOut":
        launch, server = run.version.launch, run.server
        start = starts.measure_progress(run, launch, unified=server.box.is_unified)
        return cls.from_same(
            run,
            id=run.pk,
            server=server.slug,
            box=server.box.slug,
            profile=run.version.profile.slug,
            version=run.version.number,
            state=str(run.shown_state),
            started_by=run.started_by.username if run.started_by else None,
            engine_version=run.start.engine_version,
            phase=start.phase if start else "",
            percent=start.percent if start else None,
            unhealthy=run.health.unhealthy_because if run.is_unhealthy else "",
            sleep=gateway.describe_sleep(run),
            sleep_code=gateway.find_sleep_code(run),
            memory=describe_release(run),
            memory_code=find_release_code(run),
            failure=run.why if run.state == Run.State.FAILED else "",
            cause=run.log.cause,
            log_lines=run.log.lines,
        )


class FiguresOut(Schema):
    """What a ready engine tells of its work; null: it does not say, or nobody asked it lately.

    Latencies are of the last minute, halves (p50) and 95 % (p95) of them within so many seconds;
    shares are from 0 to 1.
    """

    at: datetime
    source: str  # metrics; log: its metrics are off, and these are what its log says
    is_stale: bool  # it has told nothing for a while
    running: float | None
    queued: float | None
    prompt_tokens_per_second: float | None
    generated_tokens_per_second: float | None
    first_token_p50: float | None
    first_token_p95: float | None
    inter_token_p50: float | None
    inter_token_p95: float | None
    whole_answer_p50: float | None
    whole_answer_p95: float | None
    kv_cache: float | None
    prefix_cache_hits: float | None
    drafts_accepted: float | None
    preemptions_per_minute: float | None

    @classmethod
    def from_metrics(cls, told: EngineMetrics) -> "FiguresOut":
        said = told.figures
        return cls(
            at=datetime.fromtimestamp(told.at, UTC),
            source=told.source,
            is_stale=told.is_stale,
            running=said.running,
            queued=said.queued,
            prompt_tokens_per_second=said.prompt,
            generated_tokens_per_second=said.generation,
            first_token_p50=said.first_p50,
            first_token_p95=said.first_p95,
            inter_token_p50=said.token_p50,
            inter_token_p95=said.token_p95,
            whole_answer_p50=said.whole_p50,
            whole_answer_p95=said.whole_p95,
            kv_cache=said.kv,
            prefix_cache_hits=said.prefix,
            drafts_accepted=said.accepted,
            preemptions_per_minute=said.preemptions,
        )


class ClaimOut(RowOut):
    """Somebody needs GPUs of a box, or a server, until a time."""

    id: int
    box: str
    server: str | None
    gpus: list[int]
    by: str
    until: datetime
    note: str

    @classmethod
    def from_claim(cls, claim: Claim) -> "ClaimOut":
        return cls.from_same(
            claim,
            id=claim.pk,
            box=claim.box.slug,
            server=claim.server.slug if claim.server else None,
            by=claim.by.username,
        )


class ServerOut(Schema):
    slug: str
    box: str
    profile: str
    engine: str
    model: str  # the checkpoint
    served_name: str  # what requests call it; "" before its first start
    state: str  # its run's, or "never started"
    is_watched: bool  # somebody else has started it: it is only looked at
    base_url: str | None  # as seen from its own box; null when it does not run
    requests_running: int | None
    tokens_per_second: float | None
    last_request_at: datetime | None
    figures: FiguresOut | None
    claims: list[ClaimOut]  # of it, or of GPUs that it has now
    run: RunOut | None
    mark: str  # another text whenever its run, state, phase or percent are others

    @classmethod
    def from_server(cls, server: Server) -> "ServerOut":
        run, launch = server.run, server.launch
        lives = run is not None and run.is_active
        shown = RunOut.from_run(run) if run else None
        told = figures_of(run)
        return cls(
            slug=server.slug,
            box=server.box.slug,
            profile=server.profile.slug,
            engine=launch.engine,
            model=launch.checkpoint,
            served_name=run.served_name if run else "",
            state=str(run.shown_state) if run else "never started",
            is_watched=server.is_watched,
            base_url=f"http://{run.address}:{run.port}/v1"
            if run and lives and run.address and run.port
            else None,
            requests_running=run.health.requests_running if run and lives else None,
            tokens_per_second=run.health.tokens_per_second if run and lives else None,
            last_request_at=run.health.last_request_at if run else None,
            figures=FiguresOut.from_metrics(told) if told else None,
            claims=[
                ClaimOut.from_claim(each)
                for each in server.box.current_claims
                if each.covers(server)
            ],
            run=shown,
            mark=f"{shown.id} {shown.state} {shown.phase} {shown.percent}" if shown else "",
        )


class PartOut(Schema):
    """A part of a GPU's memory; all parts of one add up to its total."""

    kind: str  # server, process, reserved, cache, unattributed, free, …
    name: str
    size: int


class GpuOut(RowOut):
    index: int
    name: str
    kind: str  # discrete, unified, numa; "": not known
    total: int | None
    used: int | None
    free: int | None
    utilisation: int | None  # percent
    temperature: int | None  # °C
    power: float | None  # watts
    verdict: str  # on its memory: ok, settling, page_cache, reclaimable, residual, leaked, unknown
    reason: str
    reason_code: str  # the id of that message; "" while nothing is wrong
    advice: str
    memory: list[PartOut]

    @classmethod
    def from_gpu(cls, gpu: holders.GpuMemory) -> "GpuOut":
        verdict = gpu.verdict
        return cls.from_same(
            gpu,
            utilisation=gpu.util,
            verdict=verdict.verdict if verdict else "ok",
            reason=verdict.reason if verdict else "",
            reason_code=verdict.code if verdict else "",
            advice=verdict.advice if verdict else "",
            memory=[
                PartOut(kind=part.kind, name=part.name, size=part.size)
                for part in (gpu.ledger.parts if gpu.ledger else ())
            ],
        )


class BoxLinkOut(RowOut):
    state: str  # here, joined, away, waiting, revoked
    since: datetime | None  # away or revoked
    version: str  # of inferdash; "" where it has not said
    clock_offset: float | None  # seconds ahead of the hub's clock


class BoxOut(RowOut):
    slug: str
    link: BoxLinkOut
    health: str  # ok, attention, silent
    seen_at: datetime | None
    docker: str  # its version; "" when it cannot be used
    driver: str
    memory_total: int | None
    memory_free: int | None
    problems: list[str]
    gpus: list[GpuOut]
    claims: list[ClaimOut]

    @classmethod
    def from_panel(cls, panel: Panel, linked: LinkedBox) -> "BoxOut":
        return cls.from_same(
            panel,
            link=BoxLinkOut.from_same(linked),
            problems=[what for what, _fix in panel.problems],
            gpus=[GpuOut.from_gpu(gpu) for gpu in panel.gpus],
            claims=[ClaimOut.from_claim(each) for each in panel.claims],
        )


class StoredOut(RowOut):
    name: str
    path: str
    revision: str
    format: str  # safetensors, gguf, bin, pt; "": no weights
    quantization: str
    context: int | None  # tokens
    size: int
    weights: int
    state: str  # complete, partial, without weights
    because: str  # what is not whole

    @classmethod
    def from_stored(cls, stored: StoredCheckpoint) -> "StoredOut":
        return cls.from_same(
            stored,
            quantization=checkpoints.quantization(stored.config),
            context=checkpoints.context(stored.config),
        )
