"""inferdash from a bundle, without internet, as services of a real systemd."""

import ast
import hashlib
import re
import ssl
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.host.docker.containers import DockerContainers
from tests.base_images import ENGINE
from tests.service.machine import ServiceMachine, machine
from tests.terminal import ROOT

pytestmark = [pytest.mark.docker, pytest.mark.service, pytest.mark.takes(150)]

SERVICES = ("redis", "web", "worker", "watcher")
UP = "python3 -c \"import urllib.request as r; r.urlopen('http://127.0.0.1:8470/login/')\""
UP_BY_TLS = (
    'python3 -c "import ssl, urllib.request as r; '
    "trusting = ssl.create_default_context(cafile='/var/lib/inferdash/tls/ca.crt'); "
    "r.urlopen('https://127.0.0.1:8470/login/', context=trusting)\""
)
START = f"""
from servers.launch.engines.launch import Launch
from servers import lifecycle
ada = User.objects.create(username="ada", role=Role.ADMIN)
profile = Profile.objects.create(slug="qwen", name="Qwen", owner=ada)
launch = Launch(engine="vllm", image="{ENGINE}", checkpoint="Qwen/Qwen3-8B", gpus="none",
                mount_hf_cache=False, env={{"ENGINE_SECONDS": "600"}})
profile.save_version(launch, by=ada)
server = Server.objects.create(slug="qwen", profile=profile, box=Box.objects.get())
lifecycle.start(server, by=ada)
"""
ON_HOST_NETWORK = f"""
from servers.launch.engines.launch import Launch
from servers import lifecycle
ada = User.objects.get(username="ada")
profile, is_new = Profile.objects.get_or_create(slug="near", defaults={{"name": "Near", "owner": ada}})
if is_new:
    launch = Launch(engine="vllm", image="{ENGINE}", checkpoint="Qwen/Qwen3-8B", gpus="none",
                    mount_hf_cache=False, network="host", port=18999)
    profile.save_version(launch, by=ada)
server, _ = Server.objects.get_or_create(slug="near", profile=profile, box=Box.objects.get())
lifecycle.start(server, by=ada)
"""
MIGRATION = """
from django.db import migrations
class Migration(migrations.Migration):
    dependencies = [("servers", "{after}")]
    operations = [migrations.RunSQL("{sql}", "DROP TABLE newer")]
"""


@pytest.fixture(scope="module")
def box(docker_host: str, bundle: Path) -> Iterator[ServiceMachine]:
    """With the bundle unpacked in /root/inferdash, and nothing installed."""
    with machine(docker_host) as made:
        made.takes(bundle, "/root/bundle.tar.gz")
        made.run("mkdir /root/inferdash && cd /root && tar xf bundle.tar.gz --strip 1 -C inferdash")
        yield made
        _remove_engines(docker_host, made)


def _remove_engines(docker_host: str, made: ServiceMachine) -> None:
    if not made.asks("test -f /root/install.id"):
        return
    docker = DockerContainers(made.run("cat /root/install.id").strip(), docker_host)
    for container in docker.list_ours():
        docker.remove(container.id)
    docker.close()


def ask(box: ServiceMachine, code: str) -> str:
    """What the code prints that the installed inferdash runs, with the models at hand."""
    whole = f"from servers.models import *\n{code}"
    box.run(f"cat > /tmp/code.py <<'END'\n{whole}\nEND\nchmod 644 /tmp/code.py")
    return box.run("inferdash-manage shell --no-imports -c 'exec(open(\"/tmp/code.py\").read())'")


def rows(query: str) -> str:
    """A command that prints them; starting Django for a look would take seconds."""
    database = "file:/var/lib/inferdash/inferdash.sqlite3?mode=ro"
    code = f"import sqlite3; print(sqlite3.connect('{database}', uri=True).execute('{query}').fetchall())"
    return f'python3 -c "{code}"'


RUNS = rows("select container_id, state from servers_run")
FAILURES = rows("select failure from servers_run order by id")
NOTES = rows("select action from servers_auditentry")
PEOPLE = rows("select username from servers_user order by id")
FACTS = rows("select facts from servers_box")
TABLES = rows("select name from sqlite_master")


