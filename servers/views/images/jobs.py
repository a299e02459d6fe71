"""The buttons for images: pull, build, move a tag, make room; and how far each of them is.

They write what is wanted; the box's watcher does it, after a look of its own.
"""

from collections.abc import AsyncIterator
from dataclasses import replace

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_POST

from servers.contexts.images import inventory as image_context
from servers.forms.image import PullForm
from servers.judge.images import dockerfile
from servers.judge.logs import parsing
from servers.launch import numbers
from servers.lifecycle.images import build_names, inventory, work
from servers.lifecycle.jobs import commands
from servers.models import Box, ImageInventory, ImageJob, JobLog, Permission, TagNews
from servers.views.access import PersonRequest, allow
from servers.views.images.images import list_jobs, list_tag_updates
from servers.views.profiles.profiles import find, save_launch
from servers.views.responses import respond_done, respond_text, send_file

BUSY = "It is being pulled or moved already: its line on the page of images says how far it is."
_LINES = 2000  # of a log at once


@require_GET
@allow(Permission.VIEW)
def image_jobs(request: PersonRequest) -> HttpResponse:
    """What goes on and what has ended lately; a page asks for it whenever that changes."""
    return render(request, "images/_jobs.html", {"jobs": list_jobs(request.user)})


@require_GET
@allow(Permission.VIEW)
def image_job(request: PersonRequest, pk: int) -> HttpResponse:
    job = _find_job(request, pk)
    context = {"job": job, "jobs_mark": image_context.jobs_mark()}
    return render(request, "images/job.html", context)


@require_GET
@allow(Permission.VIEW)
def image_job_log(request: PersonRequest, pk: int) -> HttpResponse:
    """The lines of a build after a number, and where the next ones are asked for."""
    job = _find_job(request, pk)
    after_number = numbers.whole(request.GET.get("after", "")) or 0
    lines: list[tuple[int, str]] = []
    begun = JobLog.objects.filter(job=job, first__lte=after_number + 1).last()
    for piece in JobLog.objects.filter(job=job, first__gte=begun.first if begun else 0):
        numbered = list(enumerate(piece.text.split("\n"), start=piece.first))
        lines += [each for each in numbered if each[0] > after_number]
        if len(lines) > _LINES:
            break
    return render(
        request,
        "images/_log.html",
        {
            "job": job,
            "lines": lines[:_LINES],
            "after": lines[:_LINES][-1][0] if lines else after_number,
            "has_more": len(lines) > _LINES,
        },
    )


@require_GET
@allow(Permission.VIEW)
def image_job_text(request: PersonRequest, pk: int) -> StreamingHttpResponse:
    """`?raw` keeps what a terminal would obey."""
    job = _find_job(request, pk)
    text = _log_of(job, is_raw="raw" in request.GET)
    return send_file(f"build-{job.pk}.log", text, "text/plain; charset=utf-8")


async def _log_of(job: ImageJob, *, is_raw: bool) -> AsyncIterator[str]:
    async for piece in JobLog.objects.filter(job=job).aiterator():
        yield f"{piece.text if is_raw else parsing.safe(piece.text)}\n"


def _find_job(request: PersonRequest, pk: int) -> ImageJob:
    seen = ImageJob.objects.seen_by(request.user)
    return get_object_or_404(seen.select_related("box", "asked_by", "version__profile"), pk=pk)


@require_POST
@allow(Permission.EDIT)
def image_pull(request: PersonRequest) -> HttpResponse:
    box = get_object_or_404(Box, slug=request.POST.get("box", ""))
    form = PullForm(request.POST)
    if not form.is_valid():
        said = " ".join(str(each) for each in form.errors.get("reference", ()))
        messages.error(request, f"Not pulled. {said}")
        return redirect("images")
    job = work.ask_to_pull(box, form.cleaned_data["reference"], by=request.user)
    if job is None:
        messages.error(request, BUSY)
    return redirect("images")


@require_POST
@allow(Permission.EDIT)
def image_job_cancel(request: PersonRequest, pk: int) -> HttpResponse:
    job = _find_job(request, pk)
    _check_may(request, job)
    if not commands.cancel(job, by=request.user):
        return respond_text("It has ended already, or somebody else has cancelled it.")
    return respond_done()


@require_POST
@allow(Permission.EDIT)
def image_job_again(request: PersonRequest, pk: int) -> HttpResponse:
    """The same once more after its end; of what was held, all the same."""
    job = _find_job(request, pk)
    _check_may(request, job)
    if job.state == ImageJob.State.HELD:
        return respond_done() if commands.go_on(job, by=request.user) else respond_text(BUSY)
    if job.is_open or work.ask_again(job, by=request.user) is None:
        return respond_text(BUSY)
    return respond_done()


