"""The tables."""

from servers.models.alerts.alert import Alert, Notification, NotificationChannel
from servers.models.alerts.choices import NotificationChoices
from servers.models.alerts.dismissal import Dismissal
from servers.models.benchmarks.benchmark import Benchmark, BenchmarkPoint
from servers.models.box import Box
from servers.models.box_observation import BoxObservation
from servers.models.external.engine import ExternalEngine, OtherWorkloads, ProfileImport
from servers.models.gateway.capture import Capture, CapturedCall
from servers.models.gateway.conversation import (
    ChatMessage,
    Conversation,
    PromptAnswer,
    PromptRun,
    PromptSet,
)
from servers.models.gateway.request import LegacyPort, Request
from servers.models.gateway.usage import Usage
from servers.models.images.image import ImageFacts, RegistryCredential
from servers.models.images.inventory import ImageInventory, StoredImage, TagChecks, TagNews
from servers.models.jobs.job import BenchmarkJob, Download, ImageJob, Job, JobLog
from servers.models.logs.log import LogChunk
from servers.models.memory.history import FiguresChunk, HistoryChunk
from servers.models.memory.host_resources import HostResources
from servers.models.people.audit import AuditEntry
from servers.models.people.claim import Claim
from servers.models.people.key import Key, Secret
from servers.models.people.login import Invite, LoginFailure
from servers.models.people.user import Permission, Role, User
from servers.models.profiles.environment import EnvironmentGroup, EnvironmentVersion
from servers.models.profiles.profile import Preset, Profile, ProfileVersion
from servers.models.runs.active_user import ActiveUser
from servers.models.runs.reboot import Reboot
from servers.models.runs.run import Run
from servers.models.runs.run_parts import RunHealth, RunLog, RunPlan, RunStart
from servers.models.runs.server import Server
from servers.models.weights.inventory import CheckpointFacts, ModelInventory, StoredCheckpoint

__all__ = [
    "Alert",
    "Reboot",
    "Benchmark",
    "BenchmarkJob",
    "BenchmarkPoint",
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
