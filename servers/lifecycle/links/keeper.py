"""The keeper: it makes the hub's sshd, Redis and PostgreSQL let in the boxes that the rows name."""

import logging
import subprocess
import threading
from dataclasses import dataclass

import redis
from django.conf import settings
from django.db import InterfaceError, OperationalError, close_old_connections

from servers import events
from servers.host.links import redis_users
from servers.host.links.files import WireFiles
from servers.host.links.keys import KeyFileError, show_hash
from servers.host.links.sessions import SshdSessions
from servers.host.links.sshd import EnrolKey, HubSshd, LinkKey, SshdError, write_keys
from servers.lifecycle.links import grants
from servers.lifecycle.links.decisions import hold_twins
from servers.lifecycle.links.packing import BundleDesk
from servers.models import BoxInvitation, BoxLink
from servers.models.people.key import SecretError

log = logging.getLogger(__name__)

# A wake may be lost with Redis; a revoked box is to be cut within 5 s all the same.
LOOK_EVERY = 3.0
LOOKS_AFTER_CHANGE = 3
SSHD_PAUSE = 2.0  # seconds before it is started again


@dataclass(frozen=True, kw_only=True)
class WantedLink:
    """What a joined box is let in with."""

    slug: str
    role: str
    public_key: str
    port: int
    password: str

    @classmethod
    def read(cls, link: BoxLink) -> "WantedLink":
        """Raises SecretError."""
        assert link.box is not None
        assert link.port is not None
        return cls(
            slug=link.box.slug,
            role=link.role,
            public_key=link.public_key,
            port=link.port,
            password=link.reveal_password(),
        )


