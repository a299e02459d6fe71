"""`make install`, `make uninstall` and `make rollback`. Engines run on through all of it."""

import argparse
import os
import shutil
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from inferdash.service import files, layout, release, units
from inferdash.service.layout import Account, InstallRecord, ServiceError, as_service, say

KEPT_SNAPSHOTS = 5


def install(
    *, user: str, data: str, start: bool, snapshot: bool, boxes: bool = False, token: str = ""
) -> None:
    """Raises ServiceError; a migration that fails leaves everything as it was.

    `boxes`: as a hub from now on. `token`: as a box of the hub that has given it.
    """
    if start:
        units.require_systemd()
    before = layout.read_record()
    # Data that an uninstall has left are of the part that they were.
    part = before.part if before else files.read_part()
    _check_part(part, boxes=boxes, token=token)
    who = layout.choose(user, before.account if before else None)
    wanted = release.name()
    release.stage(wanted, before.release if before else "")
    release.check(who, wanted)
    files.make_folders(who)
    if data:
        files.take_over(Path(data), who, wanted)
    files.write_settings(who, wanted)
    if token or part == "box":
        _install_box(who, wanted, before, token, start=start)
        return
    # Before anything is stopped.
    told = as_service(who, wanted, "-m", "inferdash.service.address", "--can-encrypt")
    if before is None and start:
        _check_port(who, wanted)
    if before is not None and before.release != wanted:
        if boxes and not part:
            raise ServiceError("Upgrade first: make install. Then say make install BOXES=1.")
        now = _upgrade(before, who, wanted, snapshot=snapshot)
    else:
        if before is not None:
            units.stop()
        if boxes and not part:
            _set_up_hub(who, wanted, is_running=before is not None and start)
            part = "hub"
        _migrate(who, wanted, part)
        now = InstallRecord(account=who, release=wanted)
        now = replace(before or now, account=who, part=part)  # of the same release
    address, loopback, queue, redis = as_service(
        who, wanted, "-m", "inferdash.service.address"
    ).split()
    if part == "hub":
        as_service(who, wanted, "-m", "inferdash.wire.serve", "prepare")
    files.write_units(who, wanted, queue=queue, own_redis=redis == "own", part=part)
    release.switch(wanted)
    layout.record(now)
    release.forget_others(now.release, now.previous)
    files.forget_snapshots(now.snapshot, keep=KEPT_SNAPSHOTS)
    if start:
        units.start()
        if part == "hub":
            as_service(who, wanted, "-m", "inferdash.wire.serve", "await")
        _answer(who, wanted, address, loopback)
        for note in filter(None, told.splitlines()):
            say(note)
    else:
        say(
            "installed, and not started: systemctl daemon-reload; systemctl enable --now inferdash.target"
        )


def _check_part(part: str, *, boxes: bool, token: str) -> None:
    """Raises ServiceError where these data cannot become what is asked for."""
    if boxes and part == "box":
        raise ServiceError(
            "This machine is a box of another hub. To make it a hub, revoke it there, then say "
            "make uninstall PURGE=1 and make install BOXES=1; engines go on."
        )
    if token and part == "hub":
        raise ServiceError("This machine is a hub itself, and cannot join another one.")
    if token and part == "box" and os.environ.get("NEW_KEY") != "1":
        raise ServiceError(
            "This machine has joined a hub already. For a new key say NEW_KEY=1 besides. To join "
            "another hub say make uninstall PURGE=1 first; engines go on."
        )


def _set_up_hub(who: Account, wanted: str, *, is_running: bool) -> None:
    """Its rows move to PostgreSQL, and the old file stays. Raises ServiceError."""
    layout.make_wire_account(who)
    words = ("-m", "inferdash.wire.serve", "set-up")
    account = {"INFERDASH_HUB_ACCOUNT": layout.WIRE_ACCOUNT}
    try:
        layout.run_in_front(who, wanted, *words, **account)
    except BaseException:  # Ctrl-C, too: what ran before runs again, and the error goes on
        if is_running:
            units.start()  # as one box, which it still is
        raise


def _install_box(
    who: Account, wanted: str, before: InstallRecord | None, token: str, *, start: bool
) -> None:
    """It has no database of its own, and no pages. Raises ServiceError."""
    if token:
        _join(who, wanted, before, token, start=start)
    units.stop()
    files.write_units(who, wanted, queue="", own_redis=False, part="box")
    release.switch(wanted)
    now = replace(before or InstallRecord(account=who, release=wanted), account=who, part="box")
    if now.release != wanted:
        now = replace(now, release=wanted, previous=now.release, snapshot="")
    layout.record(now)
    release.forget_others(now.release, now.previous)
    if start:
        units.start()
        say("this box starts with its machine: journalctl -u inferdash-box -f")
        _tell_of_limits(who)


