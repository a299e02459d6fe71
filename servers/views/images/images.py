"""Pages of images: what lies in the boxes' Docker, who uses it, what is newer, registry credentials."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from django.contrib import messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.debug import sensitive_post_parameters

from servers import events
from servers.contexts import disks as image_context
from servers.contexts.disks import Choice, DiskUse
from servers.forms.image import RegistryCredentialForm
from servers.judge.images import names
from servers.judge.images.names import ARCHITECTURES
from servers.launch.engines import ENGINES, flaglist
from servers.lifecycle.images import inventory, newer_builds
from servers.lifecycle.images.inventory import Uses
from servers.lifecycle.images.newer_builds import BuildForServer
from servers.lifecycle.links import sealing
from servers.models import (
    AuditEntry,
    Box,
    HostResources,
    ImageFacts,
    ImageInventory,
    ImageJob,
    Permission,
    RegistryCredential,
    StoredImage,
    TagChecks,
    TagNews,
    User,
)
from servers.views.access import PersonRequest, get, get_or_post, post
from servers.views.responses import render_form, respond_done

SORTS = {"name": "name", "size": "size", "made": "newest", "used": "last used"}
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class ImageRow:
    image: StoredImage
    uses: Uses
    version: str  # "vLLM 0.32.0", "vLLM"; "" for what holds no engine
    how: str  # how its version is known, "" where it was asked
    flags: int  # that it has said of itself
    has_newer: bool = False  # its registry has a newer build of one of its tags
    is_asked: bool
    is_other_kind: bool  # made for other processors than its box's


@dataclass(frozen=True, kw_only=True)
class TagUpdate:
    """A tag with something to tell, and what the newer build would mean for each server."""

    news: TagNews
    checked: list[BuildForServer]

    @property
    def sentence(self) -> str:
        return names.describe_new_build([each.verdict for each in self.checked])

    @property
    def is_waiting(self) -> bool:
        """Whether the newer image is still to be asked."""
        return any(each.verdict.kind == "unknown" for each in self.checked)


@dataclass(frozen=True, kw_only=True)
class BoxImages:
    """What is known of Docker's disk of one box."""

    box: Box
    inventory: ImageInventory | None
    checks: TagChecks | None
    count: int
    newer: int  # tags with a newer build
    disk: DiskUse | None

    @property
    def size(self) -> int | None:
        """Bytes of all of them, each layer once; None while nobody has added it up."""
        return self.inventory.layers if self.inventory else None


ENGINE_IMAGES, OTHERS = "", "others"


@get("images/", Permission.VIEW)
def images(request: PersonRequest) -> HttpResponse:
    text = request.GET.get("q", "")[:200]
    sort = request.GET.get("sort", "")
    sort = sort if sort in SORTS else "name"
    show = OTHERS if request.GET.get("show") == OTHERS else ENGINE_IMAGES
    inventories, checks = ImageInventory.objects.by_box(), TagChecks.objects.by_box()
    resources = HostResources.objects.by_box()
    boxes, every, told = [], list[ImageRow](), list[TagUpdate]()
    for box in Box.objects.all():
        known, updates = resources.get(box.pk), list_tag_updates(box, request.user)
        of_box = _mark_newer(rows(box, request.user, known), updates)
        seen = inventories.get(box.pk)
        boxes.append(
            BoxImages(
                box=box,
                inventory=seen,
                checks=checks.get(box.pk),
                count=len(of_box),
                newer=sum(each.news.has_newer for each in updates),
                disk=_find_disk(known, (seen.layers if seen else None) or 0),
            )
        )
        every += of_box
        told += updates
    counts = Counter(ENGINE_IMAGES if _is_listed(row) else OTHERS for row in every)
    kinds = {ENGINE_IMAGES: "With an engine", OTHERS: "Others"}
    shown = [row for row in every if _is_listed(row) == (show == ENGINE_IMAGES) and _has(row, text)]
    return render(
        request,
        "images/list.html",
        {
            "boxes": boxes,
            "rows": sorted(shown, key=_KEYS[sort]),
            "told": told,
            "show": show,
            "choices": [
                Choice(key=key, words=words, count=counts[key])
                for key, words in kinds.items()
                if counts[OTHERS]
            ],
            "jobs": list_jobs(request.user),
            "text": text,
            "sort": sort,
            "sorts": SORTS.items(),
            "mark": image_context.images_mark(),
            "jobs_mark": image_context.jobs_mark(),
        },
    )


