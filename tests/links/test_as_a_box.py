"""A box's own watcher on the hub's database, with its role alone and with copies of secrets."""

import base64
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from inferdash.demo.__main__ import DRIVER
from inferdash.demo.box import make_boxes
from servers.models.people.sealed_copies import find_public_key
from tests import databases
from tests.ports import free_port
from tests.redis_server import serving
from tests.terminal import ROOT
from tests.waiting import PATIENCE

NAME = "rtx8"
LET_IN = """
from django.conf import settings
from servers.lifecycle.links import grants
from servers.launch.engines.launch import Launch
ada = User.objects.create(username="ada", role=Role.ADMIN)
hub = Box.objects.create(slug="hub", seen_at=timezone.now())
box = Box.objects.create(slug="rtx8")
BoxLink.objects.create(
    box=box, name="rtx8", public_key="ssh-ed25519 x", seal_key={key!r}, port=8480,
    joined_at=timezone.now(), sealed_password=b"x", sealed_relay_secret=b"x",
)
grants.keep_role("box_1", "of the box")
channel = NotificationChannel.objects.create(name="ops", kind="webhook", created_by=ada)
secret = Secret.seal("OWN", "a value of the team", ada)
box.hf_token = Secret.seal("HF_TOKEN", "hf_ofthebox", ada)
box.save()
profile = Profile.objects.create(slug="gpt", name="gpt", owner=ada)
launch = Launch(
    engine="vllm", image="vllm/vllm-openai:v0.20.2", checkpoint="openai/gpt-oss-120b", gpus="0",
    served_name="gpt", secret_env={{"KEY": secret.pk}},
)
profile.save_version(launch, by=ada, message="First version")
server = Server.objects.create(slug="gpt", profile=profile, box=box)
"""
# What the hub's web does, and what it waits for.
CYCLE = """
import time
from servers.lifecycle.jobs import commands as jobs
from servers.lifecycle.runs import commands
from servers.lifecycle.images import inventory, newer_builds
from servers.lifecycle.people import claims
from servers.models.jobs import JobKind
from servers.models.runs.run import ENDED

def wait(condition, what):
    end = time.monotonic() + {patience}
    while not (found := condition()):
        assert time.monotonic() < end, what
        time.sleep(0.05)
    return found

ada, box, server = User.objects.get(), Box.objects.get(slug="rtx8"), Server.objects.get()
wait(lambda: Box.objects.get(slug="rtx8").gpus, "the watcher has seen its box")
run = commands.start(server, by=ada)
def state():
    run.refresh_from_db()
    assert run.state not in ENDED, (run.failure, run.failure_detail)
    return run.state == RunState.READY
wait(state, "the run is ready")
wait(lambda: LogChunk.objects.filter(run=run).exists(), "its log is kept")
job = jobs.ask(ImageJob, box, JobKind.PULL, by=ada, what="debian:12", target="debian:12")
wait(lambda: Job.objects.get(pk=job.pk).ended_at, "the pull has ended")
commands.restart(server, by=ada)
wait(lambda: Run.objects.exclude(pk=run.pk).filter(state=RunState.READY).first(), "it runs again")
last = Run.objects.latest("pk")
commands.stop(last, by=ada)
wait(lambda: Run.objects.get(pk=last.pk).state in ENDED, "the run has ended")
wait(lambda: RunLog.objects.get(run=last.pk).is_complete, "its log is whole")
found = Box.objects.get(slug="rtx8")
print([found.home, Run.objects.count(), ImageInventory.objects.filter(box=box).exists()])
"""


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[dict[str, str]]:
    with (
        databases.database(databases.POSTGRESQL, tmp_path) as environment,
        serving() as redis_url,
    ):
        yield environment | {
            "REDIS_URL": redis_url,
            "INFERDASH_WIRE": "hub",
            "INFERDASH_BOX": "hub",
            "INFERDASH_HUB": "off",
        }


@contextmanager
def watching(hub: dict[str, str], private_key: str) -> Iterator[Path]:
    """The file that its watcher's lines are in."""
    with tempfile.TemporaryDirectory(prefix="inferdash-box-") as name, ExitStack() as stack:
        folder, port = Path(name), free_port()
        (box,) = make_boxes(folder, port=port, names=NAME)
        box.build()
        (folder / "var" / "wire").mkdir(mode=0o700, parents=True)
        (folder / "var" / "wire" / "seal.key").write_text(private_key)
        environment = (
            hub
            | box.environment()
            | {
                "DATABASE_URL": hub["DATABASE_URL"].replace("//tests@", "//box_1@"),
                "INFERDASH_WIRE": "box",
                "INFERDASH_DATA": str(folder / "var"),
                "LOG_LEVEL": "INFO",
                "PYTHONPATH": f"{DRIVER}:{ROOT}",
            }
        )
        said = folder / "watcher.log"
        with said.open("wb") as output:
            docker = [sys.executable, "-m", "inferdash.demo.docker", name, str(port), NAME, "true"]
            watch = [sys.executable, "manage.py", "watch"]
            for words in (docker, watch):
                process = subprocess.Popen(
                    words, env=environment, cwd=ROOT, stdout=output, stderr=output
                )
                stack.callback(process.wait, PATIENCE)
                stack.callback(process.send_signal, signal.SIGTERM)
            yield said


@pytest.mark.takes(60)
def test_a_boxs_watcher_lacks_no_right_for_its_work(hub: dict[str, str]) -> None:
    key = base64.b64encode(X25519PrivateKey.generate().private_bytes_raw()).decode()
    databases.run(LET_IN.format(key=find_public_key(key)), hub)
    with watching(hub, key) as said:
        try:
            printed = databases.run(CYCLE.format(patience=PATIENCE), hub)
        except subprocess.CalledProcessError as error:
            pytest.fail(f"{error.stderr or error.output}\n{said.read_text()[-6000:]}")
        lines = said.read_text()
    assert printed.strip() == "['/home/ada', 2, True]"
    assert "permission denied" not in lines
    assert "cannot be" not in lines