def _join(
    who: Account, wanted: str, before: InstallRecord | None, token: str, *, start: bool
) -> None:
    """Until an admin of the hub has let this machine in. Raises ServiceError."""
    is_running = before is not None and before.part == "box"
    if is_running:
        units.stop()  # its key is about to be another one
    try:
        words = {name: os.environ.get(name, "") for name in ("NAME", "NEW_KEY")}
        layout.run_in_front(
            who, wanted, "-m", "inferdash.wire.join", "--only", TOKEN=token, **words
        )
    except BaseException:  # Ctrl-C, too: as above
        if is_running and start:
            units.start()
        raise


def _upgrade(before: InstallRecord, who: Account, wanted: str, *, snapshot: bool) -> InstallRecord:
    if snapshot:
        # What stands in the way of a copy is said while everything still runs.
        as_service(who, wanted, "-m", "inferdash.service.snapshot", "check", "")
    units.stop()
    taken = ""
    try:
        if snapshot:
            taken = _take(who, before.release, f"before-{wanted}", before.part)
        _migrate(who, wanted, before.part)
    except ServiceError as error:
        if taken:
            _bring_back(who, before.release, taken, before.part)
        units.start()
        again = "as it was before" if taken else "with a database that nobody has brought back"
        raise ServiceError(
            f"The upgrade to {wanted} failed, and {before.release} runs again, {again}. {error}"
        ) from error
    return InstallRecord(
        account=who, release=wanted, previous=before.release, snapshot=taken, part=before.part
    )


def roll_back() -> None:
    """To the release and the database before the last upgrade. Raises ServiceError."""
    units.require_systemd()
    now = layout.read_record()
    if now is None:
        raise ServiceError("Nothing is installed here.")
    if now.part == "box" and now.previous:
        _roll_back_box(now)
        return
    if not (now.previous and now.snapshot):
        raise ServiceError(
            "There is nothing to roll back to: the last upgrade kept no copy of the database."
        )
    if not (layout.RELEASES / now.previous).is_dir() or not Path(now.snapshot).exists():
        raise ServiceError(f"{now.previous} or {now.snapshot} is gone, and cannot come back.")
    units.stop()
    newer = _take(now.account, now.release, f"rolled-back-{now.release}", now.part)
    _bring_back(now.account, now.previous, now.snapshot, now.part)
    if now.part == "hub":
        as_service(now.account, now.previous, "-m", "inferdash.wire.serve", "prepare")
    files.use_units(now.previous)
    release.switch(now.previous)
    layout.record(InstallRecord(account=now.account, release=now.previous, part=now.part))
    units.start()
    _address, loopback, *_rest = as_service(
        now.account, now.previous, "-m", "inferdash.service.address"
    ).split()
    _wait(loopback, "")
    say(
        f"{now.previous} runs again, with the database from before the upgrade. What was done "
        f"since then lies in {newer}, which {now.release} can read."
    )


def _roll_back_box(now: InstallRecord) -> None:
    """Its database is its hub's, which a rollback leaves alone. Raises ServiceError."""
    if not (layout.RELEASES / now.previous).is_dir():
        raise ServiceError(f"{now.previous} is gone, and cannot come back.")
    units.stop()
    files.use_units(now.previous)
    release.switch(now.previous)
    layout.record(InstallRecord(account=now.account, release=now.previous, part=now.part))
    units.start()
    say(f"{now.previous} runs again; Settings, Boxes on the hub says whether it suits the hub's")


def uninstall(*, purge: bool) -> None:
    has_data = layout.DATA.exists() or layout.SETTINGS.exists()
    if not layout.CODE.exists() and not (purge and has_data):
        raise ServiceError("Nothing is installed here.")
    install_id, part = files.install_id(), files.read_part()
    units.stop()
    units.forget()
    files.remove_units()
    layout.MANAGE.unlink(missing_ok=True)
    shutil.rmtree(layout.CODE, ignore_errors=True)
    if purge:
        shutil.rmtree(layout.DATA, ignore_errors=True)
        shutil.rmtree(layout.SETTINGS, ignore_errors=True)
        if part == "hub":
            layout.remove_wire_account()
        layout.remove_system_user()
        say("uninstalled, with all data and settings")
    else:
        say(
            f"uninstalled. Data stay in {layout.DATA}, settings in {layout.SETTINGS}: make install "
            "goes on with them; PURGE=1 takes them away too"
        )
    if install_id:
        say(f"engines keep running: docker ps --filter label=inferdash.install={install_id}")


