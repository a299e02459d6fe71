"""The hub's side of a box that is brought up: its release is packed for that box, and given to it alone."""

import hashlib
import hmac
import json
import logging
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import close_old_connections, connection
from django.utils import timezone

from servers import events
from servers.host.links.bulk import BulkServer
from servers.host.links.files import WireFiles
from servers.models import BoxLink, BoxUpgrade
from servers.models.links import UpgradeStep
from servers.models.people.key import SecretError

log = logging.getLogger(__name__)

_LAST_LINES = 6  # of what the packing said before it failed


class BundleDesk:
    """Looked after by the keeper, every few seconds."""

    def __init__(self, files: WireFiles) -> None:
        self._files = files
        self._server: BulkServer | None = None
        self._packing: threading.Thread | None = None
        self._told: tuple[Any, ...] | None = None

    def look(self) -> None:
        upgrade = BoxUpgrade.objects.filter(is_open=True).first()
        self._tell(upgrade)
        if upgrade is None:
            self.close()
            return
        if self._server is None:
            try:
                self._server = BulkServer(settings.HUB_BULK_PORT, self._find)
            except OSError as error:
                log.error("Bundles cannot be given out at 127.0.0.1:%s: %s. INFERDASH_HUB_BULK_PORT "
                          "names another port", settings.HUB_BULK_PORT, error)  # fmt: skip
        is_packing = self._packing is not None and self._packing.is_alive()
        if upgrade.step == UpgradeStep.DESCRIBED and not is_packing:
            self._packing = threading.Thread(
                target=self._pack, args=(upgrade,), daemon=True, name="packing"
            )
            self._packing.start()

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        shutil.rmtree(self._files.bundles, ignore_errors=True)

    def _tell(self, upgrade: BoxUpgrade | None) -> None:
        now = (upgrade.pk, upgrade.step, upgrade.percent) if upgrade is not None else None
        if now != self._told:
            self._told = now
            events.publish_change("links")

    def _find(self, secret: str) -> Path | None:
        try:
            upgrade = BoxUpgrade.objects.filter(is_open=True).exclude(digest="").first()
            if upgrade is None:
                return None
            link = BoxLink.objects.select_let_in().get(box=upgrade.box_id)
            if not hmac.compare_digest(link.reveal_relay_secret(), secret):
                return None
        except (BoxLink.DoesNotExist, SecretError):
            return None
        finally:
            # The thread of one request.
            connection.close()
        return self._files.bundles / f"{upgrade.pk}" / f"{upgrade.release}.tar.gz"

    def _pack(self, upgrade: BoxUpgrade) -> None:
        mine = BoxUpgrade.objects.filter(pk=upgrade.pk, is_open=True)
        try:
            path = self._make(upgrade)
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            mine.update(
                step=UpgradeStep.PACKED,
                release=path.name.removesuffix(".tar.gz"),
                digest=digest,
                size=path.stat().st_size,
                moved_at=timezone.now(),
            )
        except (OSError, ValueError, KeyError) as error:
            log.error("The release was not packed for %s: %s", upgrade, error)
            said = f"The hub could not pack its release: {error}"
            mine.update(step=UpgradeStep.FAILED, is_open=None, said=said, moved_at=timezone.now())
        finally:
            close_old_connections()
            connection.close()

    def _make(self, upgrade: BoxUpgrade) -> Path:
        """Raises OSError, ValueError, KeyError."""
        has = json.loads(upgrade.has)
        shutil.rmtree(self._files.bundles, ignore_errors=True)
        folder = self._files.bundles / f"{upgrade.pk}"
        folder.mkdir(mode=0o700, parents=True)
        command = [sys.executable, "-m", "inferdash.service.bundle", "--to", str(folder)]
        command += ["--arch", str(has["machine"]), "--python", str(has["python"])]
        locks = (settings.FILES / "requirements.txt").read_bytes()
        if has["requirements"] == hashlib.sha256(locks).hexdigest():
            command.append("--no-wheels")
        done = subprocess.run(
            command, cwd=settings.FILES, capture_output=True, text=True, check=False
        )
        if done.returncode and "--no-wheels" not in command:
            # Without internet here; the box may have some.
            log.warning("Packages were not fetched for %s: %s", upgrade, done.stderr.strip()[-300:])
            done = subprocess.run(
                [*command, "--no-wheels"],
                cwd=settings.FILES, capture_output=True, text=True, check=False,
            )  # fmt: skip
        if done.returncode:
            raise OSError("\n".join(done.stderr.strip().splitlines()[-_LAST_LINES:]))
        [path] = folder.glob("*.tar.gz")
        return path
