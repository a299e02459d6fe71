"""What others run on a box is seen there, without a question to those that are none of ours."""

import json
from typing import Any

import pytest

from servers.host.docker.facts import Json
from servers.launch.commandline import inspect
from servers.launch.commandline.tokens import LaunchCommand
from servers.launch.engines.llamacpp import LLAMACPP
from servers.models import ExternalEngine
from servers.watcher.external import engines, processes
from servers.watcher.external.discovery import DiscoveredLife
from servers.watcher.external.engines import ExternalEngines
from tests.base_images import BASE
from tests.chaos.place import ChaosSite
from tests.external.monitoring.hands import Hands
from tests.ports import free_port

pytestmark = pytest.mark.docker

# Counts who asks it for anything.
COUNTING = """
import http.server
class Counting(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print("ASKED", self.path, flush=True)
        self.send_response(404)
        self.end_headers()
http.server.HTTPServer(("", 8000), Counting).serve_forever()
"""


def test_an_engine_that_somebody_else_started_is_seen(place: ChaosSite, hands: Hands) -> None:
    place.watcher()
    container = hands.run(
        "mine", publish=8000, env={"HF_TOKEN": "hf_" + "s" * 34}, restart_policy={"Name": "always"}
    )

    found = hands.sees(container)

    assert (found.engine, found.version) == ("vllm", "0.33.0-test")
    assert found.models == ("Qwen/Qwen3-8B",)
    assert found.name == hands.name("mine")
    assert found.image == "inferdash-test/engine:1"
    ports = hands.client.inspect_container(container)["NetworkSettings"]["Ports"]
    assert (found.address, found.port) == ("127.0.0.1", int(ports["8000/tcp"][0]["HostPort"]))
    assert found.origin.started_by == "docker run, by hand or by a script"
    assert found.origin.revived_by.startswith("Docker starts it again whenever it ends")
    kept = ExternalEngine.objects.get(container_id=container).found
    assert "hf_" not in json.dumps(kept), "no secret is kept"


def test_one_that_publishes_nothing_is_reached_at_its_own_address(
    place: ChaosSite, hands: Hands
) -> None:
    place.watcher()
    container = hands.run(
        "inner",
        "python3",
        "-m",
        "sglang.launch_server",
        "--model-path",
        "a/b",
        "--host",
        "0.0.0.0",
        labels={
            "com.docker.compose.project": "speech",
            "com.docker.compose.service": "llm",
            "com.docker.compose.project.working_dir": "/srv/speech",
        },
    )

    found = hands.sees(container)

    assert (found.engine, found.port) == ("sglang", 30000)
    assert found.address.startswith("172.")
    assert found.origin.started_by == "compose project speech (service llm, in /srv/speech)"


@pytest.mark.parametrize("told_by", ["a flag", "a variable", "its release"])
def test_one_on_the_boxs_own_network_is_reached_there(
    place: ChaosSite, hands: Hands, told_by: str
) -> None:
    place.watcher()
    port = LLAMACPP.newer_port if told_by == "its release" else free_port()
    words: list[str] = ["-m", "/models/x.gguf", "--host", "127.0.0.1", "--port", str(port)]
    env = {}
    if told_by != "a flag":
        words = []
        name = "LLAMA_ARG_PORT" if told_by == "a variable" else "ENGINE_PORT"
        env = {"LLAMA_ARG_MODEL": "/models/x.gguf", name: str(port)}

    container = hands.run("on-host", "llama-server", *words, env=env, network_mode="host")
    found = hands.sees(container)

    assert (found.engine, found.address, found.port) == ("llamacpp", "127.0.0.1", port)


def test_one_that_still_loads_is_shown_as_such(place: ChaosSite, hands: Hands) -> None:
    place.watcher()
    container = hands.run("loads", env={"ENGINE_SECONDS": "600"})

    found = hands.sees(container, "silent")

    assert (found.engine, found.says) == ("vllm", "does not answer yet")


