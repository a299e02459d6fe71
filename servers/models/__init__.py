"""The tables."""

from servers.models.action import Action
from servers.models.alert import Alert
from servers.models.audit import AuditEntry
from servers.models.boot import Reboot
from servers.models.box import Box
from servers.models.capture import Capture, CapturedCall
from servers.models.checkpoint import CheckpointFacts
from servers.models.claim import Claim
from servers.models.conversation import ChatMessage, Conversation
from servers.models.download import Download
from servers.models.environment import EnvironmentGroup, EnvironmentVersion
from servers.models.history import FiguresChunk, HistoryChunk
from servers.models.image import ImageFacts
from servers.models.imagejob import ImageJob, JobLog
from servers.models.invite import Invite
from servers.models.key import Key
from servers.models.likeness import ProfileImport
from servers.models.log import LogChunk
from servers.models.login import LoginFailure
from servers.models.neighbours import OtherWorkloads
from servers.models.oldport import LegacyPort
from servers.models.outlet import Notification, NotificationChannel
from servers.models.preset import Preset
from servers.models.profile import Profile, ProfileVersion
from servers.models.prompts import PromptAnswer, PromptRun, PromptSet
from servers.models.registry import RegistryCredential
from servers.models.request import Request
from servers.models.role import Permission, Role
from servers.models.run import Run
from servers.models.secret import Secret
from servers.models.server import Server
from servers.models.shelf import ImageInventory, StoredImage, TagNews
from servers.models.sighting import ExternalEngine
from servers.models.stock import ModelInventory, StoredCheckpoint
from servers.models.supplies import HostResources
from servers.models.usage import Usage
from servers.models.use import ActiveUser
from servers.models.user import User

__all__ = [
    "Action",
    "Alert",
    "Reboot",
    "Box",
    "Capture",
    "CheckpointFacts",
    "Claim",
    "Conversation",
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
    "JobLog",
    "Key",
    "ProfileImport",
    "LogChunk",
    "LoginFailure",
    "ChatMessage",
    "OtherWorkloads",
    "LegacyPort",
    "NotificationChannel",
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
    "Secret",
    "Server",
    "ImageInventory",
    "ExternalEngine",
    "ModelInventory",
    "StoredCheckpoint",
    "StoredImage",
    "HostResources",
    "TagNews",
    "Usage",
    "ActiveUser",
    "User",
]
