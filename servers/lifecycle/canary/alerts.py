"""Alert cases of the newest canaries, while what they were asked of still runs."""

from collections.abc import Iterator, Sequence

from django.db.models import Max

from servers.judge.alerts.case import AlertCase
from servers.judge.canary.alerts import judge_answers
from servers.lifecycle.canary import results
from servers.models import Canary, Server
from servers.models.benchmarks import BenchmarkOutcome
from servers.models.canary import CanaryOutcome
from servers.models.runs.run import RunState


def list_cases(servers: Sequence[Server]) -> Iterator[AlertCase]:
    """Of servers of one box, with their newest run and its version."""
    ready = {each.pk: each for each in servers if each.run and each.run.state == RunState.READY}
    whole = Canary.objects.filter(server__in=ready, outcome=BenchmarkOutcome.WHOLE)
    newest = whole.order_by().values("server").annotate(last=Max("pk")).values("last")
    bad = (CanaryOutcome.WRONG, CanaryOutcome.CHANGED)
    found = Canary.objects.filter(pk__in=newest, verdict__in=bad, accepted_at=None)
    for canary in found.select_related(
        "version", "run__version", "run__plan", "compared_with"
    ).defer("items", "compared_with__items"):
        server = ready[canary.server_id or 0]
        if _is_of(canary, server) and (case := _build_case(canary, server)):
            yield case


def _is_of(canary: Canary, server: Server) -> bool:
    """Whether what runs is still what was asked: started again with the same image and version it
    is no better."""
    run = server.run
    assert run is not None
    if canary.run_id == run.pk:
        return True
    before = canary.run
    return before is not None and (before.image_id, before.version_id) == (
        run.image_id, run.version_id
    )  # fmt: skip


def _build_case(canary: Canary, server: Server) -> AlertCase | None:
    assert server.run is not None
    assert canary.ended_at is not None
    before = canary.compared_with
    return judge_answers(
        server=server.slug,
        box=server.box.slug,
        run=server.run.pk,
        verdicts=results.read_verdicts(canary),
        changes=results.find_changes(canary) if before else None,
        rules=results.find_rules(canary),
        rates=(before.rate if before else None, canary.rate),
        ended=canary.ended_at.timestamp(),
    )
