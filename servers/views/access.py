"""Addresses of views: where each is, by which methods, and who may use it."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.urls import URLPattern, path
from django.views.decorators.http import require_http_methods

from servers.models import Permission, Role, User
from servers.models.people.user import name_roles

ROUTES: list[URLPattern] = []  # of the modules that have been imported


class PersonRequest(HttpRequest):
    """A request behind @allow: somebody is logged in."""

    user: User


def get[View: Callable[..., Any]](
    address: str, permission: Permission, *, name: str = ""
) -> Callable[[View], View]:
    """Serve a view at an address to whose role has the permission.

    Links call it as the view is called, or by `name`.
    """
    return lambda view: _serve(allow(permission)(view), address, ["GET"], name)


def post[View: Callable[..., Any]](
    address: str, permission: Permission, *, name: str = ""
) -> Callable[[View], View]:
    return lambda view: _serve(allow(permission)(view), address, ["POST"], name)


def get_or_post[View: Callable[..., Any]](
    address: str, permission: Permission, *, name: str = ""
) -> Callable[[View], View]:
    return lambda view: _serve(allow(permission)(view), address, ["GET", "POST"], name)


def serve_public[View: Callable[..., Any]](
    address: str, *methods: str, name: str = ""
) -> Callable[[View], View]:
    """Serve a view to everybody, logged in or not: it checks for itself what there is to check."""
    return lambda view: _serve(login_not_required(view), address, list(methods), name)


def _serve[View: Callable[..., Any]](
    view: View, address: str, methods: list[str], name: str
) -> View:
    served: View = require_http_methods(methods)(view)
    ROUTES.append(path(address, served, name=name or view.__name__))
    return served


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
