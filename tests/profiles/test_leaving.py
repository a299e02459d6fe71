"""The way out: what `manage.py leave` writes starts the same engines with Docker alone."""

import stat
import subprocess
from pathlib import Path

import pytest
import yaml
from django.core.management import CommandError, call_command

from servers.launch.commandline.draft import draft
from servers.launch.commandline.paste import read
from servers.lifecycle.profiles import export_all
from servers.models import Box, Run, Secret, Server
from servers.models.runs.run import RunState
from tests import factories

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]


@pytest.fixture
def server() -> Server:
    token = Secret.seal("HF_TOKEN", "hf_boxes", None)
    box = factories.box("rtx8", hf_cache="~/.cache/huggingface", hf_token=token)
    secret = Secret.seal("MY_TOKEN", "it's secret", None)
    return factories.server(
        box,
        "coder",
        "gpt-oss-120b",
        gpus="2x RTX PRO 6000",
        flags=("--max-model-len", "8192", "--api-key", "key-in-the-open"),
        secret_env={"MY_TOKEN": secret.pk},
        volumes=("~/models:/models:ro",),
        reasons={"--max-model-len": "docker run would want more"},
    )


def written(*, with_secrets: bool = False) -> dict[str, export_all.ExportedFile]:
    return {file.path: file for file in export_all.files(with_secrets=with_secrets)}


def test_what_runs_is_written_as_it_runs(server: Server) -> None:
    run = factories.run(server, RunState.READY, gpus="2,3")

    found = written()

    script = found["servers/coder.sh"].text
    assert "docker run --detach" in script
    assert '"device=2,3"' in script
    assert f"127.0.0.1:{run.port}:8000" in script
    assert "-v /home/ada/models:/models:ro" in script
    assert "-v /home/ada/.cache/huggingface:/root/.cache/huggingface" in script
    service = yaml.safe_load(found["servers/coder.compose.yaml"].text)["services"]["coder"]
    assert service["ports"] == [f"127.0.0.1:{run.port}:8000"]
    assert f"container `{run.container_id[:12]}`" in found["README.md"].text
    assert f"docker update --restart unless-stopped {run.container_id[:12]}" in (
        found["README.md"].text
    )


def test_a_stopped_server_keeps_the_port_that_its_clients_know(server: Server) -> None:
    run = factories.run(server, RunState.STOPPED)

    found = written()

    assert f"127.0.0.1:{run.port}:8000" in found["servers/coder.sh"].text
    assert f"port {run.port}" in found["README.md"].text


def test_an_image_that_was_built_here_comes_with_what_builds_it() -> None:
    server = factories.server(
        factories.box("rtx8"),
        image="team/vllm:fixed",
        dockerfile="FROM vllm/vllm-openai:v0.32.0\nCOPY fix.patch /\n",
        build_files={"fix.patch": "--- a\n"},
    )

    found = written()

    folder = f"servers/{server.slug}.build"
    assert found[f"{folder}/Dockerfile"].text.startswith("FROM vllm/vllm-openai")
    assert found[f"{folder}/fix.patch"].text == "--- a\n"
    assert f"docker build -t team/vllm:fixed {folder}" in found["README.md"].text


def test_what_is_written_reads_back_as_the_same_launch(server: Server) -> None:
    text = written()["servers/coder.sh"].text

    (command,) = read(text[text.index("docker run --detach") :])

    launch = draft(command).launch
    assert launch.checkpoint == "openai/gpt-oss-120b"
    assert launch.flags == ("--max-model-len", "8192")


def test_no_secret_is_written_unless_somebody_wants_it(server: Server) -> None:
    everything = "".join(file.text for file in written().values())

    for value in ("it's secret", "hf_boxes", "key-in-the-open"):
        assert value not in everything
    assert "`MY_TOKEN`, `HF_TOKEN`" in everything


def test_with_secrets_the_script_reads_them_from_a_file_of_its_own(
    server: Server, tmp_path: Path
) -> None:
    call_command("leave", str(tmp_path / "out"), with_secrets=True)

    folder = tmp_path / "out/servers"
    assert {stat.S_IMODE(each.stat().st_mode) & 0o077 for each in folder.iterdir()} == {0}
    assert "--api-key key-in-the-open" in (folder / "coder.sh").read_text()
    said = subprocess.run(
        ["bash", "-c", '. ./coder.env; echo "$MY_TOKEN $HF_TOKEN"'],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "it's secret hf_boxes\n"


def test_every_script_is_one_that_bash_can_read(server: Server, tmp_path: Path) -> None:
    factories.server(server.box, "other", env={"TEXT": "two\nlines and 'quotes' $HOME"})

    call_command("leave", str(tmp_path / "out"))

    scripts = sorted((tmp_path / "out").rglob("*.sh"))
    assert [each.name for each in scripts] == ["coder.sh", "other.sh"] * 2
    for script in scripts:
        subprocess.run(["bash", "-n", script], check=True)


def test_nothing_is_stopped_and_watched_servers_are_only_named(
    server: Server, tmp_path: Path
) -> None:
    factories.run(server, RunState.READY)
    theirs = factories.server(server.box, "theirs")
    Server.objects.filter(pk=theirs.pk).update(watches={"name": "speech"})
    before = list(Run.objects.values())

    call_command("leave", str(tmp_path / "out"))

    assert list(Run.objects.values()) == before
    assert (
        "Only monitored, and started elsewhere: `theirs`"
        in (tmp_path / "out/README.md").read_text()
    )
    assert not (tmp_path / "out/servers/theirs.sh").exists()


def test_a_folder_with_files_in_it_is_left_alone(server: Server, tmp_path: Path) -> None:
    (tmp_path / "mine").touch()

    with pytest.raises(CommandError, match="is not empty"):
        call_command("leave", str(tmp_path))

    assert [each.name for each in tmp_path.iterdir()] == ["mine"]


def test_mounts_that_cannot_be_resolved_are_said_to_stand_as_they_are(server: Server) -> None:
    Box.objects.update(home="")

    assert "Its mounts stand as in the profile" in written()["README.md"].text
