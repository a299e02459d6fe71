"""Who holds a GPU's memory, on the dashboard's rows."""

import re

import pytest
from django.test import Client
from django.utils import timezone

from servers.judge.memory.gpu_owners import describe_command
from servers.judge.memory.ledger_words import MemoryHolder
from servers.models import Box, ExternalEngine, OtherWorkloads
from servers.models.runs.run import RunState
from tests import factories, samples
from tests.cases import table


@table(
    ("title", "says"),
    [
        ("python3 train_lora.py --rank 64", "train_lora.py"),
        ("/usr/bin/python3.12 -u /home/bob/train.py", "train.py"),
        ("python -m vllm.entrypoints.openai.api_server --port 8000", "vllm.entrypoints.openai.api_server"),
        ("torchrun --nproc-per-node=8 finetune.py", "finetune.py"),
        ("accelerate launch run.py", "run.py"),
        ("uv run serve.py", "serve.py"),
        ("sudo nohup ./llama-server -m x.gguf", "llama-server"),
        ("VLLM::Worker_TP1", "VLLM::Worker_TP1"),
        ("sglang::scheduler: idle", "sglang::scheduler"),
        ("python3 -c import torch", "python3"),
        ("python3", "python3"),
        ("", "python3"),
    ],
)  # fmt: skip
def test_a_command_is_named_by_what_it_runs(title: str, says: str) -> None:
    holder = MemoryHolder(
        pid=1, name="python3", title=title, user="bob", state="S", container="", server="",
        started_at=None, used=1,
    )  # fmt: skip

    assert describe_command(holder) == says


@pytest.fixture
def box(own_redis: None, db: None) -> Box:
    return factories.box(gpus=7)


def rows(client: Client) -> list[str]:
    """The words of each row of the dashboard."""
    said = client.get("/").content.decode()
    found = re.findall(r'<tr class="gpu-row.*?</tr>', said, re.DOTALL)
    return [" ".join(re.sub(r"<[^>]+>", " ", each).split()) for each in found]


def test_each_row_names_who_holds_its_memory(box: Box) -> None:
    ready = factories.run(factories.server(box, "glm-5", gpus="0"))
    factories.run(factories.server(box, "gpt-oss-120b", gpus="5"), RunState.STARTING, gpus="5")
    over = factories.run(
        factories.server(box, "gemma-tiny", gpus="1"), RunState.STOPPED, container_id="e" * 64
    )
    began = timezone.now().timestamp() - 3 * 3600 - 5
    engine, other = "a" * 64, "b" * 64
    ExternalEngine.objects.create(box=box, container_id=engine, found={"name": "vllm_node"})
    speech = {"container": other, "name": "parakeet-asr"}
    factories.observation(OtherWorkloads, box, data={"containers": [speech]})
    held = [[(11, 40.0)], [(12, 9.0)], [(13, 9.0)], [(14, 9.0)], [(15, 9.0), (16, 3.0)], [], []]
    factories.tell(
        box,
        samples.sample(
            [samples.card(index, each) for index, each in enumerate(held)],
            [
                samples.process(11, ready.container_id),
                samples.process(12, over.container_id),
                samples.process(13, engine, title="python3 -m vllm.main"),
                samples.process(14, other, title="python3 serve.py", started_at=began),
                samples.process(15, title="python3 train.py", user="bob", started_at=began),
                samples.process(16, title="python3 train.py", user="eve"),
            ],
        ),
    )

    said = rows(factories.log_in(factories.person()))

    names = (
        "glm-5",
        "left by gemma-tiny",
        "vllm_node",
        "parakeet-asr",
        "bob",
        "gpt-oss-120b",
        "free",
    )
    assert [name for name, row in zip(names, said, strict=True) if name not in row] == []
    assert "vllm.main" in said[2]
    assert "serve.py 3 h" in said[3]
    assert "train.py 3 h" in said[4]
    assert "+1" in said[4]
    assert "bob" in said[4]
    assert "loading" in said[5]
    assert "40.4 / 95.6" in said[0]


def test_many_boxes_are_a_line_each_that_opens(box: Box) -> None:
    ada = factories.log_in(factories.person())
    factories.tell(box, samples.sample([samples.card(0, [(11, 40.0)]), samples.card(1, [])], []))
    assert (
        "<details" not in ada.get("/").content.decode().split('id="servers"')[0].split("<main")[1]
    )
    for number in range(3):
        factories.box(f"spark-{number}")

    said = ada.get("/").content.decode()

    assert f'<details class="box-fold" id="box-{box.pk}-fold">' in said
    assert "2 GPUs: 1 free" in " ".join(said.split())
