"""One module opens files that others may have made; whoever else touches a disk is named here."""

from pathlib import Path

from tests.cases import Cases, table
from tests.files.touching import touches

SERVERS = Path(__file__).resolve().parents[2] / "servers"

# By what they touch, the only modules that touch a file system or start a program.
MAY = {
    "the door: files that others may have made": {
        *("host/files/box_files.py", "host/files/paths.py"),
    },
    "links on the way of a path, whether it leads to something, and the table of mounts": {
        "host/files/paths.py"
    },
    "the room of a file system, cgroups and the page cache": {"host/kernel/resources.py"},
    "the kernel's own files: /proc, /sys, /dev/shm, /dev/kmsg": {
        *(
            "host/kernel/proc.py",
            "host/kernel/log.py",
        ),
        *(
            "host/kernel/resources.py",
            "host/external/containers.py",
        ),
    },
    "whether /bin and /usr are there, for a container that tries options": {
        "host/docker/throwaway.py"
    },
    "a log that a process has open, through that process": {"host/logs.py"},
    "systemd's unit files": {"host/external/unit_files.py"},
    "starts this program itself, with no path of the box among its words": {
        *("consumers/log_search.py", "host/collector/parent.py", "host/weights/fetch/work.py"),
        "host/benchmarks/process.py",
    },
    "/dev/null": {"host/collector/child.py"},
    "a report and the folder of tests that a developer names": {"management/commands/diagnose.py"},
    "an archive in memory": {"host/images/images.py", "host/docker/containers.py"},
    "files that ship with it": {
        *(
            "launch/engines/flaglist.py",
            "judge/logs/failure_catalog.py",
            "judge/messages.py",
            "judge/runs/metrics.py",
        ),
        *(
            "judge/logs/metric_rules.py",
            "judge/logs/phases/reader.py",
            "launch/tables.py",
        ),
        *("judge/profiles/lint_rules.py", "launch/recipes/catalogue.py"),
        *("gateway/callers.py", "judge/benchmarks/presets.py"),
        *("judge/canary/items.py", "judge/canary/rules.py"),
    },
    "inferdash's own: box.toml and its data folder": {
        *(
            "judge/runs/limits.py",
            "lifecycle/people/backup.py",
            "lifecycle/runs/creation.py",
        ),
        *("lifecycle/runs/permits.py", "watcher/box_row.py"),
    },
    "inferdash's own: keys, settings and sockets of links between boxes": {
        *("host/links/keys.py", "host/links/relay.py", "host/links/ssh.py", "host/links/sshd.py"),
        *("lifecycle/links/keeper.py", "management/commands/relay.py", "models/people/key.py"),
        "management/commands/hub_moved.py",
    },
    "inferdash's own: releases that the hub packs for its boxes": {
        *("host/links/bulk.py", "lifecycle/links/packing.py"),
    },
    "the hub's own PostgreSQL: its files and programs, and the SQLite file that moves there": {
        *("host/links/openers.py", "host/links/postgres.py", "lifecycle/links/database_move.py"),
        "management/commands/move-database.py",
    },
    "starts the program that the supervisor of a box names": {"management/commands/await_hub.py"},
    "the certificates that the settings name": {"views/people/settings.py"},
    "what somebody names at a terminal, with that person's rights": {
        *("management/commands/box.py", "management/commands/diagnose.py"),
        *("management/commands/leave.py", "management/commands/profile.py"),
        "management/commands/recipe.py",
        "management/console.py",
    },
}


def modules() -> list[Path]:
    return [each for each in sorted(SERVERS.rglob("*.py")) if "migrations" not in each.parts]


def test_nobody_else_touches_a_disk() -> None:
    allowed = set().union(*MAY.values())
    with Cases() as cases:
        for path in modules():
            name = str(path.relative_to(SERVERS))
            with cases.named(name):
                found = touches(path.read_text())
                if name in allowed:
                    assert found, "it is named in MAY and touches nothing"
                else:
                    assert found == [], (
                        "go through host.files.box_files, or say in MAY what it touches"
                    )
    there = {str(path.relative_to(SERVERS)) for path in modules()}
    assert allowed <= there


@table(
    "text",
    [
        "open('/mnt/x')",
        "from pathlib import Path\nPath('/mnt/x').read_text()",
        "def look(path):\n    return path.read_bytes()",
        "def look(path):\n    return path.open('rb')",
        "def look(path):\n    return list(path.rglob('*'))",
        "from pathlib import Path\ndef look(path: Path):\n    return path.exists()",
        "from pathlib import Path\ndef look(path: Path):\n    return path.resolve()",
        "from pathlib import Path\ndef move(one: Path, two: Path):\n    one.replace(two)",
        "from pathlib import Path\nPath.home()",
        "from django.conf import settings\nsettings.BOX_FILE.write_text('')",
        "import os\nos.stat('/mnt/x')",
        "import os as kernel\nkernel.listdir('/mnt')",
        "from os import scandir\nscandir('/mnt')",
        "from os import path\npath.exists('/mnt/x')",
        "import os.path\nos.path.realpath('/mnt/x')",
        "import os\nread = os.open",
        "import shutil\nshutil.copy('a', 'b')",
        "from shutil import rmtree",
        "import glob\nglob.glob('/mnt/*')",
        "import tempfile\ntempfile.mkdtemp()",
        "import subprocess\nsubprocess.run(['cat', '/mnt/x'])",
        "import asyncio\nasyncio.create_subprocess_exec('cat')",
        "import gzip\ngzip.open('/mnt/x')",
        "import gguf\ngguf.GGUFReader('/mnt/x')",
        "from safetensors import safe_open",
        "import sqlite3\nsqlite3.connect('/mnt/x')",
        "read = open",
        "import io\nio.open('/mnt/x')",
    ],
)
def test_a_planted_violation_is_seen(text: str) -> None:
    assert touches(text)


@table(
    "text",
    [
        "from servers.models import Download\nDownload.objects.open().exists()",
        "from pathlib import PurePosixPath\nPurePosixPath('/mnt') / 'x'",
        "'a b'.replace(' ', '')",
        "import os\nos.path.join('a', 'b'), os.environ['X'], os.O_RDONLY, os.fstat(3).st_size",
        "import re\nre.match('a', 'a').group('a')",
        "from servers.host.weights import stored\nstored.is_file('x.gguf')",
        "from pathlib import Path\nHERE = Path(__file__).resolve().parent",
        "from datetime import datetime\ndatetime.now().replace(hour=1)",
    ],
)
def test_what_touches_nothing_is_left_alone(text: str) -> None:
    assert touches(text) == []
