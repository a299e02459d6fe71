"""Metrics of boxes, GPUs and servers, for Prometheus."""

import time
from collections import Counter
from collections.abc import Iterable

from django.conf import settings
from django.db.models import Count, Prefetch, Q
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare

from servers.host.http.prometheus import CONTENT_TYPE, Families
from servers.judge.benchmarks.comparison import FIGURES
from servers.judge.memory import exported
from servers.launch import numbers
from servers.lifecycle.benchmarks.results import read_rows
from servers.models import (
    Alert,
    Benchmark,
    BenchmarkPoint,
    Box,
    Canary,
    Key,
    Permission,
    Run,
    Server,
)
from servers.models.runs.run import RunState
from servers.state import samples
from servers.views.access import serve_public

UNAUTHORIZED = 401


# It asks for a token of its own.
@serve_public("metrics", "GET", "HEAD")
def metrics(request: HttpRequest) -> HttpResponse:
    """With the token of the settings, or with a key that may look at boxes; without either there is no page."""
    keys = Key.objects.usable().for_more_than_models().select_related("person")
    if not settings.METRICS_TOKEN and not any(key.may(Permission.VIEW) for key in keys):
        raise Http404("No token for metrics is set.")
    if not _may(request.headers.get("Authorization", "")):
        return HttpResponse(
            "Metrics need a token: Authorization: Bearer …\n",
            status=UNAUTHORIZED,
            content_type="text/plain; charset=utf-8",
            headers={"WWW-Authenticate": 'Bearer realm="inferdash metrics"'},
        )
    return HttpResponse(_text(), content_type=CONTENT_TYPE)


def _may(said: str) -> bool:
    scheme, _, token = said.partition(" ")
    token = token.strip()
    if scheme.casefold() != "bearer" or not token:
        return False
    wanted = settings.METRICS_TOKEN
    if wanted and constant_time_compare(token, wanted):
        return True
    key = Key.objects.for_more_than_models().for_token(token)
    if key is None or not key.may(Permission.VIEW):
        return False
    Key.objects.note_use(key)
    return True


def _text() -> str:
    into, now = Families(), time.time()
    boxes = list(Box.objects.all())
    held = Run.objects.active().exclude(container_id="")
    slugs = dict(held.values_list("container_id", "server__slug"))
    for box in boxes:
        _box(into, box, now)
        if (sample := samples.newest(box.slug)) is not None:
            exported.box(into, box.slug, sample, now=now)
            exported.cards(into, box.slug, sample, slugs)
    servers = Server.objects.present().select_related(
        "box", "profile", "run__version", "run__start", "run__health"
    )
    _servers(into, servers.order_by("slug"))
    _runs(into)
    _results(into)
    _answers(into)
    open_ones = Alert.objects.open().order_by().values_list("box__slug", "severity")
    for box_slug, severity, count in open_ones.annotate(count=Count("pk")):
        into.gauge("inferdash_alerts_open", "Alerts that are still so.").add(
            count, box=box_slug, severity=severity
        )
    return into.text()


def _box(into: Families, box: Box, now: float) -> None:
    into.gauge("inferdash_box_up", "Whether the box gives signs of life.").add(
        float(not box.is_silent), box=box.slug
    )
    seen = numbers.to_timestamp(box.seen_at)
    into.gauge("inferdash_box_seen_age_seconds", "Time since the box's last sign of life.").add(
        None if seen is None else max(0.0, now - seen), box=box.slug
    )
    into.gauge("inferdash_box_problems", "What the box lacks, as its page says.").add(
        len(box.problems), box=box.slug
    )


def _servers(into: Families, servers: Iterable[Server]) -> None:
    servers = list(servers)
    told = samples.figures_by_run(server.run for server in servers)
    for server in servers:
        labels = {"server": server.slug, "box": server.box.slug}
        run = server.run
        launch = server.launch
        into.gauge("inferdash_server_info", "A server by what it is; always 1.").add(
            1, **labels, profile=server.profile.slug, engine=launch.engine, model=launch.checkpoint
        )
        states = into.gauge("inferdash_server_state", "The state of a server; one of them is 1.")
        now_in = str(run.state) if run else "never started"
        for state in ("never started", *RunState.values):
            states.add(float(state == now_in), **labels, state=state)
        if run is not None:
            _run(into, run, labels)
            if run.pk in told and not told[run.pk].is_stale:
                exported.engine(into, told[run.pk].figures, labels)


