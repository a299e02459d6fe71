"""Conversations of the chat page and sets of prompts, kept for their owner."""

import logging
import secrets
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from asgiref.sync import async_to_sync
from django.contrib import messages
from django.db import transaction
from django.db.models import Count, Max, Q
from django.http import HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from redis.exceptions import RedisError

from servers.forms.conversation import (
    BODY_LIMIT,
    COLUMNS,
    KEY,
    KeepError,
    Kept,
    PromptSetForm,
    read,
    read_answer,
    read_round,
)
from servers.gateway import answers
from servers.launch import numbers
from servers.lifecycle.links import ways
from servers.models import (
    AuditEntry,
    ChatMessage,
    Conversation,
    Permission,
    PromptAnswer,
    PromptRun,
    PromptSet,
    Run,
)
from servers.models.gateway.conversation import ConversationQuerySet, text_of, title_of
from servers.models.runs.run import DesiredState, RunState
from servers.views.access import PersonRequest, get, get_or_post, post
from servers.views.gateway.chat import build_context
from servers.views.responses import respond_done

A_PAGE = 50

logger = logging.getLogger(__name__)


class ChangedError(Exception):
    """Another tab has saved it since, or deleted it: nothing was kept."""


@get("chat/conversations/", Permission.CHAT)
def conversations(request: PersonRequest) -> JsonResponse:
    """The newest, or those before ?before=, as far as they match ?q=."""
    mine = Conversation.objects.owned_by(request.user).search(request.GET.get("q", "")[:200]).once()
    before, _, pk = request.GET.get("before", "").partition("-")
    micros, last = numbers.whole(before[:17]), numbers.whole(pk)
    if micros is not None and last is not None:
        at = datetime.fromtimestamp(micros / 1e6, UTC)
        earlier = Q(updated_at__lt=at) | Q(updated_at=at, pk__lt=last)
        mine = mine.filter(earlier)
    found = list(mine.for_list().select_related(None)[: A_PAGE + 1])
    shown = found[:A_PAGE]
    more = f"{_micros(shown[-1].updated_at)}-{shown[-1].pk}" if len(found) > A_PAGE else ""
    return JsonResponse({"conversations": [_line(each) for each in shown], "before": more})


@get_or_post("chat/conversations/<slug:key>/", Permission.CHAT)
def conversation(request: PersonRequest, key: str) -> HttpResponse:
    """All of it; or what has changed in it, from a browser."""
    if request.method == "POST":
        return _keep(request, key)
    found = get_object_or_404(Conversation.objects.owned_by(request.user).for_list(), key=key)
    messages = list(found.messages.values_list("body", flat=True))
    return JsonResponse(
        {
            **_line(found),
            "params": found.params,
            "tools": found.tools,
            "schema": found.schema,
            "messages": messages,
            "leaf": found.leaf,
            "age": (timezone.now() - found.updated_at).total_seconds(),
        }
    )


@post("chat/conversations/<slug:key>/delete/", Permission.CHAT)
def conversation_delete(request: PersonRequest, key: str) -> HttpResponse:
    Conversation.objects.forget_deleted()
    all_of = _all_of(request, key).filter(deleted_at=None)
    for each in all_of.values_list("key", flat=True):
        _forget_answers(request.user.pk, each)
    # No tab has seen this revision: what one still sends is not written to what is deleted.
    all_of.update(deleted_at=timezone.now(), revision="")
    return respond_done()


def _forget_answers(person: int, key: str) -> None:
    try:
        async_to_sync(answers.forget)(person, key)
    except RedisError:
        # It stops by itself, and Redis erases it within a day.
        logger.exception("The answers of a deleted conversation could not be erased")


@post("chat/conversations/<slug:key>/restore/", Permission.CHAT)
def conversation_restore(request: PersonRequest, key: str) -> HttpResponse:
    get_object_or_404(Conversation, person=request.user, key=key)
    _all_of(request, key).update(deleted_at=None, revision=secrets.token_hex(8))
    return respond_done()


