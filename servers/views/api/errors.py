"""Errors as JSON: what happened, to what, and what to do."""

from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.db.utils import OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI, Schema
from ninja.errors import AuthenticationError, HttpError, ValidationError

from servers.models.people import data_disk
from servers.views.api import bodies

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
        said = data_disk.describe_full_disk(error)
        if not said:
            raise error
        return answer(request, UNAVAILABLE, Fault(code="disk_full", message=said))

    @api.exception_handler(HttpError)
    def unread(request: HttpRequest, error: HttpError) -> HttpResponse:
        """By which Ninja says that the body cannot be read; its cause says why."""
        why = error.__cause__ if isinstance(error.__cause__, bodies.BodyError) else error
        is_too_long = isinstance(why, bodies.BodyError) and why.is_too_long
        status = TOO_LARGE if is_too_long else error.status_code
        return answer(request, status, Fault(code="invalid", message=str(why)))

    @api.exception_handler(RequestDataTooBig)
    def too_large(request: HttpRequest, _error: RequestDataTooBig) -> HttpResponse:
        message = f"The body is longer than {bodies.LONGEST >> 10} KiB."
        return answer(request, TOO_LARGE, Fault(code="invalid", message=message))

    @api.exception_handler(ValidationError)
    def invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
        said = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors]
        fault = Fault(code="invalid", message="; ".join(said), advice="See openapi.json.")
        return answer(request, UNPROCESSABLE, fault)
