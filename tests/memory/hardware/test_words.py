"""What is written of the rules: in docs/health.md, and in the book of XID errors."""

import re

from servers.judge.memory.hardware.finding import RULES, SEVERITIES
from servers.judge.memory.hardware.judge import ALL
from servers.judge.memory.hardware.machine import ORIGINS, Xid, load_shipped
from tests.cases import table
from tests.terminal import ROOT

ASKED = (13, 31, 43, 45, 48, 63, 64, 74, 79, 92, 94, 95, 109, 119, 120, 140, 154)


def test_the_page_of_the_docs_has_every_rule_once() -> None:
    text = (ROOT / "docs/health.md").read_text()
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == list(RULES)


def test_every_rule_has_its_judge() -> None:
    ids = [rule for make in ALL for rule in make().ids]
    assert sorted(ids) == sorted(RULES)


@table("xid", load_shipped().values(), ids=lambda xid: str(xid.number))
def test_an_xid_is_whole(xid: Xid) -> None:
    assert xid.severity in SEVERITIES
    assert xid.origin in ORIGINS
    assert xid.means[0].islower() or xid.means.startswith("NVLink")
    assert not xid.means.endswith(".")
    assert xid.advice.endswith((".", "”."))


def test_the_xids_that_matter_are_in_the_book() -> None:
    assert set(ASKED) <= set(load_shipped())
