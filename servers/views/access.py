"""Permissions of views."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from servers.models import Permission, Role, User
from servers.models.people.user import name_roles


class PersonRequest(HttpRequest):
    """A request behind @allow: somebody is logged in."""

    user: User


def allow[View: Callable[..., Any]](permission: Permission) -> Callable[[View], View]:
    """Let through people whose role has the permission; everybody else gets a 403 page."""

    def check(user: User) -> None:
        if not user.may(permission):
            raise PermissionDenied(
                f"This needs the role {name_roles(permission)}; you are {Role(user.role).label}. "
                "An admin can change that under Settings."
            )

    def decorator(view: View) -> View:
        if iscoroutinefunction(view):

            @wraps(view)
            async def guarded_async(request: Any, *args: Any, **kwargs: Any) -> Any:
                # Not auser(), which asks the database again: LoginRequiredMiddleware has
                # looked the person up already.
                check(request.user)
                return await view(request, *args, **kwargs)

            guarded: Any = guarded_async
        else:

            @wraps(view)
            def guarded_sync(request: Any, *args: Any, **kwargs: Any) -> Any:
                check(request.user)
                return view(request, *args, **kwargs)

            guarded = guarded_sync
        guarded.permission = permission  # read by the test that tries every URL as every role
        return guarded  # type: ignore[no-any-return]

    return decorator