class HubKeeper:
    def __init__(self, sshd: HubSshd) -> None:
        self._sshd = sshd
        self._files = sshd.files
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._sessions = SshdSessions()
        self._process: subprocess.Popen[str] | None = None
        self._kept: dict[str, WantedLink] | None = None  # by role; None: nothing is known yet
        self._cut_for: tuple[frozenset[str], int | None] | None = None
        self._looks_left = 0
        self._bundles = BundleDesk(self._files)

    def stop(self) -> None:
        self._stopping.set()
        self._wake.set()

    def run(self) -> None:
        """Until it is told to stop. Raises SshdError and KeyFileError where sshd cannot be had."""
        self._sshd.write_config()
        command = self._sshd.make_command()
        # Before anybody can log in: a box that was revoked meanwhile finds the door shut.
        self._look()
        threads = [
            threading.Thread(target=work, daemon=True, name=work.__name__)
            for work in (self._hear_wakes, lambda: self._run_sshd(command))
        ]
        for thread in threads:
            thread.start()
        while not self._stopping.is_set():
            self._wake.wait(LOOK_EVERY)
            self._wake.clear()
            self._look()
        self._bundles.close()
        if self._process is not None:
            # Connections outlive the sshd that took them.
            self._sessions.cut(self._process.pid, self._sshd.port, allowed=())
            self._process.terminate()

    def _look(self) -> None:
        try:
            self.reconcile()
            self._bundles.look()
        except (OperationalError, InterfaceError) as error:
            log.warning("The database is away: %s", error)
            close_old_connections()
        except redis.ConnectionError as error:
            log.warning("Redis is away: %s", error)
        except redis.RedisError as error:
            log.error("Redis does not let the boxes in: %s", error)

    def reconcile(self) -> None:
        """Make what lets boxes in agree with the rows."""
        hold_twins()
        wanted = _list_wanted()
        self._write_keys(wanted)
        allowed = [show_hash(each.public_key) for each in wanted]
        allowed += [show_hash(line) for line in _list_invited()]
        self._cut(frozenset(allowed))
        by_role = {each.role: each for each in wanted}
        gone = grants.list_roles() if self._kept is None else set(self._kept)
        with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=5) as client:
            before = self._kept or {}
            for role in gone - by_role.keys():
                _drop(client, role)
            for role, each in by_role.items():
                if before.get(role) != each:
                    rules = redis_users.make_box_rules(each.slug, each.password)
                    client.execute_command("ACL SETUSER", role, *rules)
                    grants.keep_role(role, each.password)
            if by_role != self._kept:
                client.acl_save()
        self._kept = by_role

    def _cut(self, allowed: frozenset[str]) -> None:
        """A look at all connections is dear, so only after a change; several times, as a login that
        was let in just before may be heard of a little later."""
        now = (allowed, self._process.pid if self._process is not None else None)
        if now != self._cut_for:
            self._cut_for, self._looks_left = now, LOOKS_AFTER_CHANGE
        if self._process is not None and self._looks_left > 0:
            self._looks_left -= 1
            self._sessions.cut(self._process.pid, self._sshd.port, allowed=allowed)

    def _write_keys(self, wanted: list[WantedLink]) -> None:
        files, program = self._files, self._files.enrol_program
        opens = (settings.HUB_DATABASE_PORT, settings.HUB_REDIS_PORT, settings.HUB_BULK_PORT)
        links: list[LinkKey | EnrolKey] = [
            LinkKey(line=each.public_key, comment=each.slug, opens=opens, listens=each.port)
            for each in wanted
        ]
        asking: list[LinkKey | EnrolKey] = [
            EnrolKey(line=row.public_key, comment=row.ident, command=f"{program} {row.ident}")
            for row in BoxInvitation.objects.select_open().order_by("pk")
        ]
        by_account = {self._sshd.owner: asking}
        by_account[self._sshd.account] = [*by_account.get(self._sshd.account, []), *links]
        for account, keys in by_account.items():
            write_keys(files.keys_of(account), keys)

    def _run_sshd(self, command: list[str]) -> None:
        while not self._stopping.is_set():
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            )
            # Its connections outlive it and write there, so that no end of it tells of its end.
            threading.Thread(target=self._hear_sshd, args=[self._process], daemon=True).start()
            code = self._process.wait()
            if not self._stopping.wait(SSHD_PAUSE):
                log.warning("sshd ended with exit code %s and is started again", code)

    def _hear_sshd(self, process: "subprocess.Popen[str]") -> None:
        assert process.stderr is not None
        with process.stderr as said:
            for line in said:
                self._sessions.hear(line)
                _pass_on(line)

    def _hear_wakes(self) -> None:
        while not self._stopping.is_set():
            try:
                with redis.Redis.from_url(settings.REDIS_URL) as client, client.pubsub() as pubsub:
                    pubsub.subscribe(events.KEEPER_CHANNEL)
                    while not self._stopping.is_set():
                        if pubsub.get_message(ignore_subscribe_messages=True, timeout=LOOK_EVERY):
                            self._wake.set()
            except redis.RedisError as error:
                log.warning("Redis is away: %s", error)
                self._stopping.wait(LOOK_EVERY)


def _list_wanted() -> list[WantedLink]:
    wanted = []
    for link in BoxLink.objects.select_let_in().select_related("box").order_by("pk"):
        try:
            wanted.append(WantedLink.read(link))
        except SecretError as error:
            log.error("%s cannot be let in: %s", link, error)
    return wanted


def _list_invited() -> list[str]:
    return list(BoxInvitation.objects.select_open().values_list("public_key", flat=True))


def _drop(client: "redis.Redis", role: str) -> None:
    client.acl_deluser(role)  # ends its connections, too
    grants.drop_role(role)


# What sshd says at VERBOSE of each login is for us; refusals and errors are for people.
_FOR_PEOPLE: tuple[str, ...] = (
    "error",
    "fatal",
    "refused",
    "Invalid user",
    "not allowed",
    "denied",
)


def _pass_on(line: str) -> None:
    if any(word in line for word in _FOR_PEOPLE):
        log.warning("sshd: %s", line.strip()[:300])


def make_sshd() -> HubSshd:
    """Of this hub, by its settings."""
    return HubSshd(
        files=WireFiles(settings.DATA),
        port=settings.HUB_PORT,
        owner=settings.HUB_OWNER,
        account=settings.HUB_ACCOUNT,
    )


__all__ = ["HubKeeper", "KeyFileError", "SshdError", "make_sshd"]
