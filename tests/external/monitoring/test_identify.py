"""Which engine answers on a port is found out by what it says, with GETs alone."""

import json
import socket
import threading

import pytest

from servers.watcher.external.discovery import EngineIdentity, identify
from tests.ports import free_port
from tests.scripted_engine import ScriptedEngine


def heard(engine: ScriptedEngine, *, hint: str = "", key: str = "") -> EngineIdentity:
    return identify([[("127.0.0.1", engine.port)]], hint=hint, key=key, is_its=lambda port: True)


def owned(by: str | None) -> tuple[int, str]:
    model = {"id": "glm-5"} | ({} if by is None else {"owned_by": by})
    return 200, json.dumps({"object": "list", "data": [model]})


@pytest.mark.parametrize(
    ("owner", "path", "body", "engine"),
    [
        ("vllm", "/version", {"version": "0.20.2"}, "vllm"),
        ("sglang", "/server_info", {"version": "0.5.12"}, "sglang"),
        ("sglang", "/get_server_info", {"version": "0.4.9"}, "sglang"),
        ("llamacpp", "/props", {"build_info": "b6100"}, "llamacpp"),
        (None, "/props", {"build_info": "b6100"}, "llamacpp"),
    ],
)
def test_an_engine_says_whose_its_models_are(
    owner: str | None, path: str, body: dict[str, str], engine: str
) -> None:
    with ScriptedEngine() as api:
        api.answers = {"/v1/models": owned(owner), path: (200, json.dumps(body))}

        found = heard(api)

        assert (found.answer, found.engine) == ("serves", engine)
        assert found.version in body.values()
        assert found.models == ("glm-5",)


@pytest.mark.parametrize("owner", ["library", "openai", "organization_owner"])
def test_what_only_speaks_their_language_is_none(owner: str) -> None:
    with ScriptedEngine() as api:
        api.answers = {"/v1/models": owned(owner), "/version": (200, '{"version": "1"}')}

        found = heard(api)

        assert (found.answer, found.is_other) == ("silent", True)
        assert [each["path"] for each in api.headers] == ["/v1/models"], "nothing more is asked"


def test_a_command_says_what_a_changed_engine_does_not() -> None:
    with ScriptedEngine() as api:
        api.answers = {"/v1/models": owned("team"), "/version": (200, '{"version": "0.20+x"}')}

        found = heard(api, hint="vllm")

        assert (found.answer, found.engine, found.version) == ("serves", "vllm", "0.20+x")


@pytest.mark.parametrize(
    ("status", "hint", "answer", "is_other"),
    [
        (401, "vllm", "locked", False),
        (401, "", "silent", True),
        (503, "llamacpp", "loading", False),
        (503, "", "silent", False),
        (404, "", "silent", True),
        (200, "", "silent", True),
    ],
)
def test_what_does_not_list_models_is_waited_for_or_left_alone(
    status: int, hint: str, answer: str, is_other: bool
) -> None:
    with ScriptedEngine() as api:
        api.answers = {"/v1/models": (status, "<html>")}

        found = heard(api, hint=hint)

        assert (found.answer, found.is_other) == (answer, is_other)


def test_the_key_of_its_own_command_opens_it() -> None:
    with ScriptedEngine() as api:
        heard(api, hint="vllm", key="sk-mine")

        assert api.headers[0]["authorization"] == "Bearer sk-mine"


def test_nothing_there_is_no_answer() -> None:
    port = free_port()
    found = identify([[("127.0.0.1", port)]], hint="", key="", is_its=lambda port: True)
    assert (found.answer, found.is_other) == ("silent", False)


def test_who_speaks_no_http_is_no_engine_and_hears_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        port = server.getsockname()[1]
        found = EngineIdentity()

        def answer() -> None:
            with server.accept()[0] as connection:
                connection.recv(4096)
                connection.sendall(b"-ERR unknown command\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        found = identify([[("127.0.0.1", port)]], hint="", key="", is_its=lambda port: True)
        thread.join()

    assert found.answer == "silent"


def test_a_port_of_the_box_that_is_somebody_elses_is_not_asked() -> None:
    with ScriptedEngine() as api:
        ways = [[("127.0.0.1", api.port)]]

        found = identify(ways, hint="vllm", key="", is_its=lambda port: False)

        assert (found.answer, api.headers) == ("silent", [])


def test_a_port_that_has_answered_is_not_asked_at_its_other_addresses() -> None:
    with ScriptedEngine() as api:
        api.answers = {"/v1/models": (404, "")}
        ways = [[("127.0.0.1", free_port()), ("127.0.0.1", api.port), ("127.0.0.1", api.port)]]

        identify(ways, hint="", key="", is_its=lambda port: True)

        assert len(api.headers) == 1
