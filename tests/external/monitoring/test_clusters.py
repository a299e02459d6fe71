"""Two engines on two boxes that somebody has started as one cluster are one card."""

from typing import Any

import pytest

from servers.contexts.external import with_others
from servers.launch.commandline.clusters import ray_start, read_rank, uses_ray, works_for
from servers.launch.engines.launch import Launch
from servers.lifecycle.runs.starts import list_ray_heads
from servers.models import HostResources, OtherWorkloads, Role, Run, Server
from servers.models.runs.run import RunState
from tests import factories
from tests.cases import table
from tests.external.monitoring import rows

RANKS = "--nnodes 2 --node-rank {} --dist-init-addr 10.0.0.1:20000"


def launch(engine: str, flags: str) -> Launch:
    return Launch(engine=engine, image="x", checkpoint="a/b", flags=tuple(flags.split()))


@pytest.mark.parametrize(
    ("engine", "flags", "number", "of", "meeting"),
    [
        ("sglang", RANKS.format(0), 0, 2, "10.0.0.1:20000"),
        ("sglang", RANKS.format(1), 1, 2, "10.0.0.1:20000"),
        ("sglang", "--nnodes=2 --dist_init_addr=spark-1:5000", 0, 2, "spark-1:5000"),
        (
            "vllm",
            "--nnodes 2 --node-rank 1 --master-addr 10.0.0.1 --master-port 29501 --headless",
            *(1, 2, "10.0.0.1:29501"),
        ),
        (
            "vllm",
            "--headless -dp 4 --data-parallel-start-rank 2 --data-parallel-address 10.0.0.1",
            *(2, None, "10.0.0.1"),
        ),
        ("vllm", "-dp 4 -dpa 10.0.0.1 -dpp 13345", 0, None, "10.0.0.1:13345"),
    ],
)
def test_its_flags_say_which_rank_it_is(
    engine: str, flags: str, number: int, of: int | None, meeting: str
) -> None:
    rank = read_rank(launch(engine, flags))

    assert rank is not None
    assert (rank.number, rank.of, rank.meeting) == (number, of, meeting)


@pytest.mark.parametrize(
    ("engine", "flags"),
    [
        ("sglang", "--tp 2"),
        ("sglang", "--nnodes 1 --dist-init-addr 10.0.0.1:20000"),
        ("sglang", "--nnodes 2 --node-rank 1 --dist-init-addr 127.0.0.1:20000"),
        ("vllm", "--nnodes 2 --node-rank 1"),
        ("vllm", "--headless --data-parallel-address 10.0.0.1"),
        ("llamacpp", RANKS.format(1)),
    ],
)
def test_what_runs_alone_or_does_not_say_so_is_no_rank(engine: str, flags: str) -> None:
    assert read_rank(launch(engine, flags)) is None


def member(box: str, name: str, number: int, state: RunState) -> Run:
    run = rows.watched(
        factories.box(box), name, state, container_id=f"{number + 1:064x}", ready_at=None
    )
    profile = run.server.profile
    version = profile.save_version(
        launch("sglang", RANKS.format(number)), by=factories.person(), message="rank"
    )
    Run.objects.filter(pk=run.pk).update(version=version)
    Server.objects.filter(pk=run.server_id).update(watches={"name": name})
    return Run.objects.select_related("server", "version").get(pk=run.pk)


@pytest.mark.django_db
@pytest.mark.usefixtures("own_redis")
def test_the_follower_stands_on_the_card_of_its_head() -> None:
    follower = member("spark-2", "glm-rank-1", 1, RunState.STARTING)
    client = factories.log_in(factories.person(role=Role.EDITOR))

    alone = client.get("/").content.decode()
    assert "is not monitored here" in alone
    assert f'id="server-{follower.server_id}" class="card is-up"' in alone

    head = member("spark-1", "glm", 0, RunState.READY)
    told = client.get("/").content.decode()

    assert "Rank 0 of 2 of a cluster" in told
    assert 'Rank 1: <a href="/servers/glm-rank-1/">glm-rank-1</a> on spark-2' in told
    card = told.split(f'id="server-{follower.server_id}"')[1].split(">")[0]
    assert card.endswith(" hidden")
    page = client.get("/servers/glm-rank-1/").content.decode()
    assert "Rank 1 of the cluster whose rank 0 is" in page
    assert with_others([follower.server_id]) == {follower.server_id, head.server_id}


