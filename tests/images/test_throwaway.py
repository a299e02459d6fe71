"""What an image may do while it is asked something: nothing but answer, and not for long."""

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from docker import APIClient

from servers.host.docker import throwaway
from servers.host.docker.containers import QUESTION, ContainerError, DockerContainers, Spec
from servers.host.docker.throwaway import ContainerCommand, ContainerOutput
from tests.base_images import BASE
from tests.chaos.docker_proxy import DockerProxy

pytestmark = pytest.mark.docker


def ask(
    docker: DockerContainers,
    script: str,
    *,
    go_on: Callable[[], bool] = lambda: True,
    **limits: Any,
) -> ContainerOutput:
    words = ("/bin/sh", "-c", script)
    return throwaway.ask(docker, ContainerCommand(image=BASE, words=words, **limits), go_on=go_on)


def left(docker: DockerContainers) -> list[Any]:
    """Throw-away containers of this install that are still there."""
    labels = [f"inferdash.install={docker.install}", QUESTION]
    with closing(APIClient(docker.host, version="auto")) as client:
        found: list[Any] = client.containers(all=True, filters={"label": labels})
    return found


def test_an_image_answers_and_nothing_is_left(docker: DockerContainers) -> None:
    said = ask(docker, "echo out; echo err >&2; exit 3")

    assert said == ContainerOutput(end="ended", exit_code=3, output="out\n", errors="err\n")
    assert left(docker) == []


def test_a_program_that_closes_its_output_first_is_waited_for(
    docker: DockerContainers, tmp_path: Path
) -> None:
    with DockerProxy(tmp_path / "docker.sock", docker.host) as proxy:
        through = DockerContainers(docker.install, proxy.host)
        said = ask(through, "echo out; exec >&- 2>&-; sleep 1.5; exit 3")
        through.close()

    assert said == ContainerOutput(end="ended", exit_code=3, output="out\n")
    assert proxy.calls.count("POST /containers/ID/wait") == 1
    # As it starts, when it has ended, and as it is removed.
    assert proxy.calls.count("GET /containers/ID/json") == 3


def test_one_that_closes_its_output_and_stays_is_killed_in_time(docker: DockerContainers) -> None:
    assert ask(docker, "exec >&- 2>&-; sleep 60", seconds=1).end == "late"
    assert left(docker) == []


def test_there_is_no_network(docker: DockerContainers) -> None:
    said = ask(docker, "cat /proc/net/dev; tail -n +2 /proc/net/route")

    interfaces = [line.split(":")[0].strip() for line in said.output.splitlines() if ":" in line]
    assert interfaces == ["lo"]
    assert len(said.output.splitlines()) == 3  # two of heading, and no route


def test_there_is_nowhere_to_write_but_a_small_tmp(docker: DockerContainers) -> None:
    said = ask(
        docker,
        "touch /root/x || echo root; touch /opt/x || echo opt; echo y > /tmp/x && echo tmp; "
        "head -c 100000000 /dev/zero > /tmp/full || echo full",
    )

    assert said.output.split() == ["root", "opt", "tmp", "full"]


def test_a_volume_that_the_image_declares_is_none(docker: DockerContainers) -> None:
    with closing(APIClient(docker.host, version="auto")) as client:
        made = client.create_container(BASE, ["true"])
        image = client.commit(made["Id"], "inferdash-test/volume", changes=["VOLUME /big"])["Id"]
        client.remove_container(made["Id"])
        script = "head -c 100000000 /dev/zero > /big/full || grep -c ' /big tmpfs' /proc/mounts"
        question = ContainerCommand(image=image, words=("/bin/sh", "-c", f"{script}; sleep 60"))
        seen: list[Any] = []

        def look() -> bool:
            seen.append(client.inspect_container(left(docker)[0]["Id"])["Mounts"])
            return len(seen) < 4  # two seconds: enough to fill it

        said = throwaway.ask(docker, question, go_on=look)
        client.remove_image("inferdash-test/volume:latest", force=True)

    assert said.output == "1\n"
    assert seen == [[]] * 4


def test_an_image_that_is_not_there_is_not_pulled(docker: DockerContainers) -> None:
    with pytest.raises(ContainerError, match="no/such:1 is not on this box"):
        throwaway.ask(docker, ContainerCommand(image="no/such:1", words=("true",)))


