"""systemd's units (Redis, web, worker and watcher, each shut in as far as its work allows), and systemd itself."""

import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from inferdash.service import layout
from inferdash.service.account import run
from inferdash.service.layout import Account, ServiceError, say
from inferdash.up import health

PYTHON = layout.CURRENT / ".venv/bin/python"

_TARGET = """\
[Unit]
Description=inferdash, the dashboard of this GPU box
Documentation=file:{current}/docs/install.md

[Install]
WantedBy=multi-user.target
"""

_UNIT = """\
[Unit]
Description={description}
PartOf=inferdash.target
{after}
# Never given up, as by make up: what it waits for may come hours later.
StartLimitIntervalSec=0

[Service]
Type=exec
User={user}
Group={group}
WorkingDirectory={current}
{environment}
ExecStart={command}
Restart=always
RestartSec=2
TimeoutStopSec=15
# Who has children ends them itself; what is left is killed.
KillMode=mixed
UMask=0077
{more}
NoNewPrivileges=yes
ProtectSystem=strict
ReadWritePaths={data}
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
ProtectHostname=yes
LockPersonality=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
# MemoryDenyWriteExecute= is absent: ctypes and cffi make the callbacks of C libraries at run time.

[Install]
WantedBy=inferdash.target
"""

_ALONE = """\
CapabilityBoundingSet=
PrivateDevices=yes
PrivateTmp=yes
PrivateUsers=yes
PrivateIPC=yes
ProtectClock=yes
ProtectHome=yes
ProtectKernelLogs=yes
ProtectProc=invisible"""

_REDIS = f"""\
{_ALONE}
# It listens on a socket in the data folder, and has no network at all.
PrivateNetwork=yes
RestrictAddressFamilies=AF_UNIX"""

_WEB = f"""\
# Who takes this process over is to have neither Docker nor the box's limits.
InaccessiblePaths=-/run/docker.sock -/run/containerd -/run/podman -{layout.BOX_FILE}
{_ALONE}
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK"""

# What both have beside Docker's socket, by which they could be root: the rest keeps accidents in.
_BOX = """\
{groups}# PrivateTmp=, PrivateUsers= and ProtectHome=yes are absent: whether a folder that a profile mounts
# is there, where its links lead and who may read it is looked up on the box itself, /tmp included.
ProtectHome=read-only
RuntimeDirectory=%N
Environment=TMPDIR=/run/%N
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK"""

_WORKER = """\
{box}
CapabilityBoundingSet=
PrivateDevices=yes
ProtectClock=yes
ProtectKernelLogs=yes"""

_WATCHER = """\
{box}
# Models are downloaded into these; further ones: systemctl edit inferdash-watcher.
{writes}# PrivateDevices=, DeviceAllow= and ProtectClock=, which is one, are absent: it reads the GPUs, and
# the names that their devices have in /proc/devices differ from driver to driver. PrivateIPC= is absent: it looks for shared
# memory that engines have left. ProtectProc= is absent: it says whose process holds which memory.
# The kernel's log, where drivers write what befell a GPU, is all that it may read as root would.
CapabilityBoundingSet=CAP_SYSLOG
AmbientCapabilities=CAP_SYSLOG
# NVML makes the devices by a program with root's rights, which NoNewPrivileges= forbids.
ExecStartPre=+-/bin/sh -c 'if command -v nvidia-modprobe >/dev/null; then nvidia-modprobe -c 0 -u; fi'
# It is who acts when memory runs out.
OOMScoreAdjust=-500"""


