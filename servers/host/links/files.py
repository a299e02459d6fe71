"""The files of the wire, in the data folder of a hub or a box."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class WireFiles:
    data: Path

    @property
    def folder(self) -> Path:
        return self.data / "wire"

    @property
    def env(self) -> Path:
        """Settings that BOXES=1 or a join has made; read by inferdash.settings."""
        return self.folder / "wire.env"

    # A hub's.

    @property
    def sshd_config(self) -> Path:
        return self.folder / "sshd_config"

    @property
    def host_key(self) -> Path:
        return self.folder / "host_ed25519"

    def keys_of(self, account: str) -> Path:
        """Who may log in under this account, as authorized_keys."""
        return self.folder / "keys" / account

    @property
    def enrol_program(self) -> Path:
        """What a box that asks to join runs on the hub."""
        return self.folder / "enrol.sh"

    @property
    def redis_users(self) -> Path:
        return self.folder / "redis.acl"

    @property
    def bundles(self) -> Path:
        """What is packed for a box that is brought up."""
        return self.folder / "bundles"

    @property
    def postgres(self) -> Path:
        """PostgreSQL's own folder."""
        return self.data / "postgres"

    # A box's.

    @property
    def key(self) -> Path:
        """Its identity."""
        return self.folder / "box_ed25519"

    @property
    def seal_key(self) -> Path:
        """The X25519 key to which the hub seals secrets, in base64."""
        return self.folder / "seal.key"

    @property
    def hub(self) -> Path:
        """Where the hub is and which of its ports lead where, as JSON."""
        return self.folder / "hub.json"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    @property
    def database_folder(self) -> Path:
        """Where libpq finds the hub's PostgreSQL."""
        return self.folder / "hub"

    def database_socket(self, port: int) -> Path:
        return self.database_folder / f".s.PGSQL.{port}"

    @property
    def redis_socket(self) -> Path:
        return self.folder / "hub" / "redis.sock"

    @property
    def bulk_socket(self) -> Path:
        """Where the hub gives out bundles, while one is fetched."""
        return self.folder / "hub" / "bulk.sock"

    @property
    def releases(self) -> Path:
        """Of inferdash, to which the hub has brought this box."""
        return self.data / "releases"

    @property
    def relay_socket(self) -> Path:
        """Where the relay to this box's engines listens; the hub reaches it by a reverse forward."""
        return self.folder / "relay.sock"

    @property
    def relay_secret(self) -> Path:
        return self.folder / "relay.secret"
