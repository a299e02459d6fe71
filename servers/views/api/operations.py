"""Operations of the API: the key that each needs, its body, and its errors as JSON: what happened, to what, what to do."""

import json
import re
from collections.abc import Callable, Collection
from difflib import get_close_matches
from typing import Any, Protocol, cast

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.db.models import Model, QuerySet
from django.db.utils import OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI, Router, Schema
from ninja.errors import AuthenticationError, HttpError, ValidationError
from ninja.parser import Parser
from ninja.security import HttpBearer

from servers import events
from servers.events import wait_async
from servers.models import Key, Permission, User
from servers.models.people.user import name_roles
from servers.state import samples

LONGEST = 512 * 1024  # bytes; a profile's document has 100,000 characters at most
DEEPEST = 20
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_NO_BRACKETS = bytes(each for each in range(256) if each not in b"[]{}")


class BodyError(ValueError):
    """Why a body is not read, as a sentence."""

    def __init__(self, problem: str, *, is_too_long: bool = False) -> None:
        super().__init__(problem)
        self.is_too_long = is_too_long


class BoundedParser(Parser):
    def parse_body(self, request: HttpRequest) -> dict[str, Any]:
        """Raises BodyError."""
        body = request.body
        if len(body) > LONGEST:
            raise BodyError(f"The body is longer than {LONGEST >> 10} KiB.", is_too_long=True)
        if not _is_flat(body):
            raise BodyError(
                f"The body has brackets inside brackets, more than {DEEPEST} deep, or some that "
                "are not closed."
            )
        try:
            return cast("dict[str, Any]", json.loads(body))
        except ValueError as error:
            raise BodyError(f"The body is not JSON: {error}.") from error


def _is_flat(body: bytes) -> bool:
    """Whether every bracket finds its other half within DEEPEST steps outwards."""
    brackets = _TEXT.sub(b"", body).translate(None, _NO_BRACKETS)
    for _step in range(DEEPEST):
        if not brackets:
            return True
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return not brackets


UNAUTHORIZED, FORBIDDEN, NOT_FOUND, UNPROCESSABLE = 401, 403, 404, 422
TOO_LARGE, UNAVAILABLE = 413, 503


class Fault(Schema):
    code: str  # stable: "not_found", "taken", …
    message: str  # what happened, to what
    advice: str = ""  # what to do
    details: dict[str, Any] = {}  # what else is known, by the code


class Problem(Schema):
    error: Fault


class ApiError(Exception):
    def __init__(
        self, status: int, code: str, message: str, advice: str = "", **details: Any
    ) -> None:
        super().__init__(message)
        self.status = status
        self.fault = Fault(code=code, message=message, advice=advice, details=details)


def register(api: NinjaAPI) -> None:
    def answer(request: HttpRequest, status: int, fault: Fault) -> HttpResponse:
        made = api.create_response(request, {"error": fault.dict()}, status=status)
        if status == UNAUTHORIZED:
            made["WWW-Authenticate"] = "Bearer"
        return made

    @api.exception_handler(ApiError)
    def ours(request: HttpRequest, error: ApiError) -> HttpResponse:
        return answer(request, error.status, error.fault)

    @api.exception_handler(AuthenticationError)
    def keyless(request: HttpRequest, _error: AuthenticationError) -> HttpResponse:
        message = "This request has no key."
        advice = "Send “Authorization: Bearer ifd_…”, with a key of your page “Keys”."
        fault = Fault(code="unauthorized", message=message, advice=advice)
        return answer(request, UNAUTHORIZED, fault)

    @api.exception_handler(Http404)
    def answer_missing(request: HttpRequest, error: Http404) -> HttpResponse:
        return answer(request, NOT_FOUND, Fault(code="not_found", message=str(error)))

    @api.exception_handler(PermissionDenied)
    def answer_denied(request: HttpRequest, error: PermissionDenied) -> HttpResponse:
        return answer(request, FORBIDDEN, Fault(code="forbidden", message=str(error)))

    @api.exception_handler(OperationalError)
    def no_room(request: HttpRequest, error: OperationalError) -> HttpResponse:
        said = samples.describe_full_disk(error)
        if not said:
            raise error
        return answer(request, UNAVAILABLE, Fault(code="disk_full", message=said))

    @api.exception_handler(HttpError)
    def unread(request: HttpRequest, error: HttpError) -> HttpResponse:
        """By which Ninja says that the body cannot be read; its cause says why."""
        why = error.__cause__ if isinstance(error.__cause__, BodyError) else error
        is_too_long = isinstance(why, BodyError) and why.is_too_long
        status = TOO_LARGE if is_too_long else error.status_code
        return answer(request, status, Fault(code="invalid", message=str(why)))

    @api.exception_handler(RequestDataTooBig)
    def too_large(request: HttpRequest, _error: RequestDataTooBig) -> HttpResponse:
        message = f"The body is longer than {LONGEST >> 10} KiB."
        return answer(request, TOO_LARGE, Fault(code="invalid", message=message))

    @api.exception_handler(ValidationError)
    def invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
        said = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors]
        fault = Fault(code="invalid", message="; ".join(said), advice="See openapi.json.")
        return answer(request, UNPROCESSABLE, fault)