def files(account: Account, *, queue: str, own_redis: bool) -> dict[str, str]:
    """The unit files by name."""
    found = {layout.TARGET: _TARGET.format(current=layout.CURRENT)}
    on_redis = "inferdash-redis.service" if own_redis else ""
    after_box = (
        f"After=network-online.target docker.service docker.socket {on_redis}\n"
        "Wants=network-online.target docker.service"
    )
    groups = f"SupplementaryGroups={account.docker_group}\n" if account.docker_group else ""
    box = _BOX.format(groups=groups)
    writes = f"ReadWritePaths=-{account.home}/.cache/huggingface\n" if not account.is_ours else ""
    if own_redis:
        found["inferdash-redis.service"] = _unit(
            account,
            "inferdash: messages",
            "-m inferdash.up.redis",
            "After=local-fs.target",
            _REDIS,
        )
    found["inferdash-web.service"] = _unit(
        account,
        "inferdash: pages",
        "-m inferdash.up.web",
        f"After=network-online.target {on_redis}\nWants=network-online.target",
        _WEB,
    )
    worker = (
        f"-m celery --quiet -A inferdash worker -Q {queue} --pool threads --concurrency 4 "
        "--loglevel INFO --without-gossip --without-mingle --without-heartbeat"
    )
    found["inferdash-worker.service"] = _unit(
        account, "inferdash: starts and stops", worker, after_box, _WORKER.format(box=box)
    )
    found["inferdash-watcher.service"] = _unit(
        account,
        "inferdash: watches engines and GPUs",
        "manage.py watch",
        after_box.replace("docker.socket", "docker.socket nvidia-persistenced.service"),
        _WATCHER.format(box=box, writes=writes),
    )
    return found


def _unit(account: Account, description: str, words: str, after: str, more: str) -> str:
    variables = layout.environment().items()
    return _UNIT.format(
        description=description,
        after="\n".join(line.rstrip() for line in after.splitlines()),
        user=account.user,
        group=account.group,
        current=layout.CURRENT,
        environment="\n".join(f"Environment={name}={value}" for name, value in variables),
        command=f"{PYTHON} {words}",
        more=more,
        data=layout.DATA,
    )


def manage_script(account: Account) -> str:
    """`inferdash-manage backup …`: manage.py as the services see the world."""
    variables = " ".join(f"{name}={value}" for name, value in layout.environment().items())
    also = f" -G {account.docker_group}" if account.docker_group else ""
    return f"""\
#!/bin/sh
# inferdash's own commands (backup, restore, leave, invite …), as the user of its services.
set -eu
if [ "$(id -u)" != 0 ]; then
    echo "inferdash-manage needs root: sudo inferdash-manage $*" >&2
    exit 1
fi
umask 077
# Files are named from where one stands.
as_service() {{
    runuser -u {account.user} -g {account.group}{also} -- env {variables} {PYTHON} {layout.CURRENT}/manage.py "$@"
}}
case "${{1:-}}" in
allow|forbid)
    # The services only read what containers may do here: they say what it is to be, root writes it.
    draft=$(mktemp {layout.BOX_FILE}.XXXXXX)
    trap 'rm -f "$draft"' EXIT
    as_service "$@" --as-text >"$draft"
    if cmp -s "$draft" {layout.BOX_FILE}; then
        echo "{layout.BOX_FILE} says so already."
        exit 0
    fi
    chown root:{account.group} "$draft"
    chmod 640 "$draft"
    mv "$draft" {layout.BOX_FILE}
    as_service "$@" --note-only
    ;;
*)
    as_service "$@"
    ;;
esac
"""


_RUNS = Path("/run/systemd/system")


def require_systemd() -> None:
    """Raises ServiceError where systemd does not run."""
    if not _RUNS.is_dir():
        raise ServiceError(
            "systemd does not run here. Use make up under whatever starts programs on this "
            "machine, or docker compose; --no-start only writes the files."
        )


def start() -> None:
    run(["systemctl", "daemon-reload"])
    for name in (layout.TARGET, *services()):
        run(["systemctl", "--quiet", "enable", name])
    run(["systemctl", "restart", layout.TARGET])
    # A unit that was stopped by itself is not started by the restart of what it is part of.
    run(["systemctl", "start", *services()])


def stop() -> None:
    if not _RUNS.is_dir() or not services():
        return
    say("stopping web, worker and watcher; engines keep running")
    run(["systemctl", "stop", layout.TARGET, *services()])


def forget() -> None:
    if not _RUNS.is_dir():
        return
    for name in (layout.TARGET, *services()):
        subprocess.run(["systemctl", "--quiet", "disable", name], check=False, capture_output=True)
    subprocess.run(["systemctl", "daemon-reload"], check=False)


def services() -> list[str]:
    return sorted(each.name for each in layout.UNITS.glob("inferdash-*.service"))


def answers(url: str, *, within: float) -> bool:
    deadline = time.monotonic() + within
    context = health.make_unverified_context() if url.startswith("https:") else None
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(  # noqa: S310
                f"{url}/login/", timeout=10, context=context
            ) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    return False
