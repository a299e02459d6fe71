"""A profile taken along: as docker run, as a compose file, as YAML or JSON."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

import yaml
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from servers.commandline import export
from servers.engines.change import without_flags
from servers.engines.engine import SECRET_FLAGS
from servers.engines.launch import Launch
from servers.models import Profile, Role
from servers.recipes import document
from servers.recipes.document import Document
from servers.views.access import allow
from servers.views.profiles import find


@dataclass(frozen=True, kw_only=True)
class Form:
    title: str
    suffix: str
    content_type: str
    write: Callable[[Profile, Launch], str]


def _yaml(profile: Profile, launch: Launch) -> str:
    return document.write(_document(profile, launch))


def _json(profile: Profile, launch: Launch) -> str:
    # The same keys as in YAML, of which JSON is a part.
    return json.dumps(yaml.safe_load(_yaml(profile, launch)), ensure_ascii=False, indent=2) + "\n"


FORMS = {
    "docker": Form(
        title="docker run",
        suffix="sh",
        content_type="text/x-shellscript",
        write=lambda profile, launch: export.docker_run(launch, name=profile.slug),
    ),
    "compose": Form(
        title="compose file",
        suffix="compose.yaml",
        content_type="application/yaml",
        write=lambda profile, launch: export.compose(launch, name=profile.slug),
    ),
    "yaml": Form(title="YAML", suffix="yaml", content_type="application/yaml", write=_yaml),
    "json": Form(title="JSON", suffix="json", content_type="application/json", write=_json),
}


@require_GET
@allow(Role.VIEWER)
def profile_export(request: HttpRequest, slug: str, form: str) -> HttpResponse:
    """On a page to read and copy, or with ?download as a file."""
    if form not in FORMS:
        raise Http404(f"A profile cannot be exported as {form}.")
    found, chosen = find(request, slug), FORMS[form]
    text = chosen.write(found, _without_keys(found.launch))
    if "download" in request.GET:
        answer = HttpResponse(text, content_type=f"{chosen.content_type}; charset=utf-8")
        name = f"{found.slug}.{chosen.suffix}"
        answer["Content-Disposition"] = f'attachment; filename="{name}"'
        return answer
    return render(
        request,
        "profiles/export.html",
        {
            "profile": found,
            "text": text,
            "chosen": form,
            "forms": FORMS,
            "secrets": sorted(found.launch.secret_env),
        },
    )


def _without_keys(launch: Launch) -> Launch:
    """Keys among the flags stay here, as the values of secrets do."""
    return replace(launch, flags=without_flags(launch.flags, tuple(SECRET_FLAGS)))


def _document(profile: Profile, launch: Launch) -> Document:
    return Document(
        name=profile.name,
        notes=profile.notes,
        source=document.Source(url=profile.source),
        tags=tuple(profile.tag_list),
        secrets=tuple(sorted(launch.secret_env)),
        launch=replace(launch, secret_env={}),
    )
