"""A launch as the values of the profile form, and back."""

import shlex
from collections.abc import Callable, Mapping
from typing import Any

from servers.forms.environment import split_secrets
from servers.judge.profiles.lint_rules import opens_the_box as opens_the_box
from servers.launch import durations
from servers.launch.commandline import build_context, lines, text_boxes
from servers.launch.engines import flagtext
from servers.launch.engines.launch import Launch
from servers.models.people.key import MASK

# The form's value is the launch's.
_SAME = (
    "engine", "image", "checkpoint", "revision", "served_name", "flags", "host_address",
    "network", "volumes", "mount_hf_cache", "pass_hf_token", "gpus", "shm_size", "grace",
    "runtime", "entrypoint", "ulimits", "cap_add", "devices", "security_opt", "cpuset_cpus",
    "user", "workdir", "pid", "privileged", "init", "ready_path", "ready_limit",
    "restart", "restart_tries", "restart_unhealthy", "start_with_box",
    "ask_when_ready", "ask_every", "log_must", "log_must_not",
    "aliases", "start_on_request", "hold_requests", "stop_idle", "when_idle",
    "parameters", "free_memory", "drop_cache", "digests", "dockerfile", "build_files",
)  # fmt: skip
# The same, but it only says something: the container does not depend on it.
_SAID = ("hardware", "expected")


def starts_the_same(cleaned: Mapping[str, Any], old: Launch) -> bool:
    """Whether the same would be started: name and notes alone are new."""
    same = {name: getattr(old, name) for name in _SAME} | {
        "env": old.env | dict.fromkeys(old.secret_env, MASK),
        "port": old.port or None,
        "host_port": old.host_port or None,
        "ipc_host": old.ipc == "host",
    }
    return all(name in cleaned and cleaned[name] == value for name, value in same.items())


def to_launch(
    cleaned: Mapping[str, Any],
    reasons: dict[str, str],
    *,
    kept: Mapping[str, int],
    seal: Callable[[str, str], int],
) -> Launch:
    """Values of secret variables are sealed; `kept` are those sealed before."""
    env, secret_env = split_secrets(cleaned["env"], kept=kept, seal=seal)
    return Launch(
        env=env,
        secret_env=secret_env,
        reasons=reasons,
        port=cleaned["port"] or 0,
        host_port=cleaned["host_port"] or 0,
        ipc="host" if cleaned["ipc_host"] else "",
        **{name: cleaned[name] for name in (*_SAME, *_SAID)},
    )


def initial(launch: Launch, *, secrets: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What the form shows of a launch: sealed secrets as a mask, pasted ones as they are."""
    values = {name: getattr(launch, name) for name in (*_SAME, *_SAID)}
    env = launch.env | dict.fromkeys(launch.secret_env, MASK) | dict(secrets or {})
    return values | {
        "flags": flagtext.flags_text(launch.flags, launch.reasons),
        "entrypoint": shlex.join(launch.entrypoint),
        "env": lines.environment_text(env, launch.reasons),
        "volumes": "\n".join(launch.volumes),
        "digests": "\n".join(f"{digest}  {path}" for path, digest in launch.digests.items()),
        "build_files": build_context.text(launch.build_files),
        "devices": "\n".join(launch.devices),
        "parameters": "\n".join(f"{k}={v}" for k, v in launch.parameters.items()),
        "log_must": "\n".join(launch.log_must),
        "log_must_not": "\n".join(launch.log_must_not),
        "cap_add": " ".join(launch.cap_add),
        "security_opt": " ".join(launch.security_opt),
        "ulimits": "\n".join(f"{name}={value}" for name, value in launch.ulimits.items()),
        "shm_size": text_boxes.size_text(launch.shm_size),
        "free_memory": text_boxes.size_text(launch.free_memory),
        "ready_limit": _span(launch.ready_limit),
        "restart_unhealthy": _span(launch.restart_unhealthy),
        "ask_every": _span(launch.ask_every),
        "aliases": ", ".join(launch.aliases),
        "hold_requests": _span(launch.hold_requests),
        "stop_idle": _span(launch.stop_idle),
        "ipc_host": launch.ipc == "host",
        "port": launch.port or None,
        "host_port": launch.host_port or None,
        "expected": "\n".join(f"{name}: {value}" for name, value in launch.expected.items()),
    }


def _span(seconds: int) -> str:
    return durations.format_duration(seconds) if seconds else ""