def list_jobs(person: User) -> QuerySet[ImageJob]:
    """What goes on and what has ended lately."""
    found = ImageJob.objects.for_page().seen_by(person)
    return found.select_related("box", "asked_by", "version__profile")


def _mark_newer(found: list[ImageRow], updates: list[TagUpdate]) -> list[ImageRow]:
    newer = {each.news.reference for each in updates if each.news.has_newer}
    return [replace(row, has_newer=not newer.isdisjoint(row.image.tags)) for row in found]


def _find_disk(known: HostResources | None, size: int) -> DiskUse | None:
    disk = (known.found.get("disks") or {}).get("images") if known else None
    if not disk:
        return None
    return DiskUse(path=disk["path"], total=disk["total"], free=disk["free"], known=size)


def rows(box: Box, person: User, resources: HostResources | None) -> list[ImageRow]:
    used = inventory.uses(box, person)
    asked = ImageFacts.objects.filter(box=box).exclude(asked_at=None).defer("flags")
    facts = {each.image_id: each for each in asked.order_by("asked_at")}
    machine = str(resources.found.get("architecture", "")) if resources else ""
    return [
        _row(each, used[each.image_id], facts.get(each.image_id), ARCHITECTURES.get(machine, ""))
        for each in StoredImage.objects.filter(box=box).select_related("box")
        if each.image_id in used
    ]


def _row(image: StoredImage, uses: Uses, facts: ImageFacts | None, machine: str) -> ImageRow:
    version, how = "", ""
    is_asked = facts is not None and bool(facts.version)
    if facts is not None and facts.version:
        version = facts.title
    elif image.engine:
        title = ENGINES[image.engine].title
        by_tag = next(
            filter(None, (flaglist.of_image(image.engine, tag) for tag in image.tags)), ""
        )
        said = by_tag or image.version
        version = f"{title} {said}".strip()
        how = ("by its tag" if by_tag else "by its label") if said else "version not known"
    return ImageRow(
        image=image,
        uses=uses,
        version=version,
        how=how,
        is_asked=is_asked,
        flags=facts.count if facts is not None and not facts.error else 0,
        is_other_kind=bool(machine and image.architecture and image.architecture != machine),
    )


def _is_listed(row: ImageRow) -> bool:
    return bool(row.image.engine or row.image.built_for or row.uses.profiles or row.uses.worked)


def _has(row: ImageRow, text: str) -> bool:
    parts = (*row.image.tags, *row.image.digests, row.image.image_id, row.version, row.image.cuda)
    said = " ".join((*parts, *(str(each) for each in row.uses.profiles))).casefold()
    return all(word in said for word in text.casefold().split())


_KEYS: dict[str, Callable[[ImageRow], Any]] = {
    "name": lambda row: (row.image.name.casefold(), row.image.pk),
    "size": lambda row: -row.image.size,
    "made": lambda row: -(row.image.made_at or _LONG_AGO).timestamp(),
    "used": lambda row: -(row.uses.last_used or _LONG_AGO).timestamp(),
}


def list_tag_updates(box: Box, person: User) -> list[TagUpdate]:
    """Tags with a newer build, with one to go back to, or that could not be asked about."""
    found = TagNews.objects.filter(box=box).select_related("moved_by", "box")
    return [
        TagUpdate(news=each, checked=newer_builds.check(each, person) if each.newer_id else [])
        for each in found
        if each.has_newer or each.before_id or each.error
    ]


@get("images/<int:pk>/", Permission.VIEW)
def image(request: PersonRequest, pk: int) -> HttpResponse:
    found = get_object_or_404(StoredImage.objects.select_related("box"), pk=pk)
    person = request.user
    every = rows(found.box, person, HostResources.objects.find(found.box))
    row = next((each for each in every if each.image.pk == pk), None)
    asked = ImageFacts.objects.filter(box=found.box, image_id=found.image_id)
    fate = next((each for each in inventory.fates(found.box) if each.image.pk == pk), None)
    return render(
        request,
        "images/image.html",
        {
            "image": found,
            "row": row,
            "facts": asked.defer("flags").first()
            or ImageFacts.objects.filter(box=found.box, reference=found.image_id).first(),
            "fate": fate,
            "mark": image_context.images_mark(),
            "jobs_mark": image_context.jobs_mark(),
        },
    )


