"""Who may use a view."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from servers.models import Role, User


class PersonRequest(HttpRequest):
    """A request behind @allow: somebody is logged in."""

    user: User


def allow[View: Callable[..., Any]](role: Role) -> Callable[[View], View]:
    """Let through people of this role or a higher one; everybody else gets a 403 page."""

    def check(user: User) -> None:
        if not user.may(role):
            raise PermissionDenied(
                f"This needs the role {role.label}; you are {Role(user.role).label}. "
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
        guarded.role = role  # read by the test that tries every URL as every role
        return guarded  # type: ignore[no-any-return]

    return decorator
