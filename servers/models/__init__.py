"""The tables."""

from servers.models.action import Action
from servers.models.alert import Alert
from servers.models.audit import Entry
from servers.models.boot import Boot
from servers.models.box import Box
from servers.models.capture import Capture, Exchange
from servers.models.checkpoint import CheckpointFacts
from servers.models.claim import Claim
from servers.models.conversation import Conversation, Message
from servers.models.download import Download
from servers.models.environment import EnvironmentGroup, EnvironmentVersion
from servers.models.history import FiguresChunk, HistoryChunk
from servers.models.image import ImageFacts
from servers.models.imagejob import ImageJob, JobLog
from servers.models.invite import Invite
from servers.models.key import Key
from servers.models.likeness import Likeness
from servers.models.log import LogChunk
from servers.models.login import LoginFailure
from servers.models.neighbours import Neighbours
from servers.models.oldport import OldPort
from servers.models.outlet import Delivery, Outlet
from servers.models.preset import Preset
from servers.models.profile import Profile, ProfileVersion
from servers.models.prompts import PromptSet, Round, RoundAnswer
from servers.models.registry import RegistryLogin
from servers.models.request import Request
from servers.models.role import Permission, Role
from servers.models.run import Run
from servers.models.secret import Secret
from servers.models.server import Server
from servers.models.shelf import Shelf, StoredImage, TagNews
from servers.models.sighting import Sighting
from servers.models.stock import Stock, StoredCheckpoint
from servers.models.supplies import Supplies
from servers.models.usage import Usage
from servers.models.use import Use
from servers.models.user import User

__all__ = [
    "Action",
    "Alert",
    "Boot",
    "Box",
    "Capture",
    "CheckpointFacts",
    "Claim",
    "Conversation",
    "Delivery",
    "Download",
    "Entry",
    "EnvironmentGroup",
    "EnvironmentVersion",
    "Exchange",
    "FiguresChunk",
    "HistoryChunk",
    "ImageFacts",
    "ImageJob",
    "Invite",
    "JobLog",
    "Key",
    "Likeness",
    "LogChunk",
    "LoginFailure",
    "Message",
    "Neighbours",
    "OldPort",
    "Outlet",
    "Preset",
    "Profile",
    "ProfileVersion",
    "PromptSet",
    "RegistryLogin",
    "Request",
    "Permission",
    "Role",
    "Round",
    "RoundAnswer",
    "Run",
    "Secret",
    "Server",
    "Shelf",
    "Sighting",
    "Stock",
    "StoredCheckpoint",
    "StoredImage",
    "Supplies",
    "TagNews",
    "Usage",
    "Use",
    "User",
]