@post("images/<int:pk>/ask/", Permission.OPERATE)
def image_ask(request: PersonRequest, pk: int) -> HttpResponse:
    """Have an image that no profile names asked for its engine's version and flags."""
    found = get_object_or_404(StoredImage.objects.exclude(engine=""), pk=pk)
    StoredImage.objects.filter(pk=pk).update(is_to_be_asked=True)
    AuditEntry.note(request.user, "ask image", found, box=found.box.slug)
    events.publish_change("images")
    return respond_done()


@post("images/on/<slug:slug>/look/", Permission.OPERATE)
def images_look(_request: PersonRequest, slug: str) -> HttpResponse:
    """Ask a box to look at its images now; the page changes by itself when it has."""
    box = get_object_or_404(Box, slug=slug)
    ImageInventory.objects.update_or_create(box=box, defaults={"wanted_at": timezone.now()})
    events.publish_change("images")
    events.wake_watcher(box.slug, events.Topic.IMAGES)
    return respond_done()


@post("images/on/<slug:slug>/news/", Permission.OPERATE)
def images_news(_request: PersonRequest, slug: str) -> HttpResponse:
    """Ask a box to ask the registries now what the tags of its profiles mean there."""
    newer_builds.want(get_object_or_404(Box, slug=slug))
    return respond_done()


@get("settings/registries/", Permission.ADMINISTER, name="registry_logins")
def list_credentials(request: PersonRequest) -> HttpResponse:
    context = {
        "logins": RegistryCredential.objects.select_related("created_by", "tested_on"),
        "jobs_mark": image_context.jobs_mark(),
    }
    return render(request, "images/logins.html", context)


@get_or_post("settings/registries/add/", Permission.ADMINISTER, name="registry_login_add")
@sensitive_post_parameters("password")
def login_add(request: PersonRequest) -> HttpResponse:
    form = RegistryCredentialForm(request.POST or None)
    if request.method == "GET" or not form.is_valid():
        return render_form(request, "images/login.html", {"form": form})
    me = request.user
    form.instance.created_by = me
    with transaction.atomic():
        login = form.save()
        sealing.seal_anew()
        AuditEntry.note(me, "add registry credential", login, name=login.username)
    messages.success(
        request, f"The credential of {login} is saved. Press Test to see whether it works."
    )
    return redirect("registry_logins")


@get_or_post("settings/registries/<int:pk>/", Permission.ADMINISTER, name="registry_login_edit")
@sensitive_post_parameters("password")
def login_edit(request: PersonRequest, pk: int) -> HttpResponse:
    login = get_object_or_404(RegistryCredential, pk=pk)
    name = login.registry
    form = RegistryCredentialForm(request.POST or None, instance=login)
    if request.method == "POST" and form.is_valid():
        with transaction.atomic():
            form.save()
            sealing.seal_anew()
            # Of a password the trail says that it was changed, and not to what.
            changed = ", ".join(form.changed_data)
            AuditEntry.note(request.user, "change registry credential", name, changed=changed)
        messages.success(request, f"The credential of {form.instance} is changed.")
        return redirect("registry_logins")
    return render_form(request, "images/login.html", {"form": form, "pk": pk, "name": name})


@post("settings/registries/<int:pk>/delete/", Permission.ADMINISTER, name="registry_login_delete")
def login_delete(request: PersonRequest, pk: int) -> HttpResponse:
    login = get_object_or_404(RegistryCredential, pk=pk)
    with transaction.atomic():
        AuditEntry.note(request.user, "delete registry credential", login)
        login.delete()
    messages.success(
        request, f"The credential of {login} is deleted. Pulls from there go on without it."
    )
    return redirect("registry_logins")


@post("settings/registries/<int:pk>/test/", Permission.ADMINISTER, name="registry_login_test")
def login_test(request: PersonRequest, pk: int) -> HttpResponse:
    inventory.ask_for_test(get_object_or_404(RegistryCredential, pk=pk), by=request.user)
    return respond_done()
