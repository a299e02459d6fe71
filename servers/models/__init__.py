from servers.models.action import Action
from servers.models.audit import Entry
from servers.models.box import Box
from servers.models.checkpoint import CheckpointFacts
from servers.models.environment import EnvironmentGroup, EnvironmentVersion
from servers.models.history import HistoryChunk
from servers.models.image import ImageFacts
from servers.models.invite import Invite
from servers.models.log import LogChunk
from servers.models.login import LoginFailure
from servers.models.profile import Profile, ProfileVersion
from servers.models.run import Run
from servers.models.secret import Secret
from servers.models.server import Server
from servers.models.supplies import Supplies
from servers.models.user import Role, User

__all__ = [
    "Action",
    "Box",
    "CheckpointFacts",
    "Entry",
    "EnvironmentGroup",
    "EnvironmentVersion",
    "HistoryChunk",
    "ImageFacts",
    "Invite",
    "LogChunk",
    "LoginFailure",
    "Profile",
    "ProfileVersion",
    "Role",
    "Run",
    "Secret",
    "Server",
    "Supplies",
    "User",
]