def _all_of(request: PersonRequest, key: str) -> ConversationQuerySet:
    """The one with this key, and where it is a column of a comparison, the others of that."""
    mine = Conversation.objects.filter(person=request.user)
    group = mine.filter(key=key).exclude(comparison="").values("comparison")
    return mine.filter(Q(key=key) | Q(comparison__in=group))


@post("chat/conversations/<slug:key>/share/", Permission.CHAT)
def conversation_share(request: PersonRequest, key: str) -> JsonResponse:
    found = get_object_or_404(Conversation.objects.owned_by(request.user), key=key)
    found.share()
    return JsonResponse({"link": _link(request, found)})


@post("chat/conversations/<slug:key>/unshare/", Permission.CHAT)
def conversation_unshare(request: PersonRequest, key: str) -> HttpResponse:
    get_object_or_404(Conversation.objects.owned_by(request.user), key=key).share_no_more()
    return respond_done()


@get("chat/shared/<str:token>/", Permission.ACCOUNT)
def conversation_shared(request: PersonRequest, token: str) -> HttpResponse:
    """For whoever is logged in and has the link."""
    shared = Conversation.objects.filter(deleted_at=None).select_related("person")
    found = get_object_or_404(shared, token=token)
    columns = list(Conversation.objects.owned_by(found.person).in_comparison(found.comparison)) or [
        found
    ]
    told = [list(each.list_messages().values_list("body", flat=True)) for each in columns]
    return render(request, "gateway/chat/shared.html", {"conversation": found, "told": told})


def _keep(request: PersonRequest, key: str) -> JsonResponse:
    try:
        if KEY.fullmatch(key) is None:
            raise KeepError("This conversation's address is none of ours. Reload the page.")
        # Not request.body, whose limit is for forms: pictures are larger.
        kept = read(request.read(BODY_LIMIT + 1))
        with transaction.atomic():
            row = _write(request, key, kept)
    except KeepError as error:
        return JsonResponse({"message": str(error)}, status=400)
    except ChangedError:
        return JsonResponse({"message": "Another tab has changed this conversation."}, status=409)
    return JsonResponse({"updated": _millis(row.updated_at)})


def _write(request: PersonRequest, key: str, kept: Kept) -> Conversation:
    """Raises ChangedError when it is not as of a revision that the browser has seen."""
    row, is_new = Conversation.objects.select_for_update().get_or_create(
        person=request.user, key=key, defaults={"created_at": kept.updated or timezone.now()}
    )
    if not is_new and kept.revision == row.revision:
        return row  # it has arrived before, and its answer was lost
    if not is_new and (row.deleted_at is not None or row.revision not in kept.was):
        raise ChangedError
    row.messages.filter(place__gte=kept.count).delete()
    ChatMessage.objects.bulk_create(
        [
            ChatMessage(conversation=row, place=place, body=body, text=text_of(body))
            for place, body in kept.messages.items()
        ],
        update_conflicts=True,
        unique_fields=["conversation", "place"],
        update_fields=["body", "text"],
    )
    if row.messages.count() != kept.count:
        raise ChangedError  # it was deleted, and this is only the end of it
    _write_around(row, kept)
    return row


def _write_around(row: Conversation, kept: Kept) -> None:
    is_elsewhere = kept.leaf != row.leaf
    around = ("name", "server", "comparison", "column", "params", "tools", "schema", "leaf")
    for name in (*around, "revision"):
        setattr(row, name, getattr(kept, name))
    is_asked = any(message.get("role") == "user" for message in kept.messages.values())
    if not row.title or is_asked or is_elsewhere:
        first = row.list_messages().filter(body__role="user").first()
        row.title = title_of(first.body) if first else row.title
    row.updated_at = kept.updated or timezone.now()
    row.save()


def _line(found: Conversation) -> dict[str, Any]:
    return {
        "id": found.key,
        "name": found.name,
        "title": str(found),
        "server": found.server,
        "comparison": found.comparison,
        "column": found.column,
        "count": found.count,
        "updated": _millis(found.updated_at),
        "revision": found.revision,
        "shared": reverse("conversation_shared", args=[found.token]) if found.token else "",
    }


