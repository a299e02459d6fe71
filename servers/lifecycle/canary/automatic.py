"""Canaries that nobody has asked for, where profiles say so: after starts that changed something, at night."""

from contextlib import suppress
from datetime import timedelta

from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from servers.lifecycle.canary import commands
from servers.lifecycle.canary.commands import CanaryRequestError
from servers.models import Box, Canary, Server, UpgradeTrial
from servers.models.benchmarks import BenchmarkOutcome
from servers.models.runs.run import RunState

# After it is ready: by then the smoke test is over, and who waited for it has been answered.
SETTLES = timedelta(seconds=30)
# What has been ready for longer was so before anybody chose this.
NEWS = timedelta(hours=1)


def ask_after_changes(box: Box) -> None:
    """What is busy or measured now is asked in a later round."""
    now = timezone.now()
    ready = Server.objects.filter(
        box=box, run__state=RunState.READY, run__is_watched=False,
        run__ready_at__range=(now - NEWS, now - SETTLES),
    )  # fmt: skip
    for server in ready.select_related("box", "run__version", "run__plan", "run__start"):
        assert server.run is not None
        if commands.needs_canary(server.run):
            with suppress(CanaryRequestError):
                commands.ask(server, "quick", by=None)


NIGHT = range(1, 5)  # o'clock, on the box's own clock
IDLE = timedelta(minutes=30)  # without a request
# What nobody has changed may still break: a driver, a card. Once a run, and once more a week.
AGAIN_AFTER = timedelta(days=7)
# One that people or its end have cut off is not tried again in the same night.
TRIED_AGAIN_AFTER = timedelta(hours=12)


def ask_at_night(box: Box) -> None:
    """A full one of each server that nobody uses."""
    now = timezone.now()
    if (
        timezone.localtime().hour not in NIGHT
        or UpgradeTrial.objects.open().filter(box=box).exists()
    ):
        return
    fulls = Canary.objects.filter(run=OuterRef("run"), set_key="full")
    whole = fulls.filter(outcome=BenchmarkOutcome.WHOLE, asked_at__gte=now - AGAIN_AFTER)
    tried = fulls.filter(asked_at__gte=now - TRIED_AGAIN_AFTER)
    quiet = Q(run__health__last_request_at=None) | Q(run__health__last_request_at__lt=now - IDLE)
    idle = Server.objects.filter(
        quiet, ~Exists(whole), ~Exists(tried), box=box, run__state=RunState.READY,
        run__is_watched=False, run__ready_at__lt=now - IDLE,
    ).exclude(run__health__requests_running__gt=0)  # fmt: skip
    for server in idle.select_related("box", "run__version", "run__plan", "run__start"):
        assert server.run is not None
        if server.run.launch.check_answers:
            with suppress(CanaryRequestError):
                commands.ask(server, "full", by=None)
                return  # one at a time a box
