"""Operations of the API, and the key in the Authorization header that each needs."""

from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.http import HttpRequest
from ninja import Router
from ninja.security import HttpBearer

from servers.models import Key, Permission, User
from servers.models.people.user import name_roles
from servers.views.api.errors import ApiError, Problem

UNAUTHORIZED, FORBIDDEN = 401, 403


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
    def serve[View: Callable[..., Any]](
        self,
        method: str,
        path: str,
        permission: Permission,
        answer: Any,
        *errors: int,
        operation_id: str | None = None,
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
                operation_id=operation_id,
            )
            served: View = operation(view)
            return served

        return decorator


def person(request: HttpRequest) -> User:
    """Who asks, with the role of their key."""
    if not isinstance(request.user, User):
        raise TypeError("This operation was reached without a key.")
    return request.user
