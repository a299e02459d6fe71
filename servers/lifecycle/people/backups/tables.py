"""Tables of a backup: what people have set, nothing that was only observed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db.models import Field, Model, QuerySet

from servers.models import (
    Box,
    ChatMessage,
    Conversation,
    EnvironmentGroup,
    EnvironmentVersion,
    Key,
    LegacyPort,
    NotificationChannel,
    NotificationChoices,
    Preset,
    Profile,
    ProfileVersion,
    PromptSet,
    RegistryCredential,
    Secret,
    Server,
    User,
)


@dataclass(frozen=True, kw_only=True)
class Table:
    name: str  # in the file; stays when the model's changes
    one: str  # for people: "1 profile"
    several: str
    model: type[Model]
    leaves: frozenset[str] = frozenset()  # columns that are not kept
    sealed: tuple[str, ...] = ()  # columns with secrets, which are kept under the passphrase alone
    later: tuple[str, ...] = ()  # that name a row of a table further below
    many: tuple[str, ...] = ()
    rows: Callable[["QuerySet[Any]"], "QuerySet[Any]"] = lambda found: found

    def format_count(self, count: int) -> str:
        return f"{count} {self.one if count == 1 else self.several}"

    @property
    def columns(self) -> "dict[str, Field[Any, Any]]":
        """By the name that rows have them under: a key's is of the row that it names."""
        left = {*self.leaves, *self.sealed}
        fields = self.model._meta.concrete_fields
        return {field.attname: field for field in fields if field.name not in left}

    def all(self) -> "QuerySet[Any]":
        return self.rows(self.model._default_manager.order_by("pk"))


_SEEN_OF_A_BOX = frozenset(
    {"seen_at", "boot_id", "booted_at", "facts", "memory_best", "left_behind"}
)

# In the order in which rows can be written: what is named comes first.
TABLES = (
    Table(
        name="people", one="person", several="people", model=User, leaves=frozenset({"last_login"})
    ),
    Table(name="secrets", one="secret", several="secrets", model=Secret, sealed=("sealed",)),
    Table(name="boxes", one="box", several="boxes", model=Box, leaves=_SEEN_OF_A_BOX),
    Table(
        name="environment_groups",
        one="environment group",
        several="environment groups",
        model=EnvironmentGroup,
        later=("current",),
    ),
    Table(
        name="environment_versions",
        one="version of it",
        several="versions of them",
        model=EnvironmentVersion,
    ),
    Table(
        name="profiles",
        one="profile",
        several="profiles",
        model=Profile,
        later=("current",),
        many=("fans",),
    ),
    Table(
        name="profile_versions",
        one="version of it",
        several="versions of them",
        model=ProfileVersion,
    ),
    Table(
        name="servers",
        one="server",
        several="servers",
        model=Server,
        leaves=frozenset({"run", "removed_at"}),
        many=("fans",),
        rows=lambda found: found.filter(removed_at=None),
    ),
    Table(name="presets", one="preset", several="presets", model=Preset),
    Table(
        name="conversations",
        one="conversation",
        several="conversations",
        model=Conversation,
        rows=lambda found: found.filter(deleted_at=None),
    ),
    Table(
        name="messages",
        one="message",
        several="messages",
        model=ChatMessage,
        rows=lambda found: found.filter(conversation__deleted_at=None),
    ),
    Table(name="prompt_sets", one="set of prompts", several="sets of prompts", model=PromptSet),
    Table(
        name="old_ports",
        one="legacy port",
        several="legacy ports",
        model=LegacyPort,
        leaves=frozenset({"problem"}),
    ),
    Table(name="keys", one="key", several="keys", model=Key, leaves=frozenset({"used_at"})),
    Table(
        name="outlets",
        one="notification channel",
        several="notification channels",
        model=NotificationChannel,
        sealed=("sealed_address", "sealed_key"),
        leaves=frozenset({"tried_at", "delivered_at", "error"}),
    ),
    Table(
        name="notification_choices",
        one="choice of notifications",
        several="choices of notifications",
        model=NotificationChoices,
    ),
    Table(
        name="registries",
        one="registry credential",
        several="registry credentials",
        model=RegistryCredential,
        sealed=("sealed",),
        leaves=frozenset({"tested_at", "test_wanted_at", "tested_on", "error"}),
    ),
)

BY_NAME = {table.name: table for table in TABLES}

# Models that no backup keeps, and why. A test holds that every model is here or above.
LEFT_OUT = {
    "ActiveUser": "history",
    "Alert": "history",
    "AuditEntry": "history",
    "BoxObservation": "seen again",
    "Capture": "a time in which words are kept, which is over by itself",
    "CapturedCall": "what people asked, which is to be gone after a week",
    "CheckpointFacts": "seen again",
    "Claim": "over by itself within days, and of GPUs of this box",
    "Dismissal": "of what is the matter now",
    "Download": "goes on where its files are",
    "ExternalEngine": "seen again",
    "FiguresChunk": "history",
    "HistoryChunk": "history",
    "HostResources": "seen again",
    "ImageFacts": "seen again",
    "ImageInventory": "seen again",
    "ImageJob": "history",
    "Job": "history",
    "Invite": "links that work for three days",
    "JobLog": "logs",
    "LogChunk": "logs",
    "LoginFailure": "history",
    "ModelInventory": "seen again",
    "Notification": "history",
    "OtherWorkloads": "seen again",
    "ProfileImport": "made again",
    "PromptAnswer": "history",
    "PromptRun": "history",
    "Reboot": "history",
    "Request": "history",
    "Run": "history",
    "RunHealth": "history",
    "RunLog": "logs",
    "RunPlan": "history",
    "RunStart": "history",
    "StoredCheckpoint": "seen again",
    "StoredImage": "seen again",
    "TagChecks": "seen again",
    "TagNews": "seen again",
    "Usage": "history",
}
