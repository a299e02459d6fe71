"""Canaries that nobody has asked for: after starts that changed something, where profiles say so."""

from contextlib import suppress
from datetime import timedelta

from django.utils import timezone

from servers.lifecycle.canary import commands
from servers.lifecycle.canary.commands import CanaryRequestError
from servers.models import Box, Server
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
