"""Conversations and prompts of the playground: private, unless shared."""

import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Self

from django.db import models
from django.db.models import Count, Exists, F, OuterRef, Q
from django.utils import timezone

from servers.models.json_values import Json
from servers.models.people.user import User
from servers.models.runs.run import Run

TITLE = 60  # characters
SEARCHED = 20_000  # characters of a message, from its beginning
DELETED_FOR = timedelta(days=1)  # in which a deletion can be taken back


class ConversationQuerySet(models.QuerySet["Conversation"]):
    def owned_by(self, person: User) -> Self:
        """This person's own, without what they have deleted. Nobody else's: no role opens those."""
        return self.filter(person=person, deleted_at=None)

    def in_comparison(self, key: str) -> Self:
        """The columns of a comparison, from the left; none where the key is empty."""
        return self.filter(comparison=key).exclude(comparison="").order_by("column", "pk")

    def once(self) -> Self:
        """Of each comparison its first column alone, which stands for all."""
        before = Conversation.objects.filter(
            person=OuterRef("person"),
            comparison=OuterRef("comparison"),
            column__lt=OuterRef("column"),
            deleted_at=None,
        )
        return self.filter(Q(comparison="") | ~Exists(before))

    def for_list(self) -> Self:
        return self.annotate(count=Count("messages")).order_by("-updated_at", "-pk")

    def search(self, text: str) -> Self:
        """Those in which each of the words stands: in the name, or in what was said, in whichever
        column of a comparison."""
        found = self
        for word in text.split():
            said = ChatMessage.objects.filter(text__icontains=word)
            own = said.filter(conversation=OuterRef("pk"))
            beside = said.filter(
                conversation__person=OuterRef("person"),
                conversation__comparison=OuterRef("comparison"),
            )
            found = found.filter(
                Q(name__icontains=word) | Exists(own) | (~Q(comparison="") & Exists(beside))
            )
        return found

    def forget_deleted(self) -> None:
        self.filter(deleted_at__lt=timezone.now() - DELETED_FOR).delete()


class Conversation(models.Model):
    key = models.CharField(max_length=32)  # what its address calls it; made by the browser
    person = models.ForeignKey(User, on_delete=models.CASCADE, related_name="conversations")
    name = models.CharField(max_length=80, blank=True)  # that a person gave it
    title = models.CharField(max_length=TITLE, blank=True)  # of its first question
    server = models.CharField(max_length=80, blank=True)  # slug of the one that was asked last
    # Of the playground's own making: only browsers read what is in these.
    params: Json[Any] = models.JSONField(default=dict)
    tools: Json[Any] = models.JSONField(default=None, null=True)
    schema: Json[Any] = models.JSONField(default=None, null=True)
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)
    # Those of one comparison have its key, and each a column of it, from 0. "": it stands alone.
    comparison = models.CharField(max_length=32, blank=True)
    column = models.PositiveSmallIntegerField(default=0)
    # Place of the message that it is shown up to, from where one parent leads to the next. None: the last.
    leaf = models.PositiveIntegerField(null=True)
    # Names the save that it is as of. Whoever saves says which they have seen.
    revision = models.CharField(max_length=32, blank=True)
    deleted_at = models.DateTimeField(null=True)
    # Who has the link may read it, if they may log in. None: it is not shared.
    token = models.CharField(max_length=32, null=True, unique=True)  # noqa: DJ001 - "" would be unique, too
    shared_at = models.DateTimeField(null=True)

    objects = ConversationQuerySet.as_manager()

    # Of listed() alone.
    count: int

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["person", "key"], name="one_conversation_a_key")
        ]
        indexes = [
            models.Index(fields=["person", "-updated_at"], name="conversations_by_age"),
            models.Index(fields=["person", "comparison"], name="conversations_compared"),
        ]

    def __str__(self) -> str:
        return self.name or self.title or "New conversation"

    def list_messages(self) -> "models.QuerySet[ChatMessage]":
        """The messages of the path that is shown: a changed question, or an answer that was asked for
        again, is another version beside the one before."""
        parents = list(self.messages.values_list("body__parent", flat=True))
        places = path(parents, self.leaf)
        if len(places) == len(parents):
            return self.messages.all()
        return self.messages.filter(place__in=places)

    def share(self) -> None:
        """Make the link, where there is none yet."""
        if self.token is None:
            self.token, self.shared_at = secrets.token_urlsafe(16), timezone.now()
            self.save(update_fields=["token", "shared_at"])

    def share_no_more(self) -> None:
        self.token = self.shared_at = None
        self.save(update_fields=["token", "shared_at"])


