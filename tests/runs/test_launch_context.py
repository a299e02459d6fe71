"""One launch context a request: what is known around a launch is gathered once."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from servers.lifecycle.profiles.knowledge import Knowledge, LaunchContext
from servers.models import Role, Server
from servers.state import samples as box_samples
from servers.state import store
from tests import factories, samples
from tests.profiles.test_checks import browser, typed

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]

# What is known around a launch. The page around it may ask for boxes of its own.
GATHERED = (
    "servers_imagefacts", "servers_checkpointfacts", "servers_storedcheckpoint",
    "servers_hostresources", "servers_externalengine",
)  # fmt: skip


@pytest.fixture
def server() -> Server:
    box = factories.box(hf_cache="~/.cache/huggingface")
    card = {"name": samples.RTX, "compute_capability": "12.0", "kind": "discrete", "total": None}
    box.facts = {**box.facts, "gpus": [{"index": 0, **card}], "driver": "580.142"}
    box.save()
    return factories.server(
        box, "coder", image="vllm/vllm-openai:v0.20.2", engine="vllm", checkpoint="org/coder",
        gpus="1x RTX",
    )  # fmt: skip


@pytest.fixture
def gathered(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each gatherer was called."""
    calls: Counter[str] = Counter()

    def count(owner: object, name: str) -> None:
        plain: Callable[..., Any] = getattr(owner, name)

        def counted(*given: Any, **named: Any) -> Any:
            calls[name] += 1
            return plain(*given, **named)

        monkeypatch.setattr(owner, name, counted)

    count(LaunchContext, "__init__")
    count(Knowledge, "__init__")
    count(box_samples, "newest")
    count(store, "all_kept")
    return calls


ONCE = {"__init__": 2, "newest": 1, "all_kept": 1}


def _tables(queries: CaptureQueriesContext) -> Counter[str]:
    said = [each["sql"].split(" FROM ", 1)[-1] for each in queries if "SELECT" in each["sql"]]
    return Counter(name for sql in said for name in GATHERED if sql.startswith(f'"{name}"'))


def test_a_start_gathers_once(server: Server, gathered: Counter[str]) -> None:
    ben = browser(Role.OPERATOR)
    gathered.clear()

    with CaptureQueriesContext(connection) as queries:
        assert ben.post(f"/servers/{server.slug}/start/").status_code in (200, 204)

    assert gathered == ONCE
    assert set(_tables(queries).values()) == {1}, _tables(queries)


@pytest.mark.parametrize("path", ["check", "fit"])
def test_a_form_gathers_once(path: str, server: Server, gathered: Counter[str]) -> None:
    eva = browser(Role.EDITOR)
    form = typed(eva, f"/profiles/{server.slug}/edit/") | {"profile": server.slug}
    gathered.clear()

    with CaptureQueriesContext(connection) as queries:
        assert eva.post(f"/profiles/{path}/", form).status_code == 200

    assert gathered == ONCE
    assert set(_tables(queries).values()) == {1}, _tables(queries)