def test_one_of_another_inferdash_is_said_to_be_that(place: ChaosSite, hands: Hands) -> None:
    place.watcher()
    container = hands.run("theirs", labels={"inferdash.install": "1a2b3c4d-0000"})

    assert hands.sees(container).origin.started_by == "another inferdash (1a2b3c4d)"


def test_what_is_no_engine_is_asked_once_and_not_shown(place: ChaosSite, hands: Hands) -> None:
    """Looked at from here: watchers of other tests may ask it, too."""
    entrypoint = ["python3", "-u", "-c", COUNTING]
    other = hands.run("counts", "", image=BASE, entrypoint=entrypoint, publish=8000)
    looking = ExternalEngines(place.box)

    def known() -> DiscoveredLife | None:
        looking.look(None)
        known = looking._acquaintances._known
        return next((each for (key, _at), each in known.items() if key == other), None)

    place.waits_for("it has answered", lambda: (it := known()) is not None and it.is_settled)
    # While its server came up nothing had listened.
    first = known()
    assert first is not None
    asks = first.asks
    for _round in range(3):
        again = known()
    assert again is not None
    assert again.heard is not None
    assert (again.asks, again.heard.is_other) == (asks, True)
    assert "ASKED /v1/models" in hands.client.logs(other).decode()
    assert hands.found(other) is None


def test_what_ended_is_told_as_ended_until_it_is_removed(place: ChaosSite, hands: Hands) -> None:
    place.watcher()
    container = hands.run("goes")
    hands.sees(container)

    hands.client.kill(container)

    found = hands.sees(container, "ended")
    assert (found.exit_code, found.end) == (137, "exited with 137, by SIGKILL")
    hands.client.remove_container(container)
    place.waits_for("it is gone", lambda: hands.found(container) is None)


def test_what_is_odd_of_one_keeps_nobody_from_seeing_the_others(
    place: ChaosSite, hands: Hands
) -> None:
    """Looked at from here: a watcher that breaks over it would be started again for ever."""
    low, high = sorted((free_port(), free_port()))
    # One free port of a range, as `docker run -p 8000-8010:8000` asks for.
    bindings: dict[int | str, Any] = {8000: f"{low}-{high}"}
    ranged = hands.client.create_container(
        BASE,
        ["true"],
        name=hands.name("ranged"),
        ports=[8000],
        host_config=hands.client.create_host_config(port_bindings=bindings),
    )["Id"]
    hands.made.append(ranged)
    keyed = hands.run("keyed", publish=8000, env={"VLLM_API_KEY": "schlüssel"})
    numbered = hands.run("numbered", "vllm", "serve", "a/b", "--port", "²")
    looking = ExternalEngines(place.box)

    def seen() -> dict[str, str]:
        looking.look(None)
        return {each.container_id: each.found["answer"] for each in ExternalEngine.objects.all()}

    place.waits_for("its engine has answered", lambda: seen().get(keyed) == "serves")
    assert numbered in seen()
    other = place.docker.other(ranged)
    assert other is not None
    assert [port.container_port for port in other.container.ports] == [8000]


def test_a_fault_of_ours_over_one_is_logged_and_the_others_are_seen(
    place: ChaosSite,
    hands: Hands,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken, gone = hands.run("broken", publish=8000), hands.run("gone", publish=8000)
    well = hands.run("well", publish=8000)
    hands.client.kill(gone)

    def command_of(container: Json, image: Json | None) -> LaunchCommand:
        if container["Id"] in (broken, gone):
            raise KeyError("something new of Docker's")
        return inspect.command_of(container, image)

    monkeypatch.setattr(engines, "command_of", command_of)
    monkeypatch.setattr(processes, "command_of", command_of)
    looking = ExternalEngines(place.box)

    def serves() -> bool:
        looking.look(None)
        return ExternalEngine.objects.filter(container_id=well, found__answer="serves").exists()

    place.waits_for("the other one is seen", serves)
    said = [record.getMessage() for record in caplog.records]
    assert f"What runs in {hands.name('broken')} cannot be read" in said
    assert f"What ran in {hands.name('gone')} cannot be read" in said
