from django.urls import URLPattern, URLResolver, path

from servers.views import actions, boxes, chat, dashboard, logs, profiles, servers

urlpatterns: list[URLPattern | URLResolver] = [
    path("", dashboard.dashboard, name="dashboard"),
    path("boxes/<slug:slug>/", boxes.box, name="box"),
    path("boxes/<slug:slug>/history.json", boxes.box_history, name="box_history"),
    path("servers/<slug:slug>/", servers.server, name="server"),
    path("servers/<slug:slug>/stop/ask/", servers.server_stop_ask, name="server_stop_ask"),
    path("servers/<slug:slug>/start/", actions.server_start, name="server_start"),
    path("servers/<slug:slug>/stop/", actions.server_stop, name="server_stop"),
    path("servers/<slug:slug>/restart/", actions.server_restart, name="server_restart"),
    path("servers/<slug:slug>/remove/", actions.server_remove, name="server_remove"),
    path("profiles/", profiles.profiles, name="profiles"),
    path("profiles/new/", profiles.profile_new, name="profile_new"),
    path("profiles/<slug:slug>/", profiles.profile, name="profile"),
    path("profiles/<slug:slug>/edit/", profiles.profile_edit, name="profile_edit"),
    path("profiles/<slug:slug>/place/", profiles.profile_place, name="profile_place"),
    path("chat/", chat.chat, name="chat"),
    path("chat/completions/", chat.chat_completions, name="chat_completions"),
    path("runs/<int:run_id>/log/", logs.run_log, name="run_log"),
]
