"""Every address and every socket with the lowest role that may use it: add yours here."""

from dataclasses import dataclass, field
from typing import Any

from servers.models import Conversation, Invite, Key, Preset, Role, Secret, User
from servers.models.run import State
from tests import factories, shelves

PUBLIC = None


@dataclass(frozen=True, kw_only=True)
class Row:
    """An address by its name in urls.py, and the lowest role that may use it."""

    name: str
    role: Role | None  # PUBLIC: everybody, logged in or not
    method: str = "get"
    args: tuple[str, ...] = ()  # keys of Things
    data: dict[str, str] = field(default_factory=dict)
    wants_key: bool = False  # no login opens it, and no role


ROWS = [
    Row(name="dashboard", role=Role.VIEWER),
    Row(name="box", role=Role.VIEWER, args=("box",)),
    Row(name="box_history", role=Role.VIEWER, args=("box",)),
    Row(
        name="metrics", wants_key=True, role=PUBLIC
    ),  # it asks for a token of its own: test_metrics
    Row(name="history", role=Role.VIEWER, args=("box",)),
    Row(name="history_points", role=Role.VIEWER, args=("box",)),
    Row(name="history_csv", role=Role.VIEWER, args=("box",)),
    Row(name="server_figures", role=Role.VIEWER, args=("server",)),
    Row(name="box_boot_dismiss", role=Role.OPERATOR, args=("box", "boot"), method="post"),
    Row(name="box_action_ask", role=Role.OPERATOR, args=("box", "action", "left")),
    Row(name="box_action", role=Role.OPERATOR, args=("box", "action", "left"), method="post"),
    Row(name="found", role=Role.VIEWER),
    Row(name="box_found", role=Role.VIEWER, args=("box",)),
    Row(name="profile_compared", role=Role.VIEWER, args=("server",)),
    Row(name="box_profile", role=Role.EDITOR, args=("box", "container"), method="post"),
    Row(name="box_take_over_ask", role=Role.EDITOR, args=("box", "container")),
    Row(
        name="box_take_over",
        role=Role.EDITOR,
        args=("box", "container"),
        method="post",
        data={"name": "speech-llm-1"},
    ),
    Row(name="box_watch_ask", role=Role.EDITOR, args=("box", "container")),
    Row(name="box_watch", role=Role.EDITOR, args=("box", "container"), method="post"),
    Row(name="server_unwatch", role=Role.EDITOR, args=("server",), method="post"),
    Row(name="server", role=Role.VIEWER, args=("server",)),
    Row(name="server_stop_ask", role=Role.OPERATOR, args=("server",)),
    Row(name="server_start", role=Role.OPERATOR, args=("server",), method="post"),
    Row(name="run_start", role=Role.OPERATOR, args=("server", "run"), method="post"),
    Row(name="run_fix", role=Role.OPERATOR, args=("server", "run", "number"), method="post"),
    Row(name="server_stop", role=Role.OPERATOR, args=("server",), method="post"),
    Row(name="server_keep", role=Role.OPERATOR, args=("server",), method="post"),
    Row(name="server_let", role=Role.OPERATOR, args=("server",), method="post"),
    Row(name="server_restart", role=Role.OPERATOR, args=("server",), method="post"),
    Row(name="server_values", role=Role.EDITOR, args=("server",), method="post"),
    Row(name="server_remove", role=Role.OPERATOR, args=("server",), method="post"),
    Row(name="profiles", role=Role.VIEWER),
    Row(name="profile", role=Role.VIEWER, args=("server",)),
    Row(name="profile_new", role=Role.EDITOR),
    Row(name="profile_new", role=Role.EDITOR, method="post"),
    Row(name="profile_edit", role=Role.EDITOR, args=("server",)),
    Row(name="profile_edit", role=Role.EDITOR, args=("server",), method="post"),
    Row(name="profile_place", role=Role.EDITOR, args=("server",), method="post"),
    Row(name="profile_favourite", role=Role.VIEWER, args=("server",), method="post"),
    Row(name="profile_known", role=Role.VIEWER, args=("server", "server")),
    Row(name="profile_version", role=Role.VIEWER, args=("server", "version")),
    Row(name="version_restore", role=Role.EDITOR, args=("server", "version"), method="post"),
    Row(name="profile_paste", role=Role.EDITOR),
    Row(name="profile_paste", role=Role.EDITOR, method="post", data={"text": "vllm serve a/b"}),
    Row(name="profile_flags", role=Role.EDITOR, data={"engine": "vllm"}),
    Row(name="profile_check", role=Role.EDITOR, method="post"),
    Row(name="profile_paths", role=Role.EDITOR, method="post"),
    Row(name="profile_fit", role=Role.EDITOR, method="post"),
    Row(name="profile_fix_form", role=Role.EDITOR, args=("rule",), method="post"),
    Row(name="profile_fix", role=Role.OPERATOR, args=("server", "rule"), method="post"),
    Row(name="profile_export", role=Role.VIEWER, args=("server", "form")),
    Row(name="recipes", role=Role.VIEWER),
    Row(name="recipe", role=Role.VIEWER, args=("recipe",)),
    Row(name="profile_overlays", role=Role.EDITOR, args=("server",)),
    Row(name="profile_overlay", role=Role.EDITOR, args=("server", "overlay")),
    Row(name="profile_overlay", role=Role.EDITOR, args=("server", "overlay"), method="post"),
    Row(name="profile_group", role=Role.EDITOR, args=("server", "group")),
    Row(name="profile_group", role=Role.EDITOR, args=("server", "group"), method="post"),
    Row(name="groups", role=Role.VIEWER),
    Row(name="group", role=Role.VIEWER, args=("group",)),
    Row(name="group_new", role=Role.OPERATOR),
    Row(name="group_new", role=Role.OPERATOR, method="post"),
    Row(name="group_edit", role=Role.OPERATOR, args=("group",)),
    Row(name="group_edit", role=Role.OPERATOR, args=("group",), method="post"),
    Row(name="group_restore", role=Role.OPERATOR, args=("group", "version"), method="post"),
    Row(name="group_delete", role=Role.OPERATOR, args=("group",), method="post"),
    Row(name="models", role=Role.VIEWER),
    Row(name="model", role=Role.VIEWER, args=("stored",)),
    Row(name="models_look", role=Role.OPERATOR, args=("box",), method="post"),
    Row(name="model_delete", role=Role.EDITOR, args=("stored",)),
    Row(name="model_delete", role=Role.EDITOR, args=("stored",), method="post"),
    Row(name="model_delete_look", role=Role.EDITOR, args=("stored",), data={"asked": "none"}),
    Row(name="download_new", role=Role.OPERATOR),
    Row(name="download_look", role=Role.OPERATOR, data={"box": "rtx8", "asked": "none"}),
    Row(
        name="download_start",
        role=Role.OPERATOR,
        method="post",
        data={"box": "rtx8", "of": "Qwen/Qwen3-8B"},
    ),
    Row(name="download_ask", role=Role.OPERATOR, args=("download", "verb")),
    Row(name="download_act", role=Role.OPERATOR, args=("download", "verb"), method="post"),
    Row(name="checkpoint", role=Role.VIEWER, data={"of": "Qwen/Qwen3-8B"}),
    Row(name="run", role=Role.VIEWER, args=("run",)),
    Row(name="run_log", role=Role.VIEWER, args=("run",)),
    Row(name="chat", role=Role.OPERATOR),
    Row(name="chat_completions", role=Role.OPERATOR, method="post"),
    Row(name="chat_fix", role=Role.OPERATOR, args=("server", "rule"), method="post"),
    Row(name="chat_conversation", role=Role.OPERATOR, args=("talk",)),
    Row(name="compare", role=Role.OPERATOR),
    Row(name="comparison", role=Role.OPERATOR, args=("compared",)),
    Row(name="conversations", role=Role.OPERATOR),
    Row(name="conversation", role=Role.OPERATOR, args=("talk",)),
    Row(name="conversation", role=Role.OPERATOR, args=("talk",), method="post"),
    Row(name="conversation_delete", role=Role.OPERATOR, args=("talk",), method="post"),
    Row(name="conversation_restore", role=Role.OPERATOR, args=("talk",), method="post"),
    Row(name="conversation_share", role=Role.OPERATOR, args=("talk",), method="post"),
    Row(name="conversation_unshare", role=Role.OPERATOR, args=("talk",), method="post"),
    Row(name="conversation_shared", role=Role.VIEWER, args=("shared",)),
    Row(name="presets", role=Role.OPERATOR, args=("server",)),
    Row(name="presets", role=Role.OPERATOR, args=("server",), method="post"),
    Row(name="preset_delete", role=Role.OPERATOR, args=("server", "preset"), method="post"),
    Row(name="login", role=PUBLIC),
    Row(name="login", role=PUBLIC, method="post"),
    Row(name="join", role=PUBLIC, args=("token",)),
    Row(name="join", role=PUBLIC, args=("token",), method="post"),
    Row(name="logout", role=Role.VIEWER, method="post"),
    Row(name="terminal", role=PUBLIC),
    Row(name="keys", role=Role.VIEWER),
    Row(name="keys", role=Role.VIEWER, method="post"),
    Row(name="key_revoke", role=Role.VIEWER, args=("key",), method="post"),
    Row(name="password", role=Role.VIEWER),
    Row(name="password", role=Role.VIEWER, method="post"),
    Row(name="alerts", role=Role.VIEWER),
    Row(name="alert_acknowledge", role=Role.OPERATOR, args=("alert",), method="post"),
    Row(name="outlets", role=Role.ADMIN),
    Row(name="outlet_add", role=Role.ADMIN, method="post"),
    Row(name="outlet_edit", role=Role.ADMIN, args=("outlet",)),
    Row(name="outlet_edit", role=Role.ADMIN, args=("outlet",), method="post"),
    Row(name="outlet_delete", role=Role.ADMIN, args=("outlet",), method="post"),
    Row(name="outlet_test", role=Role.ADMIN, args=("outlet",), method="post"),
    Row(name="images", role=Role.VIEWER),
    Row(name="image", role=Role.VIEWER, args=("image",)),
    Row(name="image_ask", role=Role.OPERATOR, args=("image",), method="post"),
    Row(name="images_look", role=Role.OPERATOR, args=("box",), method="post"),
    Row(name="images_news", role=Role.OPERATOR, args=("box",), method="post"),
    Row(name="image_pull", role=Role.EDITOR, args=("box",), method="post"),
    Row(name="images_prune", role=Role.ADMIN, args=("box",)),
    Row(name="images_prune_now", role=Role.ADMIN, args=("box",), method="post"),
    Row(name="image_jobs", role=Role.VIEWER),
    Row(name="image_job", role=Role.VIEWER, args=("job",)),
    Row(name="image_job_log", role=Role.VIEWER, args=("job",)),
    Row(name="image_job_text", role=Role.VIEWER, args=("job",)),
    Row(name="image_job_cancel", role=Role.EDITOR, args=("job",), method="post"),
    Row(name="image_job_again", role=Role.EDITOR, args=("job",), method="post"),
    Row(name="image_job_away", role=Role.OPERATOR, args=("job",), method="post"),
    Row(name="news_pull", role=Role.EDITOR, args=("news",), method="post"),
    Row(name="news_move_ask", role=Role.EDITOR, args=("news", "way")),
    Row(name="news_move", role=Role.EDITOR, args=("news", "way"), method="post"),
    Row(name="registry_logins", role=Role.ADMIN),
    Row(name="registry_login_add", role=Role.ADMIN, method="post"),
    Row(name="registry_login_edit", role=Role.ADMIN, args=("registry",)),
    Row(name="registry_login_edit", role=Role.ADMIN, args=("registry",), method="post"),
    Row(name="registry_login_delete", role=Role.ADMIN, args=("registry",), method="post"),
    Row(name="registry_login_test", role=Role.ADMIN, args=("registry",), method="post"),
    Row(name="profile_build", role=Role.EDITOR, args=("server",), method="post"),
    Row(name="profile_built", role=Role.VIEWER, args=("server",)),
    Row(name="profile_use_build", role=Role.EDITOR, args=("server",), method="post"),
    Row(name="activity", role=Role.ADMIN),
    Row(name="old_ports", role=Role.ADMIN),
    Row(name="old_port_close", role=Role.ADMIN, args=("number",), method="post"),
    Row(name="usage", role=Role.OPERATOR),
    Row(name="usage_csv", role=Role.OPERATOR),
    Row(name="gateway", role=Role.OPERATOR),
    Row(name="activity_csv", role=Role.ADMIN),
    Row(name="settings", role=Role.VIEWER),
    Row(name="person_invite", role=Role.ADMIN, method="post", data={"role": "4"}),
    Row(name="person_reset", role=Role.ADMIN, args=("person",), method="post"),
    Row(name="person_role", role=Role.ADMIN, args=("person",), method="post", data={"role": "4"}),
    Row(name="person_active", role=Role.ADMIN, args=("person",), method="post"),
    Row(name="invite_end", role=Role.ADMIN, args=("invite",), method="post"),
    Row(name="secret_add", role=Role.ADMIN, method="post"),
    Row(name="secret_replace", role=Role.ADMIN, args=("secret",), method="post"),
    Row(name="secret_delete", role=Role.ADMIN, args=("secret",), method="post"),
    Row(name="box_settings", role=Role.ADMIN, args=("box",), method="post"),
]

