"""The playground's conversations: each person's own, kept message by message as they change."""

import logging
import secrets
from datetime import UTC, datetime
from typing import Any

from asgiref.sync import async_to_sync
from django.db import transaction
from django.db.models import Q
from django.http import HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from redis.exceptions import RedisError

from servers.forms.conversation import BODY_LIMIT, KEY, KeepError, Kept, read
from servers.gateway import answers
from servers.launch import numbers
from servers.models import ChatMessage, Conversation, Permission
from servers.models.gateway.conversation import ConversationQuerySet, text_of, title_of
from servers.views.access import PersonRequest, get, get_or_post, post
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
