"""systemd's units (Redis, web, worker and watcher, each shut in as far as its work allows), and systemd itself."""

import re
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from inferdash.service import layout
from inferdash.service.layout import Account, ServiceError, run, say
from inferdash.up import health, plan

PYTHON = layout.CURRENT / ".venv/bin/python"

TEMPLATES = Path(__file__).with_name("templates")


# Of services whose restrictions are not those of their own name.
_BOX = "whole-box"
_HUB_REDIS = "hub-redis"
_AS_ROOT = "keeper"


def files(account: Account, *, queue: str, own_redis: bool, part: str = "") -> dict[str, str]:
    """The unit files by name. `part`: hub or box, of several boxes."""
    on_redis = "inferdash-redis.service" if own_redis or part == "hub" else ""
    if part == "hub":
        on_redis += " inferdash-postgres.service"
    after_web = f"After=network-online.target {on_redis}\nWants=network-online.target"
    after_box = (
        f"After=network-online.target docker.service docker.socket {on_redis}\n"
        "Wants=network-online.target docker.service"
    )
    after_watcher = after_box.replace("docker.socket", "docker.socket nvidia-persistenced.service")
    worker = " ".join(plan.worker_words(queue, threads=plan.WORKER_THREADS, level="INFO"))
    # Description, the words of its Python, and what it comes after.
    services = {
        "web": ("inferdash: pages", "-m inferdash.up.web", after_web),
        "worker": ("inferdash: starts and stops", worker, after_box),
        "watcher": ("inferdash: watches engines and GPUs", "manage.py watch", after_watcher),
    }
    templates = {}
    environment = layout.environment()
    if part == "hub":
        environment["INFERDASH_HUB_OWNER"] = account.user
        serve = "-m inferdash.wire.serve"
        services |= {
            "postgres": ("inferdash: database", f"{serve} postgres", "After=local-fs.target"),
            "redis": ("inferdash: messages", f"{serve} redis", "After=local-fs.target"),
            "keeper": ("inferdash: lets boxes in", f"{serve} keeper", after_web),
        }
        templates["redis"] = _HUB_REDIS
    elif part == "box":
        services = {"box": ("inferdash: a box of a hub", "-m inferdash.up", after_watcher)}
        templates["box"] = _BOX
    elif own_redis:
        words = "-m inferdash.up.redis"
        services["redis"] = ("inferdash: messages", words, "After=local-fs.target")
    groups = f"SupplementaryGroups={account.docker_group}\n" if account.docker_group else ""
    writes = f"ReadWritePaths=-{account.home}/.cache/huggingface\n" if not account.is_ours else ""
    alone, box = _fill("alone"), _fill("box", groups=groups)
    values = {"alone": alone, "box": box, "writes": writes, "box_file": layout.BOX_FILE}
    values["watcher"] = _fill("watcher", **values)
    made = {layout.TARGET: _fill("inferdash.target", current=layout.CURRENT) + "\n"}
    for name, (description, words, after) in services.items():
        text = _fill(
            "service",
            description=description,
            after="\n".join(line.rstrip() for line in after.splitlines()),
            who="" if name == _AS_ROOT else f"User={account.user}\nGroup={account.group}\n",
            current=layout.CURRENT,
            environment="\n".join(
                f"Environment={name}={value}" for name, value in environment.items()
            ),
            command=f"{PYTHON} {words}",
            more=_fill(templates.get(name, name), **values),
            data=layout.DATA,
        )
        made[f"inferdash-{name}.service"] = text + "\n"
    return made


def manage_script(account: Account) -> str:
    """`inferdash-manage backup …`: manage.py as the services see the world."""
    text = _fill(
        "inferdash-manage.sh",
        user=account.user,
        group=account.group,
        also=f" -G {account.docker_group}" if account.docker_group else "",
        variables=" ".join(f"{name}={value}" for name, value in layout.environment().items()),
        python=PYTHON,
        current=layout.CURRENT,
        box_file=layout.BOX_FILE,
    )
    return text + "\n"


def _fill(template: str, **values: object) -> str:
    """With each @word@ in its place, and without the line's end after the last."""
    text = (TEMPLATES / template).read_text().removesuffix("\n")
    return re.sub(r"@(\w+)@", lambda found: str(values[found[1]]), text)


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
    say("stopping inferdash; engines keep running")
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
