"""The door for what a guide says: a pasted command becomes the profile form, filled in."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import cast

from asgiref.sync import sync_to_async
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from servers.contexts.profiles.import_summary import summarise_document, summarise_draft
from servers.forms.profile import ProfileForm
from servers.forms.profile_values import initial
from servers.launch.commandline.draft import Draft, DraftError, UnknownEngineError, draft
from servers.launch.commandline.environment_draft import HF_TOKENS
from servers.launch.commandline.import_notes import ImportNote
from servers.launch.commandline.inspect import without_keys
from servers.launch.commandline.paste import read
from servers.launch.commandline.tokens import (
    EngineKey,
    LaunchCommand,
    PasteError,
    fill_placeholders,
)
from servers.launch.engines import ENGINES, choices
from servers.launch.recipes import document as documents
from servers.launch.recipes import vllm_project
from servers.launch.recipes.document import Document
from servers.launch.recipes.mapping import DocumentError
from servers.models import Box, Permission, Run
from servers.views.access import PersonRequest, allow
from servers.views.profiles.profile_form import find_free_name, of_document, render_form
from servers.views.threads import run_apart

# Both stand at the beginning of a line in every profile's YAML, and together nowhere else.
_OWN = re.compile(r"(?ms)\A(?=.*^\s*\"?engine\"?:)(?=.*^\s*\"?checkpoint\"?:)")
# The three that every model file of github.com/vllm-project/recipes has.
_OF_VLLM_PROJECT = re.compile(r"(?ms)\A(?=.*^meta:)(?=.*^model:)(?=.*^variants:)")
_GENERATIONS = {"9": "hopper", "10": "blackwell", "12": "blackwell"}


@require_http_methods(["GET", "POST"])
@allow(Permission.EDIT)
async def profile_paste(request: PersonRequest) -> HttpResponse:
    """Nothing is kept between the steps but what the page sends again: the text itself."""
    text = request.POST.get("text", "")
    context: dict[str, object] = {"text": text}
    if request.method == "POST":
        try:
            found = await run_apart(_read_paste, text, await sync_to_async(_largest_group)())
            chosen = _find_chosen(request, found)
            if isinstance(chosen, Document):
                return await sync_to_async(_form_of_document)(request, chosen)
            # What has been answered on an earlier page stays on each one after it.
            context |= {
                "candidates": [_name_candidate(each) for each in found],
                "choice": request.POST.get("choice", ""),
                "engine": request.POST.get("engine", ""),
            }
            if chosen is not None and not _asks(request, chosen, context):
                made = await run_apart(_draft, request, chosen, text)
                return await sync_to_async(_filled_form)(request, chosen, made)
        except PasteError as error:
            context |= {"error": str(error), "line": _line(text, error.line)}
        except UnknownEngineError as error:
            says = f"{error} Other takes any program as it is."
            context |= {"error": says, "engines": choices()}
        except (DraftError, DocumentError) as error:
            # Who named the wrong engine may name another one.
            context |= {"error": str(error), "engines": choices() if context.get("engine") else ()}
    return await sync_to_async(render)(request, "profiles/paste.html", context)


def _read_paste(text: str, group: tuple[int, str]) -> Sequence[LaunchCommand | Document]:
    return _documents(text, group) or read(text)


def _documents(text: str, group: tuple[int, str]) -> tuple[Document, ...]:
    """Profiles in inferdash's own YAML or JSON, or the variants of a model file of vLLM's recipes.

    Nothing for everything else. Raises DocumentError for one with a mistake in it.
    """
    if _OWN.search(text):
        return (documents.read(text, where="The paste"),)
    if not _OF_VLLM_PROJECT.search(text):
        return ()
    gpus, generation = group
    return vllm_project.documents(text, where="The paste", gpus=gpus, generation=generation)


def _largest_group() -> tuple[int, str]:
    """How many equal GPUs the best equipped box has, and what vLLM's recipes call them."""
    best: tuple[int, str] = (1, "")
    for box in Box.objects.all():
        capabilities = Counter(card["compute_capability"] or "" for card in box.gpus or [])
        for capability, count in capabilities.items():
            generation = _GENERATIONS.get(capability.partition(".")[0], "")
            best = max(best, (count, generation))
    return best


def _name_candidate(each: LaunchCommand | Document) -> tuple[str, str]:
    """How a candidate is called in the question which one is meant."""
    if isinstance(each, Document):
        return each.name, " ".join(each.launch.flags)
    name = each.name or each.service or each.image or "engine command"
    return name, " ".join(each.command)


def _form_of_document(request: PersonRequest, found: Document) -> HttpResponse:
    form = ProfileForm(person=request.user, initial=of_document(found, found.launch))
    return render_form(request, form, imported=summarise_document(found))


def _draft(request: PersonRequest, command: LaunchCommand, text: str) -> Draft:
    said = request.POST.get("engine", "")
    engine = cast(EngineKey, said) if said in ENGINES else None
    return without_keys(
        draft(fill_placeholders(command, _values(request, command)), text=text, engine=engine)
    )


def _find_chosen(
    request: PersonRequest, found: Sequence[LaunchCommand | Document]
) -> LaunchCommand | Document | None:
    if len(found) == 1:
        return found[0]
    choice = request.POST.get("choice", "")
    at = int(choice) if choice.isdecimal() and len(choice) < 5 else len(found)
    return found[at] if at < len(found) else None


def _asks(request: PersonRequest, command: LaunchCommand, context: dict[str, object]) -> bool:
    """Whether the page is to ask for values first; once, as some may stay open."""
    # The box has a Hugging Face token of its own.
    unresolved = [name for name in command.unresolved if name not in HF_TOKENS]
    values = _values(request, command)
    context["unresolved"] = [(name, values[name]) for name in unresolved]
    return bool(unresolved) and "asked" not in request.POST


def _values(request: PersonRequest, command: LaunchCommand) -> dict[str, str]:
    return {name: request.POST.get(f"value-{name}", "").strip() for name in command.unresolved}


def _filled_form(request: PersonRequest, command: LaunchCommand, made: Draft) -> HttpResponse:
    values = initial(made.launch, secrets=made.secrets)
    form = ProfileForm(person=request.user, initial={"name": find_free_name(made.name), **values})
    image, further = made.launch.image, list[ImportNote]()
    if not Run.objects.filter(version__spec__image=image, ready_at__isnull=False).exists():
        says = f"The image {image}, which has never served anything here."
        further.append(ImportNote(kind="trusts", says=says))
    return render_form(
        request,
        form,
        imported=summarise_draft(command, made, further),
        pasted=request.POST.get("text", ""),
        pasted_engine=request.POST.get("engine", ""),
    )


def _line(text: str, number: int) -> str:
    lines = text.splitlines()
    return lines[number - 1].strip()[:200] if number <= len(lines) else ""