def _check_port(who: Account, wanted: str) -> None:
    """What listens there already would answer in our place. Raises ServiceError."""
    try:
        as_service(who, wanted, "-m", "inferdash.service.address", "--is-free")
    except ServiceError as error:
        raise ServiceError(
            f"Stop what has the port (a make up? Its data come along: FROM=var), or write another "
            f"PORT into {layout.ENV_FILE}; then say make install again. {error}"
        ) from error


def _with_database(who: Account, of: str, part: str, *words: str) -> None:
    """While the services do not run; a hub's database is one of them. Raises ServiceError."""
    around = ("-m", "inferdash.wire.serve", "around") if part == "hub" else ()
    as_service(who, of, *around, *words)


def _migrate(who: Account, wanted: str, part: str) -> None:
    say("bringing the database up to date")
    _with_database(who, wanted, part, "manage.py", "migrate", "--noinput", "--verbosity", "0")


def _take(who: Account, of: str, name: str, part: str) -> str:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    path = layout.SNAPSHOTS / f"{stamp}-{name}"
    say(f"copying the database to {path}")
    _with_database(who, of, part, "-m", "inferdash.service.snapshot", "take", str(path))
    return str(path)


def _bring_back(who: Account, of: str, path: str, part: str) -> None:
    say(f"bringing back the database from {path}")
    _with_database(who, of, part, "-m", "inferdash.service.snapshot", "bring-back", path)


def _wait(loopback: str, remedy: str) -> None:
    """Until web answers. Raises ServiceError."""
    if not units.answers(loopback, within=90.0):
        raise ServiceError(
            f"web does not answer. journalctl -u inferdash-web -n 30 says why{remedy}."
        )


def _answer(who: Account, wanted: str, address: str, loopback: str) -> None:
    _wait(loopback, "; sudo make rollback goes back to the release before an upgrade")
    say(f"ready at {address}, and after every restart of this machine")
    said = as_service(
        who, wanted, "manage.py", "invite", "--first-admin", "--base-url", loopback
    ).strip()
    if said:
        say(f"the first admin opens this link, which works once: {said}")
    _tell_of_limits(who)


def _tell_of_limits(who: Account) -> None:
    if not who.docker_group:
        say(
            "Docker's socket was not found: install Docker, then say make install again, so that "
            "the services may use it"
        )
    home = Path(os.environ.get("SUDO_USER") and f"~{os.environ['SUDO_USER']}" or "~").expanduser()
    if home != Path("/root") and not files.may_enter(who, home):
        say(
            f"{who.user} may not look into {home}: models and folders there are not seen. Allow "
            f"it (setfacl -m u:{who.user}:x {home}), or install with RUN_AS={home.name}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="make", description=__doc__)
    names = parser.add_subparsers(dest="verb", required=True)
    adding = names.add_parser("install", help="also upgrades: with a copy of the database before")
    adding.add_argument("--as", dest="user", default="", metavar="USER", help="who it runs as")
    adding.add_argument("--from", dest="data", default="", metavar="VAR", help="take over its data")
    adding.add_argument("--boxes", action="store_true", help="as a hub, which boxes join")
    adding.add_argument("--join", action="store_true", help="as a box, by the token in TOKEN")
    adding.add_argument("--no-start", action="store_true", help="write all of it, start nothing")
    adding.add_argument("--no-snapshot", action="store_true", help="upgrade without a copy")
    removing = names.add_parser("uninstall", help="engines keep running, data stay")
    removing.add_argument("--purge", action="store_true", help="data and settings go too")
    names.add_parser("rollback", help="the release and the database before the last upgrade")
    options = parser.parse_args()
    if not layout.is_root():
        print(f"inferdash: this needs root: sudo make {options.verb}", file=sys.stderr)
        return 1
    try:
        if options.verb == "install":
            install(
                user=options.user,
                data=options.data,
                start=not options.no_start,
                snapshot=not options.no_snapshot,
                boxes=options.boxes,
                token=os.environ.pop("TOKEN", "") if options.join else "",
            )
        elif options.verb == "uninstall":
            uninstall(purge=options.purge)
        else:
            roll_back()
    except ServiceError as error:
        print(f"inferdash: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