def _link(request: PersonRequest, found: Conversation) -> str:
    return request.build_absolute_uri(reverse("conversation_shared", args=[found.token]))


def _micros(at: datetime) -> int:
    return round(at.timestamp() * 1e6)


def _millis(at: datetime) -> int:
    return _micros(at) // 1000


LISTED = 50  # rounds that one may choose from
BESIDE = 2  # that are shown where nobody has chosen


@get("chat/prompts/", Permission.OPERATE)
def prompt_sets(request: PersonRequest) -> HttpResponse:
    found = PromptSet.objects.select_related("by")
    found = found.annotate(asked=Count("prompt_runs"), asked_at=Max("prompt_runs__at"))
    server = request.GET.get("server", "")
    return render(
        request,
        "gateway/prompts/list.html",
        {
            "sets": found,
            "query": f"?{urlencode({'server': server})}" if server else "",
        },
    )


@get_or_post("chat/prompts/new/", Permission.OPERATE)
def prompt_set_new(request: PersonRequest) -> HttpResponse:
    return _form(request, PromptSet())


@get_or_post("chat/prompts/<int:pk>/edit/", Permission.OPERATE)
def prompt_set_edit(request: PersonRequest, pk: int) -> HttpResponse:
    return _form(request, get_object_or_404(PromptSet, pk=pk))


def _form(request: PersonRequest, found: PromptSet) -> HttpResponse:
    form = PromptSetForm(request.POST if request.method == "POST" else None, instance=found)
    if request.method == "POST" and form.is_valid():
        found.prompts, found.by, found.saved_at = form.prompts, request.user, timezone.now()
        form.save()
        AuditEntry.note(request.user, "save prompt set", found, prompts=len(found.prompts))
        return redirect("prompt_set", pk=found.pk)
    return render(request, "gateway/prompts/form.html", {"form": form, "set": found})


@post("chat/prompts/<int:pk>/delete/", Permission.OPERATE)
def prompt_set_delete(request: PersonRequest, pk: int) -> HttpResponse:
    found = get_object_or_404(PromptSet, pk=pk)
    AuditEntry.note(request.user, "delete prompt set", found, rounds=found.prompt_runs.count())
    found.delete()
    messages.success(request, f"“{found}” is deleted, with the answers to it.")
    return redirect("prompt_sets")


@get("chat/prompts/<int:pk>/", Permission.OPERATE)
def prompt_set(request: PersonRequest, pk: int) -> HttpResponse:
    """The chosen rounds side by side; the newest two where none is."""
    found = get_object_or_404(PromptSet, pk=pk)
    rounds = list(found.prompt_runs.for_table()[:LISTED])
    wanted = {each for each in request.GET.getlist("round") if each.isdecimal()}
    shown = [each for each in rounds if str(each.pk) in wanted][:COLUMNS] or rounds[:BESIDE]
    columns = [
        {"letter": letter, "round": each, "sees": _sees(request, each)}
        for letter, each in zip("ABCD", shown, strict=False)
    ]
    return render(
        request,
        "gateway/prompts/set.html",
        build_context(request)
        | {
            "set": found,
            "rounds": rounds,
            "chosen": [each.pk for each in shown],
            "columns": columns,
            "changes": _changes(shown),
            "told": [_describe_round(request, each) for each in shown],
            "params": rounds[0].params if rounds else {},
            "begun": request.GET.get("ask", ""),
            "most": COLUMNS,
        },
    )


@post("chat/prompts/<int:pk>/rounds/", Permission.OPERATE)
def round_begin(request: PersonRequest, pk: int) -> JsonResponse:
    """A round of the set as it is now; the page that shows it asks."""
    found = get_object_or_404(PromptSet, pk=pk)
    try:
        begun = read_round(request.read(BODY_LIMIT))
        ready = Run.objects.filter(state=RunState.READY, wanted=DesiredState.RUNNING)
        run = ready.select_related("server").filter(pk=begun.run_id).first()
        if run is None:
            raise KeepError("This server is not ready any more. Pick one that is.")
    except KeepError as error:
        return JsonResponse({"message": str(error)}, status=400)
    made = found.prompt_runs.create(
        run=run, by=request.user, prompts=found.prompts, params=begun.params
    )
    AuditEntry.note(request.user, "ask prompt set", run.server, set=found.name)
    return JsonResponse({"url": f"{reverse('prompt_set', args=[found.pk])}?ask={made.pk}"})


