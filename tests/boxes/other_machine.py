"""Another machine, as ssh sees it: an sshd of its own on this one, with a person's key."""

import getpass
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from servers.host.links.keys import keep_key, write_public_line
from servers.host.links.sshd import find_sshd
from tests.ports import answers, free_port
from tests.waiting import wait_until


@dataclass(frozen=True, kw_only=True)
class OtherMachine:
    host: str
    ssh: str  # with the options that reach it


@contextmanager
def other_machine(folder: Path, environment: dict[str, str]) -> Iterator[OtherMachine]:
    """Whose shells have that environment."""
    folder.mkdir(mode=0o700)
    port, key, config = free_port(), folder / "person", folder / "sshd_config"
    (folder / "authorized").write_text(write_public_line(keep_key(key)) + "\n")
    keep_key(folder / "host")
    words = " ".join(f'"{name}={text}"' for name, text in environment.items())
    lines = [
        f"Port {port}", "ListenAddress 127.0.0.1", f"HostKey {folder}/host", "PidFile none",
        f"AuthorizedKeysFile {folder}/authorized", "StrictModes no", "UsePAM no",
        "PermitRootLogin yes", f"SetEnv {words}",
    ]  # fmt: skip
    config.write_text("\n".join(lines) + "\n")
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    options = ("StrictHostKeyChecking=no", f"UserKnownHostsFile={folder}/known", "BatchMode=yes")
    more = " ".join(f"-o {each}" for each in options)
    with subprocess.Popen(
        [find_sshd(), "-D", "-e", "-f", str(config)], stderr=subprocess.DEVNULL
    ) as sshd:
        try:
            wait_until(lambda: answers(port), "its sshd answers")
            yield OtherMachine(
                host=f"{getpass.getuser()}@127.0.0.1",
                ssh=f"ssh -F /dev/null -q -i {key} -p {port} {more}",
            )
        finally:
            sshd.terminate()
