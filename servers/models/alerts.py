"""Alerts, the channels that tell them, and what each person wants to be told."""

from collections.abc import Collection
from datetime import timedelta
from typing import Any, Self

from django.db import models
from django.urls import reverse
from django.utils import timezone

from servers.models.box import Box
from servers.models.json_values import Json
from servers.models.people.key import seal_text, unseal_text
from servers.models.people.user import User
from servers.models.runs.run import Run
from servers.models.runs.server import Server


class Severity(models.TextChoices):
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class AlertKind(models.TextChoices):
    """What it is about, and its name in a list."""

    FAILED = "failed", "start failed"
    DIED = "died", "died"
    UNHEALTHY = "unhealthy", "unhealthy"
    READY = "ready", "ready after a long start"
    ANSWERS = "answers", "wrong answers"
    SLOWER = "slower", "slower than usual"
    LEAKED = "leaked", "memory leaked"
    RESIDUAL = "residual", "memory left behind"
    FLOOR = "floor", "little memory left"
    THERMAL = "thermal", "temperature"
    DISK = "disk", "disk"
    HARDWARE = "hardware", "hardware"
    DOWNLOAD = "download", "download failed"
    PULL = "pull", "image pull failed"
    BOX = "box", "box lacks something"
    SILENT = "silent", "box silent"


def list_alert_kinds() -> list[tuple[str, str]]:
    """A function, so that a new kind needs no migration."""
    return AlertKind.choices


class AlertQuerySet(models.QuerySet["Alert"]):
    def open(self) -> Self:
        return self.filter(cleared_at=None)

    def with_details(self) -> Self:
        return self.select_related("box", "server", "run", "acknowledged_by")


class Alert(models.Model):
    """Raised and cleared by a watcher; people only say that they know of it."""

    Severity = Severity

    box = models.ForeignKey(Box, on_delete=models.CASCADE, related_name="alerts")
    # What it is about, while that is there; its name stays in `title` and `server_name`.
    server = models.ForeignKey(Server, null=True, on_delete=models.SET_NULL, related_name="+")
    run = models.ForeignKey(Run, null=True, on_delete=models.SET_NULL, related_name="+")
    server_name = models.CharField(max_length=80, blank=True)
    checkpoint = models.CharField(max_length=300, blank=True)
    kind = models.CharField(max_length=20, choices=list_alert_kinds)
    # Tells those of one kind and box apart: a server's slug, a GPU's UUID, a rule and a folder.
    subject = models.CharField(max_length=200, blank=True)
    severity = models.CharField(max_length=10, choices=Severity)
    title = models.CharField(max_length=300)  # names the model and the box
    detail = models.TextField(blank=True)
    memory = models.TextField(blank=True)  # what happened to it, in a sentence
    advice = models.TextField(blank=True)
    raised_at = models.DateTimeField(default=timezone.now, db_index=True)
    cleared_at = models.DateTimeField(null=True, db_index=True)  # None: it still is so
    # When it was told last, raised or worse; None: it was no news any more.
    told_at = models.DateTimeField(null=True, db_index=True)
    acknowledged_by = models.ForeignKey(
        User, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    acknowledged_at = models.DateTimeField(null=True)

    objects = AlertQuerySet.as_manager()

    class Meta:
        ordering = ["-raised_at", "-pk"]
        constraints = [
            # Several watchers may see the same at once: all but one fail here.
            models.UniqueConstraint(
                fields=["box", "kind", "subject"],
                condition=models.Q(cleared_at=None),
                name="one_open_alert_a_subject",
            )
        ]

    def __str__(self) -> str:
        return self.title

    def get_absolute_url(self) -> str:
        """Where its cause stands, and what can be done about it."""
        if self.run_id:
            return reverse("run", args=[self.run_id])
        if self.kind == "download":
            return f"{reverse('models')}#downloads"
        if self.kind == "pull":
            return reverse("images")
        return reverse("box", args=[self.box.slug])

    @property
    def is_open(self) -> bool:
        return self.cleared_at is None

    @property
    def lasted(self) -> timedelta | None:
        """None while it lasts, and of what happened at one moment."""
        if self.cleared_at is None or self.cleared_at == self.raised_at:
            return None
        return self.cleared_at - self.raised_at


# What is tried for so long and still not taken is given up.
PATIENCE = timedelta(days=1)
_ORDER = [str(each) for each in Severity]


class ChannelKind(models.TextChoices):
    JSON = "json", "JSON webhook"
    SLACK = "slack", "Slack"
    DISCORD = "discord", "Discord"
    NTFY = "ntfy", "ntfy"
    EMAIL = "email", "E-mail"
    PING = "ping", "Sign of life"


class NotificationChannelQuerySet(models.QuerySet["NotificationChannel"]):
    def filter_team(self) -> Self:
        return self.filter(owner=None)


class NotificationChannel(models.Model):
    """An address that alerts go to; or one that is asked every minute, and misses a silent box."""

    Kind = ChannelKind

    name = models.CharField(max_length=80, unique=True)
    kind = models.CharField(max_length=10, choices=ChannelKind)
    # Encrypted: whoever knows such an address may write there.
    sealed_address = models.BinaryField()
    sealed_key = models.BinaryField(null=True)  # signs JSON, or lets in at an ntfy server
    hint = models.CharField(max_length=200, blank=True)  # what may be shown of the address
    box = models.ForeignKey(  # only what concerns it; None: every box
        Box, null=True, blank=True, on_delete=models.CASCADE, related_name="channels"
    )
    # Whose own mail it is, by what they have chosen; None: the team's.
    owner = models.OneToOneField(
        User, null=True, on_delete=models.CASCADE, related_name="notification_channel"
    )
    least = models.CharField(max_length=10, choices=Severity, default=Severity.INFO)
    kinds: Json[list[str]] = models.JSONField(default=list)  # []: all
    is_enabled = models.BooleanField(default=True)
    created_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)

    # Of the newest sending, and of signs of life.
    tried_at = models.DateTimeField(null=True)
    delivered_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True)  # of the newest; "": it was taken

    objects = NotificationChannelQuerySet.as_manager()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def keep(self, address: str, key: str, hint: str) -> None:
        """Set the address, and what it may be called on a page. The caller saves."""
        self.sealed_address, self.hint = seal_text(address), hint[:200]
        self.sealed_key = seal_text(key) if key else None

    @property
    def address(self) -> str:
        """Raises SecretError. Never shown: only who sends has a use for it."""
        return unseal_text(bytes(self.sealed_address), f"The address of {self.name}")

    @property
    def key(self) -> str:
        """Raises SecretError."""
        if self.sealed_key is None:
            return ""
        return unseal_text(bytes(self.sealed_key), f"The key of {self.name}")

    def wants(self, alert: Alert) -> bool:
        return (
            self.is_enabled
            and self.kind != ChannelKind.PING
            and self.box_id in (None, alert.box_id)
            and _ORDER.index(alert.severity) >= _ORDER.index(self.least)
            and (not self.kinds or alert.kind in self.kinds)
        )