@post("chat/rounds/<int:pk>/answers/<int:place>/", Permission.OPERATE)
def round_answer(request: PersonRequest, pk: int, place: int) -> HttpResponse:
    """One answer of a round of one's own, as it came."""
    found = get_object_or_404(PromptRun, pk=pk, by=request.user)
    try:
        if place >= len(found.prompts):
            raise KeepError("This round has no such prompt. Reload the page.")
        body = read_answer(request.read(BODY_LIMIT + 1), place)
    except KeepError as error:
        return JsonResponse({"message": str(error)}, status=400)
    PromptAnswer.objects.update_or_create(round=found, place=place, defaults={"body": body})
    return respond_done()


@post("chat/rounds/<int:pk>/delete/", Permission.OPERATE)
def round_delete(request: PersonRequest, pk: int) -> HttpResponse:
    found = get_object_or_404(PromptRun.objects.select_related("prompt_set", "run__server"), pk=pk)
    AuditEntry.note(request.user, "delete round", found.run.server, set=found.prompt_set.name)
    found.delete()
    return redirect("prompt_set", pk=found.prompt_set_id)


def _sees(request: PersonRequest, each: PromptRun) -> bool:
    """Whether the profile's page is there for who looks."""
    profile = each.run.version.profile
    return not profile.is_private or request.user.may_administer or profile.owner == request.user


def _describe_round(request: PersonRequest, each: PromptRun) -> dict[str, Any]:
    """What the page's script has on a round."""
    run = each.run
    is_here = ways.has_way(run.server.box)
    is_up = run.state == RunState.READY and run.wanted == DesiredState.RUNNING
    return {
        "id": each.pk,
        "prompts": each.prompts,
        "params": each.params,
        "answers": {answer.place: answer.body for answer in each.answers.all()},
        "run": run.pk,
        "slug": run.server.slug,
        "model": run.served_name,
        "engine": run.version.launch.engine,
        "url": reverse("server", args=[run.server.slug]),
        # Its own person goes on with it, while the run that it was begun with is up here.
        "isMine": each.by_id == request.user.pk,
        "isUp": is_up and run.server.run_id == run.pk and is_here,
        "keep": reverse("round_answer", args=[each.pk, 0])[: -len("0/")],
    }


def _changes(shown: list[PromptRun]) -> list[dict[str, Any]]:
    """Of each round and the one beside it, the older first: what was another one."""
    pairs = zip(shown[1:], shown, strict=False)
    return [_change(older, newer) for older, newer in pairs]


def _change(older: PromptRun, newer: PromptRun) -> dict[str, Any]:
    before, after = older.run.version, newer.run.version
    is_same_profile = before.profile_id == after.profile_id
    said: list[str] = []
    if older.run_id == newer.run_id:
        said.append("the same run")
    elif before.pk == after.pk:
        said.append(f"the same version of {after.profile}")
    elif not is_same_profile:
        said.append(f"{before.profile} before, {after.profile} now")
    for name, old, new in [
        ("engine version", older.run.start.engine_version, newer.run.start.engine_version),
        ("server", older.run.server.slug, newer.run.server.slug),
    ]:
        if old != new:
            said.append(f"{name} {old or 'not known'} before, {new or 'not known'} now")
    said += [
        f"{name.replace('_', ' ')} {older.params.get(name) or 'default'} before, "
        f"{newer.params.get(name) or 'default'} now"
        for name in sorted({*older.params, *newer.params})
        if older.params.get(name, "") != newer.params.get(name, "")
    ]
    if older.prompts != newer.prompts:
        said.append("the prompts have been edited between them")
    link = ""
    if is_same_profile and before.pk != after.pk:
        link = reverse("profile_version", args=[after.profile.slug, after.number])
        link += f"?against={before.number}"
    return {"said": said, "link": link, "before": before, "after": after}