class ChatMessage(models.Model):
    conversation = models.ForeignKey(
        Conversation, on_delete=models.CASCADE, related_name="messages"
    )
    place = models.PositiveIntegerField()  # from 0
    body: Json[dict[str, Any]] = models.JSONField()
    text = models.TextField(blank=True)  # what a search looks at

    class Meta:
        ordering = ["place"]
        constraints = [
            models.UniqueConstraint(fields=["conversation", "place"], name="one_message_a_place")
        ]

    def __str__(self) -> str:
        return f"{self.place} of {self.conversation_id}"


def path(parents: Sequence[Any], leaf: int | None) -> list[int]:
    """Places from the first message to this one. A message follows its parent; where it names none,
    the one before it."""
    at = len(parents) - 1 if leaf is None else min(leaf, len(parents) - 1)
    places: list[int] = []
    while at >= 0:
        places.append(at)
        parent = parents[at]
        at = parent if isinstance(parent, int) and parent < at else at - 1
    return places[::-1]


def text_of(body: dict[str, Any]) -> str:
    """What a message says in words, of whichever parts it is made."""
    content = body.get("content")
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "\n".join(part for part in parts if isinstance(part, str))
    # PostgreSQL keeps no NUL.
    return content[:SEARCHED].replace("\0", "") if isinstance(content, str) else ""


def title_of(body: dict[str, Any]) -> str:
    """The first line; a longer one up to a word's end where one is near, and with an ellipsis."""
    line = next(iter(text_of(body).strip().splitlines()), "")
    if len(line) <= TITLE:
        return line
    kept = line[: TITLE - 1]
    end = kept.rfind(" ")
    return f"{(kept[:end] if end >= TITLE // 2 else kept).rstrip()}…"


MOST = 20  # prompts of a set


class PromptSet(models.Model):
    name = models.CharField(max_length=80, unique=True)
    prompts: Json[list[str]] = models.JSONField(default=list)
    by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    saved_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class PromptRunQuerySet(models.QuerySet["PromptRun"]):
    def for_table(self) -> Self:
        """The newest first, with what is told of each."""
        found = self.select_related("by", "run__server__run", "run__version__profile")
        failed = Q(answers__body__error__message__isnull=False)
        counted = found.annotate(failed=Count("answers", filter=failed))
        return counted.annotate(answered=Count("answers") - F("failed")).order_by("-at", "-pk")


class PromptRun(models.Model):
    """A set as it was asked of one run, a prompt at a time."""

    prompt_set = models.ForeignKey(PromptSet, on_delete=models.CASCADE, related_name="prompt_runs")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="prompt_runs")
    by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    at = models.DateTimeField(default=timezone.now)
    prompts: Json[list[str]] = models.JSONField()  # as they were then
    # As the playground's form has them.
    params: Json[dict[str, str]] = models.JSONField(default=dict)

    objects = PromptRunQuerySet.as_manager()

    # Of shown() alone.
    answered: int
    failed: int

    def __str__(self) -> str:
        return f"{self.prompt_set} asked of {self.run}"


class PromptAnswer(models.Model):
    round = models.ForeignKey(PromptRun, on_delete=models.CASCADE, related_name="answers")
    place = models.PositiveIntegerField()  # of its prompt, from 0
    # As a conversation keeps an answer: only browsers read what is in it.
    body: Json[dict[str, Any]] = models.JSONField()

    class Meta:
        ordering = ["place"]
        constraints = [
            models.UniqueConstraint(fields=["round", "place"], name="one_answer_a_prompt")
        ]

    def __str__(self) -> str:
        return f"answer {self.place} of {self.round_id}"