class What(models.TextChoices):
    RAISED = "raised"
    WORSE = "worse"
    CLEARED = "cleared"
    TEST = "test"


class NotificationQuerySet(models.QuerySet["Notification"]):
    def unsent(self) -> Self:
        return self.filter(delivered_at=None, gave_up_at=None)

    def recently_given_up(self) -> Self:
        """What was given up lately, of alerts that nobody has put an end to."""
        lately = self.filter(gave_up_at__gt=timezone.now() - PATIENCE, delivered_at=None)
        return lately.filter(alert__cleared_at=None, what__in=(What.RAISED, What.WORSE))


class Notification(models.Model):
    """One message to one channel. Its row is made with the alert's, so that none is sent twice."""

    What = What

    alert = models.ForeignKey(  # None: a test
        Alert, null=True, on_delete=models.CASCADE, related_name="notifications"
    )
    channel = models.ForeignKey(
        NotificationChannel, on_delete=models.CASCADE, related_name="notifications"
    )
    what = models.CharField(max_length=10, choices=What)
    asked_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    made_at = models.DateTimeField(default=timezone.now)
    tries = models.PositiveIntegerField(default=0)
    # When it is due. Moved on before each try: whoever moves it is the one who sends.
    next_try_at = models.DateTimeField(default=timezone.now, db_index=True)
    delivered_at = models.DateTimeField(null=True)
    gave_up_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True)  # of the newest try

    objects = NotificationQuerySet.as_manager()

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["alert", "channel", "what"], name="one_notification_an_alert_and_channel"
            )
        ]

    def __str__(self) -> str:
        return f"{self.what} to {self.channel_id}"

    @property
    def is_over(self) -> bool:
        return bool(self.delivered_at or self.gave_up_at)

    def claim(self, until: Any) -> bool:
        """Whether this caller is the one who sends it now."""
        mine = type(self).objects.unsent().filter(pk=self.pk, next_try_at=self.next_try_at)
        return mine.update(next_try_at=until, tries=models.F("tries") + 1) == 1


_FAILURES = (AlertKind.FAILED, AlertKind.DIED, AlertKind.UNHEALTHY)


class NotificationTopic(models.TextChoices):
    """Beside these, "box:SLUG" is every alert of a box."""

    STARTS = "starts", "My starts that become ready"
    FAILURES = "failures", "My servers that fail or are unhealthy"
    CRITICAL = "critical", "Every critical alert"


def list_usual_topics() -> list[str]:
    return [NotificationTopic.STARTS, NotificationTopic.FAILURES]


class NotificationChoices(models.Model):
    person = models.OneToOneField(
        User, on_delete=models.CASCADE, related_name="notification_choices"
    )
    browser: Json[list[str]] = models.JSONField(default=list_usual_topics)
    mail: Json[list[str]] = models.JSONField(default=list)
    address = models.EmailField(blank=True)

    def __str__(self) -> str:
        return f"notifications of {self.person}"


def find_choices(person: User) -> NotificationChoices:
    """Unsaved where the person has chosen nothing yet."""
    found = NotificationChoices.objects.filter(person=person).first()
    return found or NotificationChoices(person=person)


def is_wanted(alert: Alert, person: User, topics: Collection[str]) -> bool:
    if f"box:{alert.box.slug}" in topics:
        return True
    if NotificationTopic.CRITICAL in topics and alert.severity == Severity.CRITICAL:
        return True
    if alert.run is None or alert.run.started_by_id != person.pk:
        return False
    if alert.kind == AlertKind.READY:
        return NotificationTopic.STARTS in topics
    return NotificationTopic.FAILURES in topics and alert.kind in _FAILURES


class DismissalQuerySet(models.QuerySet["Dismissal"]):
    def for_person(self, person: User) -> Self:
        return self.filter(by=person)


class Dismissal(models.Model):
    """Of one notice, until it comes anew; for this person only, unlike an acknowledged alert."""

    by = models.ForeignKey(User, on_delete=models.CASCADE, related_name="dismissals")
    mark = models.CharField(max_length=300)  # judge.alerts.attention.Notice.mark
    at = models.DateTimeField(default=timezone.now)

    objects = DismissalQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["by", "mark"], name="one_dismissal_a_notice")
        ]

    def __str__(self) -> str:
        return f"{self.mark} by {self.by_id}"
