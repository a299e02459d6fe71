"""Files of an installation beside the code: folders, settings, limits, units."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

from inferdash.service import layout, units
from inferdash.service.layout import Account, ServiceError, as_service, run, say

ROOT = Path(__file__).resolve().parent.parent.parent
# Of a `make up` that becomes a service. Redis' socket and locks are made anew.
TAKEN_OVER = ("install.id", "secrets.key", "django.key")
DATABASE = "inferdash.sqlite3"
ADMIN = "root"  # whose the settings are


def make_folders(who: Account) -> None:
    layout.SETTINGS.mkdir(mode=0o755, parents=True, exist_ok=True)
    layout.DATA.mkdir(mode=0o700, parents=True, exist_ok=True)
    layout.DATA.chmod(0o700)
    owner = f"{who.user}:{who.group}"
    if layout.DATA.owner() != who.user:
        run(["chown", "-R", owner, str(layout.DATA)])
    if not who.is_ours:
        # What is not there when the watcher starts, systemd does not let it write into.
        cache = who.home / ".cache/huggingface"
        run(["runuser", "-u", who.user, "--", "mkdir", "-p", str(cache)])


def write_settings(who: Account, release: str) -> None:
    """Once: from then on they are the admin's. The services may read them, not write them."""
    if not layout.ENV_FILE.exists():
        own = ROOT / ".env"
        text = (own if own.is_file() else ROOT / ".env.example").read_text()
        if "\nINFERDASH_HOME=" not in f"\n{text}":
            text += f"\n# Whose home ~ in a profile's mounts means.\nINFERDASH_HOME={_home(who)}\n"
        _write(layout.ENV_FILE, text, who)
        say(f"settings: {layout.ENV_FILE}")
    if not layout.BOX_FILE.exists():
        code = f"from servers.judge.runs.limits import default_text; print(default_text({str(_home(who))!r}), end='')"
        _write(layout.BOX_FILE, as_service(who, release, "-c", code), who)
        say(f"what containers may do on this box: {layout.BOX_FILE}")


def _home(who: Account) -> Path:
    """Whose models these are: a person's, not the system user's, who has no home."""
    if not who.is_ours:
        return who.home
    person = os.environ.get("SUDO_USER", "")
    return Path(f"~{person}").expanduser() if person and person != "root" else Path("/srv")


def _write(path: Path, text: str, who: Account) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    shutil.chown(path, ADMIN, who.group)
    path.chmod(0o640)


def take_over(source: Path, who: Account, release: str) -> None:
    """The data of a `make up`, so that its engines and people go on. Raises ServiceError."""
    if not (source / DATABASE).is_file():
        raise ServiceError(f"{source} is no data folder of make up: it has no {DATABASE}.")
    if (layout.DATA / DATABASE).exists():
        raise ServiceError(f"{layout.DATA} has a database already, which is not written over.")
    lock = source / "up.lock"
    if lock.exists():
        with lock.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ServiceError(
                    f"make up still runs with {source}: stop it first (Ctrl-C). Engines go on."
                ) from error
    for name in TAKEN_OVER:
        if (source / name).is_file():
            shutil.copy2(source / name, layout.DATA / name)
    for path in source.glob(f"{DATABASE}*"):
        shutil.copy2(path, layout.DATA / path.name)
    if (source / "box.toml").is_file() and not layout.BOX_FILE.exists():
        _write(layout.BOX_FILE, (source / "box.toml").read_text(), who)
    if (source / "tls").is_dir():
        # Whoever trusts its authority goes on doing so.
        shutil.copytree(source / "tls", layout.DATA / "tls", dirs_exist_ok=True)
    run(["chown", "-R", f"{who.user}:{who.group}", str(layout.DATA)])
    say(f"took over the data of {source}, which stay there as they are")


def write_units(who: Account, release: str, *, queue: str, own_redis: bool, part: str = "") -> None:
    """Beside the release too, so that it comes back with the units that it was made for."""
    made = units.files(who, queue=queue, own_redis=own_redis, part=part)
    kept = layout.RELEASES / release / "units"
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir()
    for name, text in made.items():
        (kept / name).write_text(text)
    use_units(release)
    layout.MANAGE.parent.mkdir(parents=True, exist_ok=True)
    layout.MANAGE.write_text(units.manage_script(who))
    layout.MANAGE.chmod(0o755)


def use_units(release: str) -> None:
    remove_units()
    layout.UNITS.mkdir(parents=True, exist_ok=True)
    for each in (layout.RELEASES / release / "units").iterdir():
        shutil.copy(each, layout.UNITS / each.name)
        (layout.UNITS / each.name).chmod(0o644)


def remove_units() -> None:
    """Ours; what an admin has added to them (systemctl edit) stays in folders beside them."""
    for pattern in ("inferdash-*.service", layout.TARGET):
        for each in layout.UNITS.glob(pattern):
            each.unlink()


def forget_snapshots(needed: str, *, keep: int) -> None:
    """All but the newest, and the one that a rollback needs."""
    if not layout.SNAPSHOTS.is_dir():
        return
    for each in sorted(layout.SNAPSHOTS.iterdir())[:-keep]:
        if str(each) != needed:
            each.unlink()


def read_part() -> str:
    """What BOXES=1 or a join has made of the data: hub or box; "" of one box."""
    path = layout.DATA / "wire" / "wire.env"
    lines = path.read_text().splitlines() if path.exists() else []
    found = [each.partition("=")[2] for each in lines if each.startswith("INFERDASH_WIRE=")]
    return found[0] if found else ""


def install_id() -> str:
    path = layout.DATA / "install.id"
    return path.read_text().strip() if path.exists() else ""


def may_enter(who: Account, folder: Path) -> bool:
    command = ["runuser", "-u", who.user, "--", "test", "-x", str(folder)]
    return subprocess.run(command, check=False).returncode == 0
