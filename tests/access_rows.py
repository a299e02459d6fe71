"""Every address and every socket with the permission that it needs: add yours here."""

from dataclasses import dataclass, field
from typing import Any

from servers.models import (
    BoxUpgrade,
    Conversation,
    Invite,
    Key,
    Permission,
    Preset,
    PromptSet,
    Role,
    Secret,
    UpgradeTrial,
    User,
)
from servers.models.runs.run import RunState
from tests import factories, measurements, shelves
from tests.canary.answered import canary
from tests.links import linked

PUBLIC = None


@dataclass(frozen=True, kw_only=True)
class AccessRow:
    """An address by the name of its view, and the permission that it needs."""

    name: str
    needs: Permission | None  # PUBLIC: everybody, logged in or not
    method: str = "get"
    args: tuple[str, ...] = ()  # keys of Things
    data: dict[str, str] = field(default_factory=dict)
    wants_key: bool = False  # no login opens it, and no role


ROWS = [
    AccessRow(name="dashboard", needs=Permission.ACCOUNT),
    AccessRow(name="authority", needs=PUBLIC),
    AccessRow(name="search", needs=Permission.VIEW),
    AccessRow(name="servers", needs=Permission.VIEW),
    AccessRow(name="servers_bulk", needs=Permission.OPERATE, method="post"),
    AccessRow(name="server_favourite", needs=Permission.VIEW, args=("server",), method="post"),
    AccessRow(name="design", needs=Permission.ADMINISTER),
    AccessRow(name="box", needs=Permission.VIEW, args=("box",)),
    AccessRow(name="box_hardware", needs=Permission.VIEW, args=("box",)),
    AccessRow(name="box_permissions", needs=Permission.VIEW, args=("box",)),
    AccessRow(name="box_history", needs=Permission.VIEW, args=("box",)),
    AccessRow(
        name="metrics", wants_key=True, needs=PUBLIC
    ),  # it asks for a token of its own: test_metrics
    AccessRow(name="history", needs=Permission.VIEW, args=("box",)),
    AccessRow(name="history_points", needs=Permission.VIEW, args=("box",)),
    AccessRow(name="history_csv", needs=Permission.VIEW, args=("box",)),
    AccessRow(name="server_log", needs=Permission.VIEW, args=("server",)),
    AccessRow(name="server_metrics", needs=Permission.VIEW, args=("server",)),
    AccessRow(name="server_configuration", needs=Permission.VIEW, args=("server",)),
    AccessRow(name="server_runs", needs=Permission.VIEW, args=("server",)),
    AccessRow(name="server_checkup", needs=Permission.VIEW, args=("server",)),
    AccessRow(
        name="server_checkup_start",
        needs=Permission.OPERATE,
        args=("server",),
        method="post",
        data={"preset": "quick"},
    ),
    AccessRow(name="server_checkup_custom", needs=Permission.EDIT, args=("server",)),
    AccessRow(name="server_checkup_custom", needs=Permission.EDIT, args=("server",), method="post"),
    AccessRow(name="server_checkup_replay", needs=Permission.OPERATE, args=("server",)),
    AccessRow(
        name="server_checkup_replay", needs=Permission.OPERATE, args=("server",), method="post"
    ),
    AccessRow(name="benchmarks", needs=Permission.VIEW),
    AccessRow(name="benchmark", needs=Permission.VIEW, args=("result",)),
    AccessRow(name="benchmark_history", needs=Permission.VIEW),
    AccessRow(name="benchmark_compare", needs=Permission.VIEW),
    AccessRow(name="benchmark_export", needs=Permission.VIEW, args=("result", "result form")),
    AccessRow(name="benchmark_upload", needs=Permission.OPERATE, method="post"),
    AccessRow(name="benchmark_delete", needs=Permission.OPERATE, args=("result",), method="post"),
    AccessRow(name="benchmark_stop", needs=Permission.OPERATE, args=("result",), method="post"),
    AccessRow(
        name="server_answers_check",
        needs=Permission.OPERATE,
        args=("server",),
        method="post",
        data={"set": "quick"},
    ),
    AccessRow(name="server_try", needs=Permission.OPERATE, args=("server",)),
    AccessRow(name="server_try", needs=Permission.OPERATE, args=("server",), method="post"),
    AccessRow(name="trial", needs=Permission.VIEW, args=("trial",)),
    AccessRow(name="trial_decide", needs=Permission.OPERATE, args=("trial",), method="post"),
    AccessRow(name="canary", needs=Permission.VIEW, args=("canary",)),
    AccessRow(name="canary_stop", needs=Permission.OPERATE, args=("canary",), method="post"),
    AccessRow(name="canary_accept", needs=Permission.EDIT, args=("canary",), method="post"),
    AccessRow(name="server_figures", needs=Permission.VIEW, args=("server",)),
    AccessRow(
        name="box_boot_dismiss", needs=Permission.OPERATE, args=("box", "boot"), method="post"
    ),
    AccessRow(name="box_action_ask", needs=Permission.OPERATE, args=("box", "action", "left")),
    AccessRow(
        name="box_action", needs=Permission.OPERATE, args=("box", "action", "left"), method="post"
    ),
    AccessRow(name="box_claim", needs=Permission.OPERATE, args=("box",)),
    AccessRow(name="box_claim", needs=Permission.OPERATE, args=("box",), method="post"),
    AccessRow(name="server_claim", needs=Permission.OPERATE, args=("server",)),
    AccessRow(
        name="server_claim",
        needs=Permission.OPERATE,
        args=("server",),
        method="post",
        data={"hours": "1"},
    ),
    AccessRow(name="claim_end", needs=Permission.OPERATE, args=("claim",), method="post"),
    AccessRow(name="box_report", needs=Permission.VIEW, args=("box",)),
    AccessRow(name="box_report", needs=Permission.VIEW, args=("box",), method="post"),
    AccessRow(name="run_report", needs=Permission.VIEW, args=("run",)),
    AccessRow(name="run_report", needs=Permission.VIEW, args=("run",), method="post"),
    AccessRow(
        name="paste_report", needs=Permission.EDIT, method="post", data={"text": "vllm serve a/b"}
    ),
    AccessRow(name="found", needs=Permission.VIEW),
    AccessRow(name="box_found", needs=Permission.VIEW, args=("box",)),
    AccessRow(name="profile_compared", needs=Permission.VIEW, args=("server",)),
    AccessRow(name="box_profile", needs=Permission.EDIT, args=("box", "container"), method="post"),
    AccessRow(name="box_take_over_ask", needs=Permission.EDIT, args=("box", "container")),
    AccessRow(
        name="box_take_over",
        needs=Permission.EDIT,
        args=("box", "container"),
        method="post",
        data={"name": "speech-llm-1"},
    ),
    AccessRow(name="box_watch_ask", needs=Permission.EDIT, args=("box", "container")),
    AccessRow(name="box_watch", needs=Permission.EDIT, args=("box", "container"), method="post"),
    AccessRow(name="server_unwatch", needs=Permission.EDIT, args=("server",), method="post"),
    AccessRow(name="server", needs=Permission.VIEW, args=("server",)),
    AccessRow(name="server_stop_ask", needs=Permission.OPERATE, args=("server",)),
    AccessRow(name="server_start", needs=Permission.OPERATE, args=("server",), method="post"),
    AccessRow(name="run_start", needs=Permission.OPERATE, args=("server", "run"), method="post"),
    AccessRow(name="start_fix", needs=Permission.OPERATE, args=("server", "rule"), method="post"),
    AccessRow(
        name="run_fix", needs=Permission.OPERATE, args=("server", "run", "number"), method="post"
    ),
    AccessRow(name="server_stop", needs=Permission.OPERATE, args=("server",), method="post"),
    AccessRow(name="server_keep", needs=Permission.OPERATE, args=("server",), method="post"),
    AccessRow(name="server_let", needs=Permission.OPERATE, args=("server",), method="post"),
    AccessRow(name="server_restart", needs=Permission.OPERATE, args=("server",), method="post"),
    AccessRow(name="server_values", needs=Permission.EDIT, args=("server",), method="post"),
    AccessRow(name="server_remove", needs=Permission.OPERATE, args=("server",), method="post"),
    AccessRow(name="server_restore", needs=Permission.OPERATE, args=("server",), method="post"),
    AccessRow(name="profiles", needs=Permission.VIEW),
    AccessRow(name="profile", needs=Permission.VIEW, args=("server",)),
    AccessRow(name="profile_new", needs=Permission.EDIT),
    AccessRow(name="profile_new", needs=Permission.EDIT, method="post"),
    AccessRow(name="profile_edit", needs=Permission.EDIT, args=("server",)),
    AccessRow(name="profile_edit", needs=Permission.EDIT, args=("server",), method="post"),
    AccessRow(name="profile_start", needs=Permission.OPERATE, args=("server",), method="post"),
    AccessRow(name="profile_place", needs=Permission.EDIT, args=("server",), method="post"),
    AccessRow(name="profile_favourite", needs=Permission.VIEW, args=("server",), method="post"),
    AccessRow(name="profile_known", needs=Permission.VIEW, args=("server", "server")),
    AccessRow(name="profile_version", needs=Permission.VIEW, args=("server", "version")),
    AccessRow(
        name="version_restore", needs=Permission.EDIT, args=("server", "version"), method="post"
    ),
    AccessRow(name="profile_paste", needs=Permission.EDIT),
    AccessRow(
        name="profile_paste", needs=Permission.EDIT, method="post", data={"text": "vllm serve a/b"}
    ),
    AccessRow(name="profile_flags", needs=Permission.EDIT, data={"engine": "vllm"}),
    AccessRow(name="profile_models", needs=Permission.EDIT, data={"box": "1"}),
    AccessRow(name="profile_images", needs=Permission.EDIT, data={"box": "1"}),
    AccessRow(name="profile_check", needs=Permission.EDIT, method="post"),
    AccessRow(name="profile_paths", needs=Permission.EDIT, method="post"),
    AccessRow(name="profile_fit", needs=Permission.EDIT, method="post"),
    AccessRow(name="profile_fix_form", needs=Permission.EDIT, args=("rule",), method="post"),
    AccessRow(name="profile_fix", needs=Permission.OPERATE, args=("server", "rule"), method="post"),
    AccessRow(name="profile_export", needs=Permission.VIEW, args=("server", "form")),
    AccessRow(name="recipes", needs=Permission.VIEW),
    AccessRow(name="recipe", needs=Permission.VIEW, args=("recipe",)),
    AccessRow(name="profile_overlays", needs=Permission.EDIT, args=("server",)),
    AccessRow(name="profile_overlay", needs=Permission.EDIT, args=("server", "overlay")),
    AccessRow(
        name="profile_overlay", needs=Permission.EDIT, args=("server", "overlay"), method="post"
    ),
    AccessRow(name="profile_group", needs=Permission.EDIT, args=("server", "group")),
    AccessRow(name="profile_group", needs=Permission.EDIT, args=("server", "group"), method="post"),
    AccessRow(name="groups", needs=Permission.VIEW),
    AccessRow(name="group", needs=Permission.VIEW, args=("group",)),
    AccessRow(name="group_new", needs=Permission.OPERATE),
    AccessRow(name="group_new", needs=Permission.OPERATE, method="post"),
    AccessRow(name="group_edit", needs=Permission.OPERATE, args=("group",)),
    AccessRow(name="group_edit", needs=Permission.OPERATE, args=("group",), method="post"),
    AccessRow(
        name="group_restore", needs=Permission.OPERATE, args=("group", "version"), method="post"
    ),
    AccessRow(name="group_delete", needs=Permission.OPERATE, args=("group",), method="post"),
    AccessRow(name="models", needs=Permission.VIEW),
    AccessRow(name="model", needs=Permission.VIEW, args=("stored",)),
    AccessRow(name="models_look", needs=Permission.OPERATE, args=("box",), method="post"),
    AccessRow(name="model_delete", needs=Permission.EDIT, args=("stored",)),
    AccessRow(name="model_delete", needs=Permission.EDIT, args=("stored",), method="post"),
    AccessRow(
        name="model_delete_look", needs=Permission.EDIT, args=("stored",), data={"asked": "none"}
    ),
    AccessRow(name="download_new", needs=Permission.OPERATE),
    AccessRow(
        name="download_look", needs=Permission.OPERATE, data={"box": "rtx8", "asked": "none"}
    ),
    AccessRow(
        name="download_start",
        needs=Permission.OPERATE,
        method="post",
        data={"box": "rtx8", "of": "Qwen/Qwen3-8B"},
    ),
    AccessRow(name="download_ask", needs=Permission.OPERATE, args=("download", "verb")),
    AccessRow(
        name="download_act", needs=Permission.OPERATE, args=("download", "verb"), method="post"
    ),
    AccessRow(name="checkpoint", needs=Permission.VIEW, data={"of": "Qwen/Qwen3-8B"}),
    AccessRow(name="run", needs=Permission.VIEW, args=("run",)),
    AccessRow(name="run_log", needs=Permission.VIEW, args=("run",)),
    AccessRow(name="chat", needs=Permission.CHAT),
    AccessRow(name="chat_completions", needs=Permission.CHAT, method="post"),
    # Others' answers are not there for anybody: the one of these keys is nobody's.
    AccessRow(name="chat_answer", needs=Permission.CHAT, args=("talk", "talk")),
    AccessRow(name="chat_answer_stop", needs=Permission.CHAT, args=("talk", "talk"), method="post"),
    AccessRow(name="chat_fix", needs=Permission.OPERATE, args=("server", "rule"), method="post"),
    AccessRow(name="chat_conversation", needs=Permission.CHAT, args=("talk",)),
    AccessRow(name="prompt_sets", needs=Permission.OPERATE),
    AccessRow(name="prompt_set_new", needs=Permission.OPERATE),
    AccessRow(name="prompt_set_new", needs=Permission.OPERATE, method="post"),
    AccessRow(name="prompt_set", needs=Permission.OPERATE, args=("prompts",)),
    AccessRow(name="prompt_set_edit", needs=Permission.OPERATE, args=("prompts",)),
    AccessRow(name="prompt_set_edit", needs=Permission.OPERATE, args=("prompts",), method="post"),
    AccessRow(name="prompt_set_delete", needs=Permission.OPERATE, args=("prompts",), method="post"),
    AccessRow(name="round_begin", needs=Permission.OPERATE, args=("prompts",), method="post"),
    AccessRow(
        name="round_answer", needs=Permission.OPERATE, args=("round", "number"), method="post"
    ),
    AccessRow(name="round_delete", needs=Permission.OPERATE, args=("round",), method="post"),
    AccessRow(name="compare", needs=Permission.CHAT),
    AccessRow(name="comparison", needs=Permission.CHAT, args=("compared",)),
    AccessRow(name="conversations", needs=Permission.CHAT),
    AccessRow(name="conversation", needs=Permission.CHAT, args=("talk",)),
    AccessRow(name="conversation", needs=Permission.CHAT, args=("talk",), method="post"),
    AccessRow(name="conversation_delete", needs=Permission.CHAT, args=("talk",), method="post"),
    AccessRow(name="conversation_restore", needs=Permission.CHAT, args=("talk",), method="post"),
    AccessRow(name="conversation_share", needs=Permission.CHAT, args=("talk",), method="post"),
    AccessRow(name="conversation_unshare", needs=Permission.CHAT, args=("talk",), method="post"),
    AccessRow(name="conversation_shared", needs=Permission.ACCOUNT, args=("shared",)),
    AccessRow(name="presets", needs=Permission.OPERATE, args=("server",)),
    AccessRow(name="presets", needs=Permission.OPERATE, args=("server",), method="post"),
    AccessRow(
        name="preset_delete", needs=Permission.OPERATE, args=("server", "preset"), method="post"
    ),
    AccessRow(name="login", needs=PUBLIC),
    AccessRow(name="login", needs=PUBLIC, method="post"),
    AccessRow(name="join", needs=PUBLIC, args=("token",)),
    AccessRow(name="join", needs=PUBLIC, args=("token",), method="post"),
    AccessRow(name="logout", needs=Permission.ACCOUNT, method="post"),
    AccessRow(name="terminal", needs=PUBLIC),
    AccessRow(name="keys", needs=Permission.ACCOUNT),
    AccessRow(name="keys", needs=Permission.ACCOUNT, method="post"),
    AccessRow(name="key_new", needs=Permission.ACCOUNT),
    AccessRow(name="key_revoke", needs=Permission.ACCOUNT, args=("key",)),
    AccessRow(name="key_revoke", needs=Permission.ACCOUNT, args=("key",), method="post"),
    AccessRow(name="password", needs=Permission.ACCOUNT),
    AccessRow(name="password", needs=Permission.ACCOUNT, method="post"),
    AccessRow(name="alerts", needs=Permission.VIEW),
    AccessRow(name="alert_acknowledge", needs=Permission.OPERATE, args=("alert",), method="post"),
    AccessRow(name="notice_dismiss", needs=Permission.VIEW, method="post"),
    AccessRow(name="channels", needs=Permission.ADMINISTER),
    AccessRow(name="channels_old", needs=Permission.ACCOUNT),
    AccessRow(name="channel_old", needs=Permission.ACCOUNT, args=("channel",)),
    AccessRow(name="channel_add", needs=Permission.ADMINISTER),
    AccessRow(name="channel_add", needs=Permission.ADMINISTER, method="post"),
    AccessRow(name="channel_edit", needs=Permission.ADMINISTER, args=("channel",)),
    AccessRow(name="channel_edit", needs=Permission.ADMINISTER, args=("channel",), method="post"),
    AccessRow(name="channel_delete", needs=Permission.ADMINISTER, args=("channel",), method="post"),
    AccessRow(name="channel_test", needs=Permission.ADMINISTER, args=("channel",), method="post"),
    AccessRow(name="images", needs=Permission.VIEW),
    AccessRow(name="image", needs=Permission.VIEW, args=("image",)),
    AccessRow(name="image_ask", needs=Permission.OPERATE, args=("image",), method="post"),
    AccessRow(name="images_look", needs=Permission.OPERATE, args=("box",), method="post"),
    AccessRow(name="images_news", needs=Permission.OPERATE, args=("box",), method="post"),
    AccessRow(name="image_pull", needs=Permission.EDIT, data={"box": "rtx8"}, method="post"),
    AccessRow(name="images_prune", needs=Permission.ADMINISTER, args=("box",)),
    AccessRow(name="images_prune_now", needs=Permission.ADMINISTER, args=("box",), method="post"),
    AccessRow(name="image_jobs", needs=Permission.VIEW),
    AccessRow(name="image_job", needs=Permission.VIEW, args=("job",)),
    AccessRow(name="image_job_log", needs=Permission.VIEW, args=("job",)),
    AccessRow(name="image_job_text", needs=Permission.VIEW, args=("job",)),
    AccessRow(name="image_job_cancel", needs=Permission.EDIT, args=("job",), method="post"),
    AccessRow(name="image_job_again", needs=Permission.EDIT, args=("job",), method="post"),
    AccessRow(name="image_job_away", needs=Permission.OPERATE, args=("job",), method="post"),
    AccessRow(name="news_pull", needs=Permission.EDIT, args=("news",), method="post"),
    AccessRow(name="news_move_ask", needs=Permission.EDIT, args=("news", "way")),
    AccessRow(name="news_move", needs=Permission.EDIT, args=("news", "way"), method="post"),
    AccessRow(name="registry_logins", needs=Permission.ADMINISTER),
    AccessRow(name="registry_logins_old", needs=Permission.ACCOUNT),
    AccessRow(name="registry_login_old", needs=Permission.ACCOUNT, args=("registry",)),
    AccessRow(name="registry_login_add", needs=Permission.ADMINISTER),
    AccessRow(name="registry_login_add", needs=Permission.ADMINISTER, method="post"),
    AccessRow(name="registry_login_edit", needs=Permission.ADMINISTER, args=("registry",)),
    AccessRow(
        name="registry_login_edit", needs=Permission.ADMINISTER, args=("registry",), method="post"
    ),
    AccessRow(
        name="registry_login_delete", needs=Permission.ADMINISTER, args=("registry",), method="post"
    ),
    AccessRow(
        name="registry_login_test", needs=Permission.ADMINISTER, args=("registry",), method="post"
    ),
    AccessRow(name="profile_build", needs=Permission.EDIT, args=("server",), method="post"),
    AccessRow(name="profile_built", needs=Permission.VIEW, args=("server",)),
    AccessRow(name="profile_use_build", needs=Permission.EDIT, args=("server",), method="post"),
    AccessRow(name="activity", needs=Permission.ADMINISTER),
    AccessRow(name="legacy_ports", needs=Permission.ADMINISTER),
    AccessRow(name="legacy_ports", needs=Permission.ADMINISTER, method="post"),
    AccessRow(
        name="legacy_port_close", needs=Permission.ADMINISTER, args=("number",), method="post"
    ),
    AccessRow(name="usage", needs=Permission.OPERATE),
    AccessRow(name="usage_csv", needs=Permission.OPERATE),
    AccessRow(name="gateway", needs=Permission.CHAT),
    AccessRow(name="requests", needs=Permission.CHAT),
    AccessRow(name="capture", needs=Permission.ADMINISTER),
    AccessRow(
        name="capture",
        needs=Permission.ADMINISTER,
        method="post",
        data={"minutes": "15", "only": "", "reason": "wrong answers"},
    ),
    AccessRow(name="capture_end", needs=Permission.ADMINISTER, args=("capture",), method="post"),
    AccessRow(name="captured", needs=Permission.ADMINISTER, args=("exchange",)),
    AccessRow(name="captured_download", needs=Permission.ADMINISTER),
    AccessRow(name="captured_delete", needs=Permission.ADMINISTER, method="post"),
    AccessRow(name="activity_csv", needs=Permission.ADMINISTER),
    AccessRow(name="settings", needs=Permission.ACCOUNT),
    AccessRow(name="settings_about", needs=Permission.ACCOUNT),
    AccessRow(name="notification_choices", needs=Permission.VIEW, method="post"),
    AccessRow(name="settings_people", needs=Permission.ADMINISTER),
    AccessRow(name="settings_secrets", needs=Permission.ADMINISTER),
    AccessRow(name="settings_boxes", needs=Permission.ADMINISTER),
    AccessRow(name="person_invite", needs=Permission.ADMINISTER),
    AccessRow(name="person_invite", needs=Permission.ADMINISTER, method="post", data={"role": "4"}),
    AccessRow(name="person_reset", needs=Permission.ADMINISTER, args=("person",), method="post"),
    AccessRow(
        name="person_role",
        needs=Permission.ADMINISTER,
        args=("person",),
        method="post",
        data={"role": "4"},
    ),
    AccessRow(name="person_active", needs=Permission.ADMINISTER, args=("person",), method="post"),
    AccessRow(name="invite_end", needs=Permission.ADMINISTER, args=("invite",), method="post"),
    AccessRow(name="secret_add", needs=Permission.ADMINISTER),
    AccessRow(name="secret_add", needs=Permission.ADMINISTER, method="post"),
    AccessRow(name="secret_replace", needs=Permission.ADMINISTER, args=("secret",)),
    AccessRow(name="secret_replace", needs=Permission.ADMINISTER, args=("secret",), method="post"),
    AccessRow(name="secret_delete", needs=Permission.ADMINISTER, args=("secret",), method="post"),
    AccessRow(name="box_settings", needs=Permission.ADMINISTER, args=("box",)),
    AccessRow(name="box_settings", needs=Permission.ADMINISTER, args=("box",), method="post"),
    AccessRow(name="box_add", needs=Permission.ADMINISTER),
    AccessRow(name="box_add", needs=Permission.ADMINISTER, method="post"),
    AccessRow(
        name="box_withdraw", needs=Permission.ADMINISTER, args=("invitation",), method="post"
    ),
    AccessRow(name="box_let_in", needs=Permission.ADMINISTER, args=("asking",)),
    AccessRow(name="box_let_in", needs=Permission.ADMINISTER, args=("asking",), method="post"),
    AccessRow(name="box_refuse", needs=Permission.ADMINISTER, args=("asking",), method="post"),
    AccessRow(name="box_revoke", needs=Permission.ADMINISTER, args=("joined",)),
    AccessRow(name="box_revoke", needs=Permission.ADMINISTER, args=("joined",), method="post"),
    AccessRow(name="box_release", needs=Permission.ADMINISTER, args=("joined",), method="post"),
    AccessRow(name="box_bring_up", needs=Permission.ADMINISTER, args=("joined",)),
    AccessRow(name="box_bring_up", needs=Permission.ADMINISTER, args=("joined",), method="post"),
    AccessRow(name="box_stay", needs=Permission.ADMINISTER, args=("upgrade",), method="post"),
    AccessRow(name="box_remove", needs=Permission.ADMINISTER, args=("joined",)),
    AccessRow(name="box_remove", needs=Permission.ADMINISTER, args=("joined",), method="post"),
]

