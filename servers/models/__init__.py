"""The tables."""

from servers.models.alerts import (
    Alert,
    Dismissal,
    Notification,
    NotificationChannel,
    NotificationChoices,
)
from servers.models.box import Box, BoxObservation, Reboot
from servers.models.external import ExternalEngine, OtherWorkloads, ProfileImport
from servers.models.gateway.capture import Capture, CapturedCall
from servers.models.gateway.conversation import (
    ChatMessage,
    Conversation,
    PromptAnswer,
    PromptRun,
    PromptSet,
)
from servers.models.gateway.request import LegacyPort, Request, Usage
from servers.models.images import (
    ImageFacts,
    ImageInventory,
    RegistryCredential,
    StoredImage,
    TagChecks,
    TagNews,
)
from servers.models.jobs import Download, ImageJob, Job, JobLog
from servers.models.logs import LogChunk
from servers.models.memory import FiguresChunk, HistoryChunk, HostResources
from servers.models.people.claim import Claim
from servers.models.people.key import Key, Secret
from servers.models.people.user import AuditEntry, Invite, LoginFailure, Permission, Role, User
from servers.models.profiles import (
    EnvironmentGroup,
    EnvironmentVersion,
    Preset,
    Profile,
    ProfileVersion,
)
from servers.models.runs.run import ActiveUser, Run
from servers.models.runs.run_parts import RunHealth, RunLog, RunPlan, RunStart
from servers.models.runs.server import Server
from servers.models.weights import CheckpointFacts, ModelInventory, StoredCheckpoint

__all__ = [
    "Alert",
    "Reboot",
    "Box",
    "BoxObservation",
    "Capture",
    "CheckpointFacts",
    "Claim",
    "Conversation",
    "Dismissal",
    "Notification",
    "Download",
    "AuditEntry",
    "EnvironmentGroup",
    "EnvironmentVersion",
    "CapturedCall",
    "FiguresChunk",
    "HistoryChunk",
    "ImageFacts",
    "ImageJob",
    "Invite",
    "Job",
    "JobLog",
    "Key",
    "ProfileImport",
    "LogChunk",
    "LoginFailure",
    "ChatMessage",
    "OtherWorkloads",
    "LegacyPort",
    "NotificationChannel",
    "NotificationChoices",
    "Preset",
    "Profile",
    "ProfileVersion",
    "PromptSet",
    "RegistryCredential",
    "Request",
    "Permission",
    "Role",
    "PromptRun",
    "PromptAnswer",
    "Run",
    "RunHealth",
    "RunLog",
    "RunPlan",
    "RunStart",
    "Secret",
    "Server",
    "ImageInventory",
    "ExternalEngine",
    "ModelInventory",
    "StoredCheckpoint",
    "StoredImage",
    "HostResources",
    "TagChecks",
    "TagNews",
    "Usage",
    "ActiveUser",
    "User",
]
