"""ROOT_URLCONF of the tests that need a view which fails."""

from typing import Any

from django.http import HttpResponse
from django.urls import path

from inferdash.urls import handler400, handler403
from inferdash.urls import urlpatterns as real_urlpatterns
from servers.models import Permission
from servers.views.access import allow

__all__ = ["handler400", "handler403", "urlpatterns"]


@allow(Permission.VIEW)
def broken(request: Any) -> HttpResponse:
    raise RuntimeError("hf_a_secret_in_a_traceback")


urlpatterns = [*real_urlpatterns, path("broken/", broken)]
