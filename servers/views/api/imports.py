"""Imports of profiles: YAML or JSON of inferdash, a docker run line, a compose file."""

import re
from dataclasses import dataclass, fields, replace
from typing import cast

from django.http import HttpRequest
from django.urls import reverse

from servers.launch.commandline import export
from servers.launch.commandline.draft import Draft, DraftError, UnknownEngineError, draft
from servers.launch.commandline.inspect import without_keys
from servers.launch.commandline.lines import LAUNCH
from servers.launch.commandline.paste import read as read_commands
from servers.launch.commandline.tokens import EngineKey, LaunchCommand, PasteError
from servers.launch.engines.launch import Launch
from servers.launch.recipes import document
from servers.launch.recipes.document import Document
from servers.launch.recipes.notation import DocumentError
from servers.lifecycle.profiles.export_all import without_keys as without_secrets
from servers.views.api.operations import ApiError
from servers.views.profiles import profiles

UNPROCESSABLE = 422
_SERVICES = re.compile(r"(?m)^\s*[\"']?services[\"']?\s*:")
_COMMAND = re.compile(rf"(?m)^\s*(?:[$#>]\s+)?(?:sudo\s+)?(?:{LAUNCH.pattern})")


@dataclass(frozen=True, kw_only=True)
class Import:
    """A document, or the draft of a command."""

    found: Document | Draft

    @property
    def remarks(self) -> list[str]:
        """What was assumed and left out, a sentence each, as the form of a browser says it."""
        if isinstance(self.found, Document):
            return []
        said = (each.says for each in self.found.remarks)
        return [each.replace("he paste", "he file") for each in said]


@dataclass(frozen=True, kw_only=True)
class Replacement:
    """The next version of a profile."""

    launch: Launch
    remarks: list[str]
    missing: list[str]  # secrets that the profile does not have


def read(text: str, page: str, engine: EngineKey | None = None) -> Import:
    """`page` is the address where a browser asks what is left open; `engine` is what an image has
    in it whose name does not say so. Raises ApiError."""
    try:
        if _SERVICES.search(text) or _COMMAND.search(text):
            return Import(found=_draft(text, page, engine))
        return Import(found=document.read(text, where="The document"))
    except DocumentError as error:
        raise _refuse(str(error), "Change the document.") from error
    except PasteError as error:
        raise _refuse(
            f"Line {error.line}: {error.reason}",
            "Change it, or import profiles as YAML: inferdash profile export writes it.",
        ) from error
    except UnknownEngineError as error:
        raise _refuse(str(error), f"{page} asks which engine it is.") from error
    except DraftError as error:
        raise _refuse(str(error), f"{page} takes other programs.") from error


def read_upon(kept: Launch, text: str, page: str) -> Replacement:
    """As read(). What a docker run line or a compose file says like an export of the profile stays
    as the profile has it: parameters, GPUs by their name, and all that Docker has no words for."""
    engine = cast(EngineKey, kept.engine)
    imported = read(text, page, engine)
    made = imported.found
    if isinstance(made, Document):
        launch = profiles.with_secrets(made.launch, kept)
        return Replacement(launch=launch, remarks=[], missing=[])
    exported = _draft(export.docker_run(without_secrets(kept)), page, engine)
    usual = exported.launch
    same = {
        each.name: getattr(kept, each.name)
        for each in fields(Launch)
        if getattr(made.launch, each.name) == getattr(usual, each.name)
    }
    known = Import(found=exported).remarks
    return Replacement(
        launch=profiles.with_secrets(replace(made.launch, **same), kept),
        remarks=[each for each in imported.remarks if each not in known],
        missing=[name for name in made.secrets if name not in kept.secret_env],
    )


def page(request: HttpRequest) -> str:
    return request.build_absolute_uri(reverse("profile_paste"))


def _draft(text: str, page: str, engine: EngineKey | None) -> Draft:
    found = read_commands(text)
    if len(found) > 1:
        names = ", ".join(_name(each) for each in found)
        raise _refuse(f"It starts {len(found)}: {names}.", f"Leave one in it, or choose on {page}")
    return without_keys(draft(found[0], text=text, engine=engine))


def _name(command: LaunchCommand) -> str:
    return command.name or command.service or command.image or "an engine without a container"


def _refuse(message: str, advice: str) -> ApiError:
    return ApiError(UNPROCESSABLE, "invalid", message, advice)
