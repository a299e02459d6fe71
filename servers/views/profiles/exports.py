"""A profile taken along: as docker run, as a compose file, as YAML or JSON."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

import yaml
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from servers.launch.commandline import export
from servers.launch.engines.change import split_flags
from servers.launch.engines.engine import SECRET_FLAGS, flag_value
from servers.launch.engines.launch import Launch
from servers.launch.recipes import document
from servers.lifecycle.profiles.exports import document_of, without_keys
from servers.models import Permission, Profile
from servers.views.access import allow
from servers.views.profiles.profiles import find


@dataclass(frozen=True, kw_only=True)
class Form:
    title: str
    suffix: str
    content_type: str
    write: Callable[[Profile, Launch], str]


def _yaml(profile: Profile, launch: Launch) -> str:
    return document.write(document_of(profile, launch))


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
@allow(Permission.VIEW)
def profile_export(request: HttpRequest, slug: str, form: str) -> HttpResponse:
    """On a page to read and copy, or with ?download as a file."""
    if form not in FORMS:
        raise Http404(f"A profile cannot be exported as {form}.")
    found, chosen = find(request, slug), FORMS[form]
    written = text(found, form)
    if "download" in request.GET:
        answer = HttpResponse(written, content_type=f"{chosen.content_type}; charset=utf-8")
        name = f"{found.slug}.{chosen.suffix}"
        answer["Content-Disposition"] = f'attachment; filename="{name}"'
        return answer
    return render(
        request,
        "profiles/export.html",
        {
            "profile": found,
            "text": written,
            "chosen": form,
            "forms": FORMS,
            "secrets": sorted(found.launch.secret_env),
        },
    )


def text(profile: Profile, form: str) -> str:
    """A profile written in one of FORMS."""
    return FORMS[form].write(profile, without_keys(profile.launch))


def with_secrets(written: Launch, kept: Launch) -> Launch:
    """What was written out and read again, with what stays here when it is."""
    keys = [each for each in split_flags(kept.flags) if each[0] in SECRET_FLAGS]
    missing = [each for each in keys if flag_value(written.flags, each[0]) is None]
    words = tuple(word for name, values in missing for word in (name, *values))
    return replace(written, secret_env=kept.secret_env, flags=written.flags + words)
