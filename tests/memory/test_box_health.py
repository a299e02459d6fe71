"""A box's page never says that nothing is wrong beside memory that is held without a run."""

from typing import Any

import pytest

from servers import events
from servers.contexts.memory import hardware
from servers.judge.memory.orphans import Orphan
from servers.models import Box
from servers.watcher import box_row
from tests import factories
from tests.samples import card, sample

LEFT = Orphan(
    key="k", kind="process", what="VLLM::EngineCore", why="It outlived its run.", size=71 * 2**30,
    size_of="GPU memory", is_running=True,
).to_json()  # fmt: skip


def verdict(name: str) -> dict[str, Any]:
    return {
        "gpu": card(0, [])["uuid"], "verdict": name, "reason": "Process 4242 holds 71.5 GiB.",
        "advice": "End it.", "alarm": True,
        "since": 0.0, "unattributed": 0, "severity": "warning",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("verdicts", "left", "is_well"),
    [
        (["ok"], [], True),
        (["settling"], [], True),
        (["residual"], [], False),
        (["leaked"], [], False),
        (["ok"], [LEFT], False),
        (["ok"], [LEFT | {"size_of": "disk"}], True),
    ],
)
def test_it_is_well_only_where_no_orphan_holds_memory(
    db: None, own_redis: object, verdicts: list[str], left: list[dict[str, Any]], is_well: bool
) -> None:
    box = factories.box("rtx8", left_behind=left)
    said = sample([card(0, [])], []) | {"findings": [], "verdicts": list(map(verdict, verdicts))}
    events.publish_sample(box.slug, box.pk, said)
    client = factories.log_in(factories.person())

    page = client.get("/boxes/rtx8/").content.decode()

    assert hardware(said, left).is_well is is_well
    assert ("nothing wrong" in page) is is_well
    assert ("memory is held without a run" in page) is not is_well
    assert not ("It is listed below" in page and not left)
    assert Box.objects.get().left_behind == left
    box.facts = box.facts | {"faults": box_row.faults(said)}
    assert box.health == ("ok" if is_well else "attention"), "nor the dot beside its name"