def test_there_are_no_capabilities_and_none_can_be_had(docker: DockerContainers) -> None:
    said = ask(docker, "grep -E '^(Cap(Prm|Eff|Bnd)|NoNewPrivs)' /proc/self/status")

    values = {line.split(":")[0]: int(line.split()[1], 16) for line in said.output.splitlines()}
    assert values == {"CapPrm": 0, "CapEff": 0, "CapBnd": 0, "NoNewPrivs": 1}


def test_nothing_of_the_box_is_mounted_and_no_gpu_is_given(docker: DockerContainers) -> None:
    seen: list[dict[str, Any]] = []

    def look() -> bool:
        with closing(APIClient(docker.host, version="auto")) as client:
            seen.append(client.inspect_container(left(docker)[0]["Id"]))
        return False

    said = ask(docker, "sleep 60", go_on=look)

    host = seen[0]["HostConfig"]
    assert said.end == "given_up"
    assert seen[0]["Mounts"] == []
    assert host["DeviceRequests"] in (None, [])
    assert "NVIDIA_VISIBLE_DEVICES=void" in seen[0]["Config"]["Env"]
    assert (host["Memory"], host["MemorySwap"], host["PidsLimit"]) == (4 << 30, 4 << 30, 1024)
    assert host["LogConfig"]["Type"] == "none"
    assert left(docker) == []


@pytest.mark.parametrize(
    "script", ["sleep 600", "exec >&- 2>&-; sleep 600", "trap '' TERM; sleep 600"]
)
def test_one_that_hangs_is_killed_after_its_time(docker: DockerContainers, script: str) -> None:
    said = ask(docker, f"echo begun; {script}", seconds=1)

    assert said.end == "late"
    assert said.exit_code is None
    assert said.output == "begun\n"
    assert left(docker) == []


def test_one_on_a_busy_box_is_given_longer(
    docker: DockerContainers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (1000.0, 0.0, 0.0))
    assert ask(docker, "sleep 600", seconds=0.1).end == "late"
    monkeypatch.setattr(throwaway, "_TIMES_LONGER_WHILE_BUSY", 300)
    said = ask(docker, "sleep 2; echo done", seconds=1)

    assert (said.end, said.output) == ("ended", "done\n")
    assert said.took > 1  # what it was given


def test_one_that_prints_without_end_is_cut(docker: DockerContainers) -> None:
    said = ask(docker, "head -c 100000000 /dev/zero | tr '\\0' x; echo; sleep 600")

    assert said.end == "long"
    assert 1 << 20 <= len(said.output) < 2 << 20
    assert left(docker) == []


def test_one_that_wants_too_much_memory_is_killed(docker: DockerContainers) -> None:
    said = ask(docker, "exec python3 -c 'x = bytearray(200 << 20)'", memory=64 << 20)

    assert said.end == "memory"


def test_one_that_forks_without_end_is_stopped(docker: DockerContainers) -> None:
    said = ask(docker, "for i in $(seq 50); do sleep 60 & done; wait", pids=20, seconds=20)

    assert "fork" in said.errors.lower()


def test_a_program_that_is_missing_is_told(docker: DockerContainers) -> None:
    with pytest.raises(ContainerError) as caught:
        throwaway.ask(docker, ContainerCommand(image=BASE, words=("/no/such",)))

    assert "/no/such" in str(caught.value)
    assert left(docker) == []


def test_a_throw_away_container_is_no_run(docker: DockerContainers) -> None:
    listed: list[int] = []

    def look() -> bool:
        listed.append(len(docker.list_ours()))
        return False

    ask(docker, "sleep 60", go_on=look)

    assert listed == [0]


def test_its_events_belong_to_no_run(docker: DockerContainers) -> None:
    with closing(docker.events()) as events:
        ask(docker, "true")
        heard = []
        for event in events:
            heard.append(event)
            if event.action == "destroy":
                break

    assert {event.run for event in heard} == {None}


def test_what_a_killed_watcher_left_is_removed_and_nothing_else(docker: DockerContainers) -> None:
    engine = docker.run(
        Spec(
            image=BASE,
            entrypoint=("sleep",),
            command=("60",),
            labels={"inferdash.install": docker.install},
        )
    )
    with closing(APIClient(docker.host, version="auto")) as client:
        for install in (docker.install, "another-install"):
            labels = {"inferdash.install": install, QUESTION: "yes"}
            made = client.create_container(BASE, ["sleep", "60"], labels=labels)
        assert throwaway.drop_leftovers(docker) == 1
        client.remove_container(made["Id"])

    assert left(docker) == []
    assert docker.inspect(engine.id) is not None
