"""Alerts: what is wrong now, and what was."""

from datetime import datetime

from django.http import HttpRequest

from servers.models import Alert, Permission
from servers.views.api.operations import KeyRouter
from servers.views.api.schemas import RowOut

router = KeyRouter("alerts")
MOST = 100


class AlertOut(RowOut):
    id: int
    box: str
    server: str  # as it was called then; "": it is about the box
    run: int | None
    kind: str  # failed, died, unhealthy, leaked, disk, silent, …
    subject: str  # tells those of one kind and box apart
    severity: str  # info, warning, critical
    title: str
    detail: str
    memory: str  # what happened to it, in a sentence
    advice: str
    raised_at: datetime
    cleared_at: datetime | None  # null: it is still so
    acknowledged_by: str | None
    acknowledged_at: datetime | None

    @classmethod
    def from_alert(cls, alert: Alert) -> "AlertOut":
        return cls.from_same(
            alert,
            box=alert.box.slug,
            server=alert.server.slug if alert.server else alert.server_name,
            run=alert.run_id,
            acknowledged_by=str(alert.acknowledged_by) if alert.acknowledged_by else None,
        )


@router.serve("GET", "", Permission.VIEW, list[AlertOut])
def alerts(
    request: HttpRequest,
    box: str = "",
    kind: str = "",
    is_open: bool | None = None,
    before: int | None = None,
) -> list[AlertOut]:
    """The newest 100, whether somebody has acknowledged them or not.

    The next ones are those `before` the last one's id.
    """
    wanted = {"box__slug": box, "kind": kind, "cleared_at__isnull": is_open, "pk__lt": before}
    filters = {name: value for name, value in wanted.items() if value not in (None, "")}
    found = Alert.objects.filter(**filters).with_details().order_by("-pk")
    return [AlertOut.from_alert(each) for each in found[:MOST]]