def newest_migration(box: ServiceMachine) -> str:
    names = box.run("ls /root/inferdash/servers/migrations").split()
    return max(name for name in names if name[:4].isdecimal()).removesuffix(".py")


def test_it_installs_without_internet_and_all_its_services_run(box: ServiceMachine) -> None:
    box.run("systemd-run --unit taken python3 -m http.server 8470 --bind 127.0.0.1")
    box.waits_until("python3 -c \"import socket; socket.create_connection(('127.0.0.1', 8470))\"")
    assert "port 8470 is taken" in box.run("cd /root/inferdash && ./install.sh", fails=True)
    box.run("systemctl stop taken")

    said = box.run("cd /root/inferdash && ./install.sh")
    box.run("cp /var/lib/inferdash/install.id /root/install.id")

    assert "ready at http://127.0.0.1:8470" in said
    assert "the first admin opens this link, which works once: http://127.0.0.1:8470/join/" in said
    for service in SERVICES:
        assert box.run(f"systemctl is-active inferdash-{service}").strip() == "active"
    box.run("systemd-analyze verify /etc/systemd/system/inferdash*.service inferdash.target")
    assert box.run("stat -c '%U %a' /var/lib/inferdash").strip() == "inferdash 700"
    assert box.run("stat -c '%U %G %a' /etc/inferdash/box.toml").strip() == "root inferdash 640"


def test_the_web_process_has_no_way_to_docker_and_the_others_have(box: ServiceMachine) -> None:
    def sees(service: str) -> bool:
        pid = box.run(f"systemctl show -P MainPID inferdash-{service}").strip()
        group = box.run("stat -c %g /run/docker.sock").strip()
        groups = box.run(f"grep Groups /proc/{pid}/status").split()[1:]
        size = f"nsenter -t {pid} -m sh -c 'test -S /run/docker.sock'"
        assert box.run(f"grep NoNewPrivs /proc/{pid}/status").split()[1] == "1"
        return group in groups and box.asks(size)

    assert [service for service in SERVICES if sees(service)] == ["worker", "watcher"]
    box.waits_until(f"{FACTS} | grep -q version")


def test_what_dies_comes_back(box: ServiceMachine) -> None:
    before = box.run("systemctl show -P MainPID inferdash-worker").strip()

    box.run(f"kill -9 {before}")

    box.waits_until(
        f"pid=$(systemctl show -P MainPID inferdash-worker); test $pid != 0 -a $pid != {before}"
    )


def test_an_engine_is_started_and_a_restart_of_the_machine_brings_all_back(
    box: ServiceMachine,
) -> None:
    ask(box, START)
    box.waits_until(f"{RUNS} | grep -q starting")
    before = box.run(RUNS)

    box.restarts()

    box.waits_until(UP)
    assert box.run(RUNS) == before
    for service in SERVICES:
        box.waits_until(f"systemctl is-active inferdash-{service}")


def test_the_line_that_a_refusal_prints_is_in_effect_at_once(box: ServiceMachine) -> None:
    ask(box, ON_HOST_NETWORK)
    box.waits_until(f"{FAILURES} | grep -q host_network")
    line = re.search(r"`(?:sudo )?(inferdash-manage allow host_network)`", box.run(FAILURES))
    assert line, box.run(FAILURES)

    box.run(line[1])

    assert box.run("stat -c '%U %G %a' /etc/inferdash/box.toml").strip() == "root inferdash 640"
    assert "says so already" in box.run(line[1])
    ask(box, ON_HOST_NETWORK)
    box.waits_until(f"test $({RUNS} | grep -o starting | wc -l) = 2")
    box.waits_until(f"{NOTES} | grep -q allow")
    box.run("inferdash-manage forbid host_network")
    assert "host_network = false" in box.run("cat /etc/inferdash/box.toml")


