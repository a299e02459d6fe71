import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import namespace, untouched
from tests.terminal import ROOT

pytestmark = pytest.mark.docker


def beside_a_foreign_docker(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.untouched", *words],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if "PYTEST" not in name},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.takes(60)
def test_the_tests_own_docker_engines_leave_the_machine_as_it_was(short_path: Path) -> None:
    """Those of that module have no bridge: with such a one dockerd removes docker0."""
    done = beside_a_foreign_docker(
        # Not of the other program, which knows by it where the engines of other tests are.
        *("env", f"INFERDASH_TEST_CACHE={short_path / 'cache'}"),
        *(sys.executable, "-m", "pytest", "-q", "tests/test_docker_engine.py"),
        *("-p", "no:cacheprovider", f"--basetemp={short_path}/t"),
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@pytest.mark.takes(60)
@pytest.mark.parametrize("where", ["temporary", "cache"])
def test_what_other_tests_mount_meanwhile_is_theirs(short_path: Path, where: str) -> None:
    """A folder that is removed takes its mounts away in every namespace."""
    folder = (short_path if where == "temporary" else namespace.FOLDER) / f"theirs-{os.getpid()}"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "theirs", folder], check=True)

    removes = f"umount {folder} && rmdir {folder}"
    done = beside_a_foreign_docker(
        "nsenter", f"--mount=/proc/{os.getpid()}/ns/mnt", "sh", "-c", removes
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert not folder.exists()


@pytest.mark.takes(60)
def test_each_change_is_told(short_path: Path) -> None:
    host = "unix://$(dirname $TMPDIR)/docker.sock"
    done = beside_a_foreign_docker(
        "sh",
        "-c",
        "set -e; ip link delete docker0; ip link add left0 type bridge; "
        "iptables -A INPUT -j ACCEPT -i left0; echo 1 > /proc/sys/net/ipv4/conf/default/log_martians; "
        f"docker -H {host} stop -t 0 theirs; docker -H {host} volume create left; "
        "mount -t tmpfs left /mnt; touch $TMPDIR/left; "
        # It ends by itself; nobody else may end it.
        "setsid --fork sleep 60 </dev/null >/dev/null 2>&1",
    )

    said = done.stdout
    assert done.returncode == untouched.CHANGED, said + done.stderr
    for each in (
        'interfaces: gone: {"ifname": "docker0"',
        'interfaces: new: {"ifname": "left0"',
        "iptables-save: new: -A INPUT -i left0 -j ACCEPT",
        "containers: gone: ",
        "volumes: new: left",
        "settings: new: /proc/sys/net/ipv4/conf/default/log_martians 1",
        "mounts: new: /mnt tmpfs",
        "temporary files: new: left",
        "processes: new: ",
    ):
        assert f"the machine changed: {each}" in said, said
