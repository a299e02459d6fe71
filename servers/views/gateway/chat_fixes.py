"""A flag that chats with a server go without, added to its profile."""

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_POST

from servers.lifecycle.external import guard
from servers.lifecycle.profiles import features
from servers.models import Permission, Server
from servers.templatetags.launches import change_words
from servers.views.access import PersonRequest, allow
from servers.views.profiles.profiles import find, save_launch


@require_POST
@allow(Permission.OPERATE)
def chat_fix(request: PersonRequest, slug: str, key: str) -> HttpResponse:
    """Save the fix as the profile's newest version. What runs goes on as it is."""
    shown = Server.objects.select_related("profile__current", "box", "run")
    server = get_object_or_404(shown, slug=slug, removed_at=None)
    guard.check(server)
    profile = find(request, server.profile.slug)
    lack = next((each for each in features.now(server) if each.key == key), None)
    if lack is None:
        messages.info(request, f"{profile} has it already. Restart {server}, and it counts.")
        return redirect("profile", slug=profile.slug)
    if lack.fix is None:
        raise Http404(f"{lack.says} Edit the profile.")
    words = change_words(lack.fix)
    launch = lack.fix.apply(profile.launch)
    version = save_launch(request, profile, launch, message=f"Fix: {words}", action="apply fix")
    messages.success(
        request,
        f"Saved as version {version.number}: {words}. It counts when {server} is restarted.",
    )
    return redirect("profile", slug=profile.slug)