# Sockets by their pattern in routing.py, with a path that it matches ({run}: a key of Things).
SOCKETS = {
    "ws/live/": ("/ws/live/", Role.VIEWER),
    "ws/runs/<int:run_id>/log/": ("/ws/runs/{run}/log/", Role.VIEWER),
}


type Things = dict[str, Any]


def made() -> Things:
    """One of each thing that an address may name."""
    # Without a password: hashing one for every test would take most of the time.
    ada = User.objects.create(username="ada", role=Role.ADMIN)
    server = factories.server(factories.box("rtx8"))
    run = factories.run(server, State.READY)
    invite, _token = Invite.make(role=Role.VIEWER, by=None)
    group = factories.group()
    return {
        "box": "rtx8",
        "server": server.slug,
        "version": 1,
        "number": 0,
        "recipe": "try-without-gpu",
        "overlay": "metrics",
        "group": group.slug,
        "rule": "unknown-flag",
        "form": "yaml",
        "run": run.pk,
        "talk": "mabc0123",
        "compared": "mcompared1",
        "preset": Preset.objects.create(profile=server.profile, name="careful", values={}).pk,
        "shared": Conversation.objects.create(person=ada, key="mabc0123", token="shared-one").token,
        "stored": factories.stored(server.box).pk,
        "download": factories.download(server.box).pk,
        "verb": "cancel",
        "secret": Secret.seal("HF_TOKEN", "hf_not_a_real_token", None).pk,
        "invite": invite.pk,
        "person": ada.pk,
        "key": Key.make(ada, "laptop", Role.ADMIN, expires_at=None)[0].pk,
        "token": "no-such-token",
        "action": "adopt",
        "left": "container-0123456789ab",
        "container": "0123456789ab",
        "alert": factories.alert(server.box).pk,
        "outlet": factories.outlet().pk,
        "image": shelves.stored_image(server.box).pk,
        "job": shelves.image_job(server.box).pk,
        "news": shelves.tag_news(server.box).pk,
        "way": "newer",
        "registry": shelves.registry_login().pk,
        "boot": factories.boot(server.box).pk,
    }
