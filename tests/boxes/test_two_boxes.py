"""A further box from its token to its end: what it runs, may and survives."""

import json
import re
import socket
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.base_images import ENGINE
from tests.boxes.rig import TwoBoxes, two_boxes, wait_for_state
from tests.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.docker, pytest.mark.boxes]

START = f"""
from servers.lifecycle.runs import commands
far = factories.server(
    Box.objects.get(slug="milo"), "far", engine="vllm", image={ENGINE!r}, checkpoint="/model"
)
commands.start(far, by=factories.person())
"""
KEY = 'Key.make(factories.person(), "programs", Role.OPERATOR, expires_at=None)[1]'


@pytest.fixture(scope="module")
def boxes(docker_host: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoBoxes]:
    with two_boxes(docker_host, tmp_path_factory.mktemp("b")) as made:
        yield made


def chat(boxes: TwoBoxes, key: str) -> str:
    """What the engine on the box says, through the hub's gateway."""
    body = {"model": "far", "messages": [{"role": "user", "content": "words"}], "stream": True}
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.stream(
        "POST", f"{boxes.url}/v1/chat/completions", json=body, headers=headers, timeout=PATIENCE
    ) as answer:
        lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line]
        assert answer.status_code == 200, lines
    assert lines[-1] == "[DONE]"
    deltas = [json.loads(line)["choices"] for line in lines[:-1]]
    return "".join(each[0]["delta"].get("content") or "" for each in deltas if each)


@pytest.mark.takes(240)
def test_a_box_joins_runs_comes_back_and_is_revoked(boxes: TwoBoxes, tmp_path: Path) -> None:
    """One test, as each of its steps begins where the last has ended."""
    assert boxes.ask("BoxLink.objects.get().words") == boxes.words
    boxes.shell.run(START)
    wait_for_state(boxes, "ready")
    key = str(boxes.ask(KEY))
    assert chat(boxes, key)
    wait_until(
        lambda: boxes.ask("LogChunk.objects.filter(run__server__slug='far').exists()"),
        "its log is on the hub",
    )
    check_what_its_key_opens(boxes, tmp_path)
    check_return_after_a_cut(boxes, key)
    check_return_of_the_hub(boxes)
    assert "permission denied" not in boxes.hub.up.said + boxes.box.up.said
    refused = "[each['object'] for each in __import__('servers.state.store', fromlist=['client']).client.acl_log()]"
    assert boxes.ask(refused) == []
    check_revocation(boxes)


def check_what_its_key_opens(boxes: TwoBoxes, folder: Path) -> None:
    """Whoever has taken over a box has its key."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        for what, options, command in (
            ("a shell", ["-T"], "id"),
            ("a terminal", ["-tt"], ""),
            ("a file", ["-s"], "sftp"),
            ("a listener on another port", ["-N", "-R", f"127.0.0.1:{port + 1}:127.0.0.1:1"], ""),
            ("a listener for the network", ["-N", "-R", f"0.0.0.0:{port}:127.0.0.1:1"], ""),
            ("a socket as listener", ["-N", "-R", f"{folder}/there:127.0.0.1:1"], ""),
        ):
            done = boxes.try_ssh(*options, command=command)
            assert done.returncode != 0, f"{what}: {done.stdout}"
            assert "uid=" not in done.stdout, what
        for what, target in (
            ("another port", f"127.0.0.1:{port}"),
            ("the web", boxes.url.removeprefix("http://")),
            ("another machine", "10.255.255.1:22"),
        ):
            done = boxes.try_ssh("-W", target)
            assert done.returncode != 0, what
            assert "prohibited" in done.stderr, f"{what}: {done.stderr}"
    check_sockets(boxes, folder)


def check_sockets(boxes: TwoBoxes, folder: Path) -> None:
    """Docker's socket, or the bus of an account: here one that everybody on the hub may open."""
    with tempfile.TemporaryDirectory() as place, socket.socket(socket.AF_UNIX) as docker:
        Path(place).chmod(0o755)
        there, here = Path(place) / "docker.sock", folder / "socket"
        docker.bind(str(there))
        there.chmod(0o666)
        docker.listen()
        process = boxes.begin_ssh("-N", "-L", f"{here}:{there}")
        try:
            wait_until(here.is_socket, "ssh listens")
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(here))
                assert client.recv(1) == b"", "something answers"
        finally:
            process.terminate()
        assert "open failed" in process.communicate()[1]
        docker.settimeout(0)
        with pytest.raises(BlockingIOError):
            docker.accept()


def check_return_after_a_cut(boxes: TwoBoxes, key: str) -> None:
    for each in boxes.box.list_programs("ServerAliveInterval"):
        each.kill()
    boxes.box.up.waits_for(r"(control|streams) was killed by SIGKILL")

    def answers() -> bool:
        try:
            return bool(chat(boxes, key))
        except (AssertionError, httpx.HTTPError):
            return False

    wait_until(answers, "the hub reaches the engine again")
    assert boxes.ask("Run.objects.count()") == 1


def check_return_of_the_hub(boxes: TwoBoxes) -> None:
    """What ended while the hub was away is known once it is back."""
    port = boxes.ask("Run.objects.get().port")
    boxes.hub.end()
    with suppress(httpx.HTTPError):
        httpx.get(f"http://127.0.0.1:{port}/die")
    boxes.hub.start()
    boxes.hub.up.waits_for("ready at")
    wait_for_state(boxes, "failed")
    assert boxes.ask("Run.objects.count()") == 1
    seen = "str(Box.objects.get(slug='milo').is_silent)"
    wait_until(lambda: boxes.ask(seen) == "False", "the box is heard of again")


def check_revocation(boxes: TwoBoxes) -> None:
    boxes.shell.run(
        "from servers.lifecycle.links.decisions import revoke\nrevoke(BoxLink.objects.get(), None)"
    )
    boxes.box.up.waits_for(r"control ended with exit code 255")
    roles = "__import__('servers.lifecycle.links.grants', fromlist=['x']).list_roles()"
    wait_until(lambda: boxes.ask(f"sorted({roles})") == [], "its role is gone")
    done = boxes.try_ssh("-N", "-T")
    assert re.search(r"Permission denied", done.stderr)