# Sockets by their pattern in routing.py, with a path that it matches ({run}: a key of Things).
SOCKETS = {
    "ws/live/": ("/ws/live/", Permission.ACCOUNT),
    "ws/notices/": ("/ws/notices/", Permission.VIEW),
    "ws/runs/<int:run_id>/log/": ("/ws/runs/{run}/log/", Permission.VIEW),
}


type Things = dict[str, Any]


def made() -> Things:
    """One of each thing that an address may name."""
    # Without a password: hashing one for every test would take most of the time.
    ada = User.objects.create(username="ada", role=Role.ADMIN)
    server = factories.server(factories.box("rtx8"))
    run = factories.run(server, RunState.READY)
    invite, _token = Invite.make(role=Role.VIEWER, by=None)
    group = factories.group()
    prompts = PromptSet.objects.create(name="Five", prompts=["Why?"])
    asking = linked.ask("laurel")
    return {
        "box": "rtx8",
        "prompts": prompts.pk,
        "round": prompts.prompt_runs.create(run=run, by=ada, prompts=prompts.prompts).pk,
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
        "channel": factories.outlet().pk,
        "image": shelves.stored_image(server.box).pk,
        "job": shelves.image_job(server.box).pk,
        "news": shelves.tag_news(server.box).pk,
        "way": "newer",
        "registry": shelves.registry_login().pk,
        "asking": asking.pk,
        "invitation": asking.invitation_id or 0,
        "joined": linked.attach(server.box).pk,
        "upgrade": BoxUpgrade.objects.create(box=server.box, version="1.3.0").pk,
        "boot": factories.boot(server.box).pk,
        "capture": factories.capture(ada).pk,
        "claim": factories.claim(server.box, ada, 7).pk,
        "exchange": factories.exchange(ada).pk,
        "result": measurements.benchmark(server).pk,
        "result form": "json",
        "canary": canary(server).pk,
        "trial": UpgradeTrial.objects.create(
            box=server.box, server=server, server_name=server.slug, old_run=server.run
        ).pk,
    }
