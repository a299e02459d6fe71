from django.urls import include, path

urlpatterns = [path("", include("servers.urls"))]

handler400 = "servers.views.errors.bad_request"
handler403 = "servers.views.errors.forbidden"