@require_POST
@allow(Permission.OPERATE)
def image_job_away(request: PersonRequest, pk: int) -> HttpResponse:
    """Somebody has read what came of it."""
    commands.dismiss(_find_job(request, pk))
    return respond_done()


def _check_may(request: PersonRequest, job: ImageJob) -> None:
    if not commands.may_change(job, request.user):
        raise PermissionDenied("This needs the role admin, as the request did.")


@require_POST
@allow(Permission.EDIT)
def news_pull(request: PersonRequest, pk: int) -> HttpResponse:
    """Pull the newer build of a tag beside the one that the tag means."""
    news = get_object_or_404(TagNews.objects.select_related("box"), pk=pk)
    if not news.has_newer:
        return respond_text("Its registry has no newer build any more. Look again.")
    job = work.ask_to_pull(news.box, news.reference, digest=news.digest, by=request.user)
    return respond_text(BUSY) if job is None else respond_done()


@require_GET
@allow(Permission.EDIT)
def news_move_ask(request: PersonRequest, pk: int, way: str) -> HttpResponse:
    """What moving the tag would do, and the button that does it."""
    news = get_object_or_404(TagNews.objects.select_related("box"), pk=pk)
    found = next(
        (each for each in list_tag_updates(news.box, request.user) if each.news.pk == pk), None
    )
    context = {"news": news, "way": way, "told": found, "target": _target(news, way)}
    return render(request, "images/_move.html", context)


@require_POST
@allow(Permission.EDIT)
def news_move(request: PersonRequest, pk: int, way: str) -> HttpResponse:
    news = get_object_or_404(TagNews.objects.select_related("box"), pk=pk)
    target = _target(news, way)
    if not target:
        return respond_text("There is no such image any more. Look at the page again.")
    job = work.ask_to_move(news.box, news.reference, target, by=request.user)
    return respond_text(BUSY) if job is None else respond_done()


def _target(news: TagNews, way: str) -> str:
    return {"newer": news.newer_id, "back": news.before_id}.get(way, "")


@require_GET
@allow(Permission.ADMINISTER)
def images_prune(request: PersonRequest, slug: str) -> HttpResponse:
    """What would go, what stays and why: nothing is removed before somebody has said so."""
    box = get_object_or_404(Box, slug=slug)
    fates = inventory.fates(box)
    going = [each for each in fates if each.may_go]
    return render(
        request,
        "images/prune.html",
        {
            "box": box,
            "inventory": ImageInventory.objects.find(box),
            "going": going,
            "staying": [each for each in fates if not each.may_go],
            "alone": sum(
                each.image.size - (each.image.shared or 0) for each in going if each.is_ours
            ),
        },
    )


@require_POST
@allow(Permission.ADMINISTER)
def images_prune_now(request: PersonRequest, slug: str) -> HttpResponse:
    box = get_object_or_404(Box, slug=slug)
    may_go = {
        str(fate.image.pk): fate.image.image_id for fate in inventory.fates(box) if fate.may_go
    }
    wanted = [may_go[key] for key in request.POST.getlist("image") if key in may_go]
    if not wanted:
        messages.error(request, "Nothing was ticked, so nothing is removed.")
        return redirect("images_prune", slug=slug)
    if work.ask_to_prune(box, wanted, by=request.user) is None:
        messages.error(request, "Somebody makes room already: wait until that has ended.")
    return redirect("images")


@require_POST
@allow(Permission.EDIT)
def profile_build(request: PersonRequest, slug: str) -> HttpResponse:
    """Build the image of a profile's Dockerfile on a box."""
    found = find(request, slug)
    box = get_object_or_404(Box, slug=request.POST.get("box", ""))
    launch = found.launch
    faults = dockerfile.faults(launch.dockerfile, launch.build_files)
    if faults or found.current is None:
        messages.error(request, " ".join(faults) or "The profile has no version yet.")
        return redirect("profile", slug=slug)
    job = work.ask_to_build(box, build_names.tag(slug, launch), found.current, by=request.user)
    if job is None:
        messages.error(request, "It is being built there already.")
        return redirect("profile", slug=slug)
    return redirect("image_job", pk=job.pk)


@require_GET
@allow(Permission.VIEW)
def profile_built(request: PersonRequest, slug: str) -> HttpResponse:
    """The part of a profile's page that tells of its own image."""
    found = find(request, slug)
    return render(request, "profiles/_build.html", {"profile": found, "launch": found.launch})


@require_POST
@allow(Permission.EDIT)
def profile_use_build(request: PersonRequest, slug: str) -> HttpResponse:
    """Make a version of the profile that starts from the image that its Dockerfile makes."""
    found = find(request, slug)
    tag = build_names.tag(slug, found.launch)
    if found.launch.image != tag:
        save_launch(
            found,
            replace(found.launch, image=tag),
            by=request.user,
            message="Starts from the image that its Dockerfile makes",
            action="use built image",
        )
    return redirect("profile", slug=slug)
