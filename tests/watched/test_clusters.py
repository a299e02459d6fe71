"""Two engines on two boxes that somebody has started as one cluster are one card."""

import pytest
from django.test import Client

from servers import live
from servers.engines.launch import Launch
from servers.judge import clusters
from servers.models import Role, Run, Server
from servers.models.run import State
from tests import factories
from tests.watched import rows

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
    rank = clusters.rank(launch(engine, flags))

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
    assert clusters.rank(launch(engine, flags)) is None


def member(box: str, name: str, number: int, state: State) -> Run:
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
    follower = member("spark-2", "glm-rank-1", 1, State.STARTING)
    client = Client()
    client.force_login(factories.person(role=Role.EDITOR))

    alone = client.get("/").content.decode()
    assert "nobody watches here" in alone
    assert f'id="server-{follower.server_id}" class="card is-up"' in alone

    head = member("spark-1", "glm", 0, State.READY)
    told = client.get("/").content.decode()

    assert "Rank 0 of 2 of a cluster" in told
    assert 'Rank 1: <a href="/servers/glm-rank-1/">glm-rank-1</a> on spark-2' in told
    card = told.split(f'id="server-{follower.server_id}"')[1].split(">")[0]
    assert card.endswith(" hidden")
    page = client.get("/servers/glm-rank-1/").content.decode()
    assert "Rank 1 of the cluster whose rank 0 is" in page
    assert live.clusters.with_others([follower.server_id]) == {follower.server_id, head.server_id}