def _run(into: Families, run: Run, labels: dict[str, str]) -> None:
    is_ready = run.state == RunState.READY
    took = run.time_to_ready
    for name, value, words in (
        ("ready", float(is_ready), "Whether it answers."),
        ("asleep", float(run.sleeps), "Whether it is ready and sleeps until a request wakes it."),
        ("unhealthy", float(run.is_unhealthy), "Whether it is ready and does not work."),
        (
            "stuck",
            float(run.health.spins_since is not None),
            "Whether its GPUs give a deadlock away.",
        ),
        ("waits", float(run.is_waiting), "Whether it waits for GPUs that are taken."),
        (
            "requests",
            run.health.requests_running if is_ready else None,
            "Requests that run or wait in its engine.",
        ),
        (
            "generated_tokens_per_second",
            run.health.tokens_per_second if is_ready else None,
            "Tokens that its engine generates.",
        ),
        (
            "time_to_ready_seconds",
            took.total_seconds() if took else None,
            "Time from the click until it was ready.",
        ),
        (
            "last_request_timestamp_seconds",
            numbers.to_timestamp(run.health.last_request_at),
            "When its last request was seen.",
        ),
        ("start_timestamp_seconds", run.created_at.timestamp(), "When it was requested."),
    ):
        into.gauge(f"inferdash_server_{name}", words).add(value, **labels)


def _runs(into: Families) -> None:
    """Counted anew from the rows, which stay: so the counters never fall."""
    failed = Q(state=RunState.FAILED)
    counted = (
        Run.objects.filter(server__removed_at=None)
        .order_by()
        .values_list("server__slug", "server__box__slug")
        .annotate(
            started=Count("pk"),
            ready=Count("pk", filter=Q(ready_at__isnull=False)),
            failed=Count("pk", filter=failed),
            restarts=Count("pk", filter=Q(plan__attempts__gt=0)),
        )
        .order_by("server__slug")
    )
    for slug, box, *counts in counted:
        labels = {"server": slug, "box": box}
        for (name, words), count in zip(_COUNTS, counts, strict=True):
            into.counter(f"inferdash_server_{name}_total", words).add(count, **labels)


def _results(into: Families) -> None:
    """The newest clean check-up of each server, of each preset."""
    points = Prefetch("points", queryset=BenchmarkPoint.objects.defer("requests"))
    found = Benchmark.objects.filter_newest_clean().with_details().prefetch_related(points)
    for result in found.order_by("server_name", "preset"):
        labels = {"server": result.server_name, "box": str(result.box), "preset": result.preset}
        into.gauge(
            "inferdash_server_checkup_timestamp_seconds",
            "When the newest clean check-up of a server was requested.",
        ).add(result.asked_at.timestamp(), **labels)
        for point in read_rows(result.points.all()):
            shape = {
                "point": point.name,
                "concurrency": str(point.concurrency),
                "prompt_tokens": str(point.prompt_tokens),
            }
            for figure in FIGURES:
                estimated = point.estimate(figure)
                name, words = _FIGURES[figure.key]
                unit = 100 if figure.unit == "%" else 1
                into.gauge(f"inferdash_server_checkup_{name}", words).add(
                    estimated.mean / unit if estimated else None, **labels, **shape
                )


def _answers(into: Families) -> None:
    """The newest whole canary of each server, of each set."""
    for canary in Canary.objects.filter_newest_whole().select_related("box"):
        labels = {"server": canary.server_name, "box": str(canary.box), "set": canary.set_key}
        into.gauge(
            "inferdash_server_canary_timestamp_seconds",
            "When the newest whole canary of a server was requested.",
        ).add(canary.asked_at.timestamp(), **labels)
        found = Counter(each.get("verdict") for each in canary.verdicts)
        for verdict in ("pass", "changed", "wrong", "unknown"):
            into.gauge("inferdash_server_canary_items", "Items of it with each verdict.").add(
                found[verdict], **labels, verdict=verdict
            )
            into.gauge(
                "inferdash_server_canary_verdict",
                "1 for the verdict of the whole, which a person may have accepted.",
            ).add(int(canary.verdict == verdict), **labels, verdict=verdict)


_FIGURES = {
    "user_rate": ("user_tokens_per_second", "Tokens a second of each person, measured cleanly."),
    "output_rate": ("output_tokens_per_second", "Tokens a second of all, measured cleanly."),
    "ttft": ("first_token_seconds", "Time to the first token, measured cleanly."),
    "e2el": ("whole_answer_seconds", "Time to the last token, measured cleanly."),
    "cached_share": ("prompt_cache_hit_ratio", "Share of prompts read from the cache."),
    "prefill_rate": ("prompt_tokens_per_second", "Prompt tokens a second, measured cleanly."),
}
_COUNTS = (
    ("runs_started", "Runs of a server that were requested."),
    ("runs_ready", "Runs of a server that became ready."),
    ("runs_failed", "Runs of a server that failed."),
    ("restarts", "Runs of a server that inferdash started again by itself."),
)