MOST = 5  # names that an error lists
# Of a row with so many siblings only the first are compared: an error is no search.
COMPARED = 2000


def find_one[M: Model](rows: "QuerySet[M, Any]", missing: str, **which: object) -> M:
    """Raises Http404, with the sentence that says what is not there."""
    found: M | None = rows.filter(**which).first()
    if found is None:
        raise Http404(missing)
    return found


def find_named[M: Model](
    rows: "QuerySet[M, Any]", kind: str, name: str, *, field: str = "slug"
) -> M:
    """Raises ApiError where there is none; `kind` is the word for such a row, as "server"."""
    found: M | None = rows.filter(**{field: name}).first()
    if found is not None:
        return found
    known = [str(each) for each in rows.values_list(field, flat=True)[:COMPARED]]
    raise ApiError(
        NOT_FOUND,
        "not_found",
        f"There is no {kind} called {name[:200]}.",
        _nearest(name, kind, known),
    )


def _nearest(name: str, kind: str, known: list[str]) -> str:
    if not known:
        return f"There is no {kind} yet."
    if near := get_close_matches(name, known, n=3, cutoff=0.5):
        return f"Did you mean {' or '.join(near)}?"
    more = f" and {len(known) - MOST} more" if len(known) > MOST else ""
    return f"There {'is' if len(known) == 1 else 'are'}: {', '.join(sorted(known)[:MOST])}{more}."


class Marked(Protocol):
    mark: str  # another text whenever people are shown something else


async def wait_for_change[Answer: Marked](
    look: Callable[[], Answer], *, seen: str, wait: float, kinds: Collection[str]
) -> Answer:
    """What a look finds; with `wait`, for up to so many seconds one with another mark than `seen`.

    `kinds` are those of the browsers' messages after which it is looked again.
    """
    look_aside = sync_to_async(look)
    if wait <= 0:
        return await look_aside()
    return await wait_async(
        look_aside,
        lambda found: found.mark != seen,
        groups=[events.LIVE],
        seconds=wait,
        is_about=lambda message: message.get("kind") in kinds,
    )


class ByKey(HttpBearer):
    """Lets through keys that have a permission; of each operation one."""

    openapi_name = "key"

    def __init__(self, permission: Permission) -> None:
        super().__init__()
        self.permission = permission

    def authenticate(self, request: HttpRequest, token: str) -> Key:
        key = Key.objects.for_token(token)
        if key is None:
            raise ApiError(
                UNAUTHORIZED,
                "unauthorized",
                "This key is not known, has ended, or was revoked.",
                "Make one on the page “Keys” of inferdash.",
            )
        Key.objects.note_use(key)
        if key.only_asks:
            raise ApiError(
                FORBIDDEN,
                "forbidden",
                "This key may use models only, by the gateway (/v1/…). It opens neither the API "
                "nor the terminal.",
                "Use another key: make one on the page “Keys” of inferdash that may do more.",
            )
        if not key.may(self.permission):
            raise ApiError(
                FORBIDDEN,
                "forbidden",
                f"This needs the role {name_roles(self.permission)}, and with this key one may do what "
                f"{key.acts_as.label}s may.",
                "Use another key, or ask an admin for the role.",
            )
        # Of this request alone, and never saved: a key may be allowed less than its person.
        key.person.role = key.acts_as
        request.user = key.person
        return key


class ByKeyAsync(ByKey):
    """The same for an async operation: the database must not hold up its loop."""

    async def authenticate(self, request: HttpRequest, token: str) -> Key:  # type: ignore[override]
        return await sync_to_async(super().authenticate)(request, token)


class KeyRouter(Router):
    """`room`: in the ids by which clients know its operations."""

    def __init__(self, room: str) -> None:
        super().__init__()
        self.room = room

    def serve[View: Callable[..., Any]](
        self,
        method: str,
        path: str,
        permission: Permission,
        answer: Any,
        *errors: int,
        name: str = "",
    ) -> Callable[[View], View]:
        """Serve an operation to keys that have the permission.

        `answer` is the schema of a 200, or schemas by status. Each of `errors` answers a Problem.
        """
        answers = answer if isinstance(answer, dict) else {200: answer}

        def decorator(view: View) -> View:
            authenticate = ByKeyAsync if iscoroutinefunction(view) else ByKey
            operation = self.api_operation(
                [method],
                path,
                response={**answers, **dict.fromkeys(errors, Problem)},
                auth=authenticate(permission),
                operation_id=f"servers_views_api_{self.room}_{name or view.__name__}",
            )
            served: View = operation(view)
            return served

        return decorator


def person(request: HttpRequest) -> User:
    """Who asks, with the role of their key."""
    if not isinstance(request.user, User):
        raise TypeError("This operation was reached without a key.")
    return request.user