@table(
    ("words", "told"),
    [
        (["ray", "start", "--address=10.0.0.1:6379", "--block"], "10.0.0.1:6379"),
        (["/bin/bash", "-c", "ray start --block --address=spark-1:7000"], "spark-1:7000"),
        (["bash", "-lc", "pip list; ray start --address $HEAD_IP:6379 --block"], "10.0.0.9:6379"),
        (["python3", "/opt/venv/bin/ray", "start", "--address", "10.0.0.1:6379"], "10.0.0.1:6379"),
        (["ray", "start", "--address=auto"], ""),
        (["ray", "stop"], ""),
        (["vllm", "serve", "ray", "start"], ""),
        ([], ""),
    ],
)
def test_who_joins_a_cluster_of_rays_is_told_by_its_words(words: list[str], told: str) -> None:
    found = ray_start(words, {"HEAD_IP": "10.0.0.9"})

    assert (f"{found.host}:{found.port}" if found else "") == told
    assert found is None or not found.is_head


HEAD = ["bash", "-c", "ray start --head --port=6379 && vllm serve a/b -pp 2"]


@pytest.mark.parametrize(
    ("flags", "words", "box", "is_its"),
    [
        ("--distributed-executor-backend ray", [], ["10.0.0.1", "192.168.1.5"], True),
        ("--distributed-executor-backend=ray", [], ["10.0.0.2"], False),
        ("-pp 2", HEAD, ["10.0.0.1"], True),
        ("-pp 2", [HEAD[0], HEAD[1], HEAD[2].replace("6379", "7000")], ["10.0.0.1"], False),
        ("-pp 2", [*HEAD[:2], "ray start --head --node-ip-address 10.0.0.1"], [], True),
    ],
)
def test_a_worker_of_rays_belongs_to_the_engine_beside_its_head(
    flags: str, words: list[str], box: list[str], is_its: bool
) -> None:
    assert uses_ray(launch("vllm", flags), words)
    assert works_for("10.0.0.1:6379", launch("vllm", flags), words, box) is is_its


def test_an_engine_without_ray_has_none() -> None:
    assert not uses_ray(launch("vllm", "-pp 2"), ["vllm", "serve", "a/b"])
    assert not uses_ray(launch("vllm", "--distributed-executor-backend mp"), [])


@pytest.mark.django_db
@pytest.mark.usefixtures("own_redis")
def test_the_worker_of_ray_stands_on_the_card_of_its_engine() -> None:
    head = rows.watched(factories.box("spark-1"), "minimax", command=HEAD)
    host_resources = factories.observation(
        HostResources, head.server.box, found={"addresses": ["10.0.0.9"]}
    )
    worker: dict[str, Any] = {
        "container": "f00d" * 16, "name": "ray-worker", "image": "vllm/vllm-openai", "ports": [],
        "started_at": None, "wants_gpus": False, "origin": {}, "ray": "10.0.0.1:6379",
    }  # fmt: skip
    factories.observation(OtherWorkloads, factories.box("spark-2"), containers=[worker])
    client = factories.log_in(factories.person(role=Role.EDITOR))

    assert "ray-worker" not in client.get("/").content.decode()
    alone = client.get("/boxes/spark-2/found/").content.decode()
    assert "Works for an engine that is not monitored here" in alone

    host_resources.write(found={"addresses": ["10.0.0.1"]})
    card = client.get("/").content.decode()
    assert "1 worker of it is seen" in card
    assert '<span class="mono" hx-ignore>ray-worker</span> on' in card
    assert "1 worker of it is seen" in client.get("/servers/minimax/").content.decode()
    found = client.get("/boxes/spark-2/found/").content.decode()
    assert 'Works for <a href="/servers/minimax/">minimax</a> on spark-1' in found
    assert list_ray_heads() == [head.server_id]