def test_an_upgrade_copies_the_database_and_a_rollback_brings_it_back(box: ServiceMachine) -> None:
    first = box.run("readlink /opt/inferdash/current")
    text = MIGRATION.format(after=newest_migration(box), sql="CREATE TABLE newer (x integer)")
    migration = "/root/inferdash/servers/migrations/9998_newer.py"
    box.run(f"cat > {migration} <<'END'\n{text}\nEND")

    said = box.run("cd /root/inferdash && make install")

    assert "copying the database to /var/lib/inferdash/snapshots/" in said
    assert box.run("readlink /opt/inferdash/current") != first
    assert "newer" in box.run(TABLES)
    ask(box, "User.objects.create(username='late', role=1)")

    said = box.run("cd /root/inferdash && make rollback")

    assert "runs again, with the database from before the upgrade" in said
    assert box.run("readlink /opt/inferdash/current") == first
    assert "newer" not in box.run(TABLES)
    assert box.run(PEOPLE).strip() == "[('ada',)]"
    box.run(UP)
    box.run(f"rm {migration}")


def test_a_line_in_the_settings_has_the_services_speak_tls(box: ServiceMachine) -> None:
    box.run("echo TLS=self >>/etc/inferdash/inferdash.env && systemctl restart inferdash.target")

    box.waits_until(UP_BY_TLS)
    assert box.run("stat -c '%U %a' /var/lib/inferdash/tls/ca.key").strip() == "inferdash 600"
    told = re.search(
        "fingerprint is ([0-9A-F:]{95})", box.run("journalctl -u inferdash-web --no-pager")
    )
    certificate = box.run("cat /var/lib/inferdash/tls/ca.crt")
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate)).digest()
    assert told
    assert told[1] == digest.hex(":").upper()
    # The installer waits for it, too, and says the same.
    said = box.run("cd /root/inferdash && make install")
    assert "ready at https://127.0.0.1:8470" in said
    assert f"fingerprint is {told[1]}" in said


def test_a_certificate_that_cannot_be_served_stops_nothing(box: ServiceMachine) -> None:
    settings = "/etc/inferdash/inferdash.env"
    box.run(f"sed -i 's|^TLS=self$|TLS_CERT=/nowhere.crt\\nTLS_KEY=/nowhere.key|' {settings}")

    said = box.run("cd /root/inferdash && make install", fails=True)

    assert "TLS_CERT is /nowhere.crt: there is no such file" in said
    box.run(UP_BY_TLS)
    box.run(f"sed -i '/^TLS_/d' {settings} && systemctl restart inferdash.target")
    box.waits_until(UP)


def test_an_upgrade_that_fails_leaves_what_was_there_running(box: ServiceMachine) -> None:
    first = box.run("readlink /opt/inferdash/current")
    text = MIGRATION.format(after=newest_migration(box), sql="CREATE NONSENSE")
    migration = "/root/inferdash/servers/migrations/9999_broken.py"
    box.run(f"cat > {migration} <<'END'\n{text}\nEND")

    said = box.run("cd /root/inferdash && make install", fails=True)

    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"failed, and {version}-" in said
    assert "runs again, as it was before" in said
    assert box.run("readlink /opt/inferdash/current") == first
    assert box.run(PEOPLE).strip() == "[('ada',)]"
    box.waits_until(UP)
    box.run(f"rm {migration}")


def test_uninstall_leaves_data_and_engines(box: ServiceMachine, docker_host: str) -> None:
    engine = ast.literal_eval(box.run(RUNS))[0][0]

    said = box.run("cd /root/inferdash && make uninstall")

    assert "engines keep running: docker ps --filter label=inferdash.install=" in said
    assert box.run("ls /etc/systemd/system").count("inferdash") == 0
    assert not box.asks(UP)
    docker = DockerContainers(box.run("cat /root/install.id").strip(), docker_host)
    found = docker.inspect(engine)
    docker.close()
    assert found is not None
    assert not found.has_ended


def test_data_and_settings_stay_until_somebody_purges_them(box: ServiceMachine) -> None:
    for path in ("/var/lib/inferdash/inferdash.sqlite3", "/etc/inferdash/box.toml"):
        assert box.asks(f"test -f {path}")
    assert not box.asks("test -e /opt/inferdash")

    box.run("cd /root/inferdash && make uninstall PURGE=1")

    assert not box.asks("test -e /var/lib/inferdash -o -e /etc/inferdash")
    assert not box.asks("getent passwd inferdash")
    assert "Nothing is installed here." in box.run(
        "cd /root/inferdash && make uninstall", fails=True
    )
