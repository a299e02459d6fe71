"""URLs of the project."""

from django.urls import include, path

from inferdash.terminal.download import program

urlpatterns = [
    path("inferdash.pyz", program, name="terminal"),
    path("", include("servers.urls")),
]

handler400 = "servers.views.responses.bad_request"
handler403 = "servers.views.responses.forbidden"
