"""The door for what a guide says: a pasted command becomes the profile form, filled in."""

import re
from typing import cast

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from servers.commandline.command import Command, EngineKey, PasteError
from servers.commandline.draft import Draft, DraftError, UnknownEngineError, draft, fill
from servers.commandline.read import read
from servers.engines import ENGINES, choices
from servers.forms.profile import ProfileForm
from servers.forms.profile_values import initial
from servers.models import Box, Role, User
from servers.recipes import document as documents
from servers.recipes.document import Document
from servers.recipes.mapping import DocumentError
from servers.views.access import allow
from servers.views.profile_form import of_document

# Both stand at the beginning of a line in every profile's YAML, and together nowhere else.
_OWN = re.compile(r"(?ms)\A(?=.*^\s*\"?engine\"?:)(?=.*^\s*\"?checkpoint\"?:)")

# Of a remark's kind, in the order in which a person should read them.
HEADINGS = {
    "unresolved": "To fill in",
    "trusts": "What you trust",
    "assumed": "What was assumed",
    "ignored": "What was left out",
}


@require_http_methods(["GET", "POST"])
@allow(Role.EDITOR)
def profile_paste(request: HttpRequest) -> HttpResponse:
    """Nothing is kept between the steps but what the page sends again: the text itself."""
    text = request.POST.get("text", "")
    context: dict[str, object] = {"text": text}
    if request.method == "POST":
        try:
            if (document := _document(text)) is not None:
                return _form_of_document(request, document)
            commands = read(text)
            chosen = _chosen(request, commands)
            if chosen is not None and not _asks(request, chosen, context):
                return _filled_form(request, _draft(request, chosen, text))
            context |= {"commands": commands, "choice": request.POST.get("choice", "")}
        except PasteError as error:
            context |= {"error": str(error), "line": _line(text, error.line)}
        except UnknownEngineError as error:
            context |= {"error": str(error), "engines": choices()}
        except (DraftError, DocumentError) as error:
            context |= {"error": str(error)}
    return render(request, "profiles/paste.html", context)


def _document(text: str) -> Document | None:
    """A profile in inferdash's own YAML or JSON; None for everything else.

    Raises DocumentError for one with a mistake in it.
    """
    return documents.read(text, where="The paste") if _OWN.search(text) else None


def _form_of_document(request: HttpRequest, found: Document) -> HttpResponse:
    form = ProfileForm(person=cast(User, request.user), initial=of_document(found, found.launch))
    return render(
        request,
        "profiles/form.html",
        {"form": form, "has_box": Box.objects.exists(), "remarks": []},
    )


def _draft(request: HttpRequest, command: Command, text: str) -> Draft:
    said = request.POST.get("engine", "")
    engine = cast(EngineKey, said) if said in ENGINES else None
    return draft(fill(command, _values(request, command)), text=text, engine=engine)


def _chosen(request: HttpRequest, commands: list[Command]) -> Command | None:
    if len(commands) == 1:
        return commands[0]
    choice = request.POST.get("choice", "")
    at = int(choice) if choice.isdecimal() and len(choice) < 5 else len(commands)
    return commands[at] if at < len(commands) else None


def _asks(request: HttpRequest, command: Command, context: dict[str, object]) -> bool:
    """Whether the page is to ask for values first; once, as some may stay open."""
    if not command.unresolved or "asked" in request.POST:
        return False
    context["unresolved"] = command.unresolved
    return True


def _values(request: HttpRequest, command: Command) -> dict[str, str]:
    return {name: request.POST.get(f"value-{name}", "").strip() for name in command.unresolved}


def _filled_form(request: HttpRequest, made: Draft) -> HttpResponse:
    values = initial(made.launch, secrets=made.secrets)
    form = ProfileForm(
        person=cast(User, request.user), initial={"name": made.name, **values, "message": ""}
    )
    remarks = [
        (heading, said)
        for kind, heading in HEADINGS.items()
        if (said := [remark.says for remark in made.remarks if remark.kind == kind])
    ]
    return render(
        request,
        "profiles/form.html",
        {"form": form, "has_box": Box.objects.exists(), "remarks": remarks},
    )


def _line(text: str, number: int) -> str:
    lines = text.splitlines()
    return lines[number - 1].strip()[:200] if number <= len(lines) else ""
