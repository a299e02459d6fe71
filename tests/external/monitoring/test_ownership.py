"""No verb takes what somebody else has started: mypy refuses it, and so does the verb itself."""

import inspect
import pkgutil
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest
from django.db.models import Model

from servers import lifecycle
from servers.lifecycle import gateway
from servers.lifecycle.external import ProcessWorkload, monitoring
from servers.lifecycle.gateway import NotStartedError
from servers.lifecycle.images import work
from servers.lifecycle.runs import (
    commands,
    creation,
    gpu_conflicts,
    health,
    reconcile,
    restart_policy,
)
from servers.lifecycle.runs.ownership import ExternalRunError, require_external, require_managed
from servers.models import Run, Server
from servers.models.runs.run import PARTS, ExternalRun, ExternalServer, ManagedRun, ManagedServer
from tests import factories
from tests.external.monitoring import rows

ADA = factories.person
KINDS = (ManagedRun, ManagedServer, ExternalRun, ExternalServer)
LIFE = ProcessWorkload(rows.found(container="pid-4711-99", pid=4711))

# Each line is an error of mypy's that is expected: an ignore that ignores nothing is one, too.
VERBS: dict[str, Callable[[ExternalServer, ExternalRun], object]] = {
    "runs.commands.start": lambda server, _: commands.start(server, by=None),  # type: ignore[arg-type]
    "runs.commands.restart": lambda server, _: commands.restart(server, by=None),  # type: ignore[arg-type]
    "runs.commands.call_off": lambda server, _: commands.call_off(server, by=None),  # type: ignore[arg-type]
    "runs.commands.remove": lambda server, _: commands.remove(server, by=None),  # type: ignore[arg-type]
    "runs.commands.restore": lambda server, _: commands.restore(server, by=None),  # type: ignore[arg-type]
    "runs.commands.start_again": lambda _, run: commands.start_again(run, why=""),  # type: ignore[arg-type]
    "runs.commands.queue": lambda _, run: commands.queue(run, by=None, action="start"),  # type: ignore[arg-type]
    "runs.commands.stop": lambda _, run: commands.stop(run, by=None),  # type: ignore[arg-type]
    "runs.reconcile.advance": lambda _, run: reconcile.advance(run),  # type: ignore[arg-type]
    "runs.reconcile.check_limit": lambda _, run: reconcile.check_limit(run),  # type: ignore[arg-type]
    "runs.reconcile.observe": lambda _, run: reconcile.observe(run),  # type: ignore[arg-type]
    "images.work.find_or_request_pull": lambda _, run: work.find_or_request_pull(run),  # type: ignore[arg-type]
    "images.work.let_go_of_pull": lambda _, run: work.let_go_of_pull(run),  # type: ignore[arg-type]
    "runs.creation.create": lambda _, run: creation.create(run),  # type: ignore[arg-type]
    "runs.creation.remove_predecessors": lambda _, run: creation.remove_predecessors(run),  # type: ignore[arg-type]
    "runs.creation.remove_container": lambda _, run: creation.remove_container(run),  # type: ignore[arg-type]
    "runs.restart_policy.plan": lambda _, run: restart_policy.plan(run),  # type: ignore[arg-type]
    "runs.gpu_conflicts.drop_cache": lambda _, run: gpu_conflicts.drop_cache(run),  # type: ignore[arg-type]
    "runs.health.stop_load": lambda _, run: health.stop_load(run, ""),  # type: ignore[arg-type]
    "gateway.stop_as_idle": lambda _, run: gateway.stop_as_idle(run),  # type: ignore[arg-type]
    "gateway.keep": lambda server, _: gateway.keep(server, by=ADA()),  # type: ignore[arg-type]
    "gateway.let": lambda server, _: gateway.let(server, by=ADA()),  # type: ignore[arg-type]
}
# The few that there are for what somebody else has started.
LOOKS: dict[str, Callable[[ManagedServer, ManagedRun], object]] = {
    "external.monitoring.look": lambda _, run: monitoring.look(run),  # type: ignore[arg-type]
    "external.monitoring.look_surely": lambda _, run: monitoring.look_surely(run),  # type: ignore[arg-type]
    "external.monitoring.go_on": lambda server, _: monitoring.go_on(server, LIFE),  # type: ignore[arg-type]
    "external.monitoring.unwatch": lambda server, _: monitoring.unwatch(server, by=None),  # type: ignore[arg-type]
}


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch) -> Iterator[ExternalRun]:
    """Nothing of it is another afterwards, and nobody has asked Docker."""
    run = rows.watched(factories.box())
    before = _read_rows()
    with monkeypatch.context() as without:
        without.setattr(creation, "docker", lambda: pytest.fail("Docker was asked"))
        yield run
    assert _read_rows() == before


def _read_rows() -> list[list[Any]]:
    tables: list[type[Model]] = [Server, Run, *PARTS.values()]
    return [list(table._default_manager.values()) for table in tables]


@pytest.mark.django_db
@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_takes_what_is_only_watched(theirs: ExternalRun, verb: str) -> None:
    with pytest.raises(
        ExternalRunError, match="is only monitored: it was started outside inferdash"
    ):
        VERBS[verb](require_external(theirs.server), theirs)


def test_every_verb_is_tried() -> None:
    """A function that takes the one kind has to refuse the other, whoever writes it."""
    found = set()
    for each in pkgutil.walk_packages(lifecycle.__path__, f"{lifecycle.__name__}."):
        module = import_module(each.name)
        for name, does in inspect.getmembers(module, inspect.isfunction):
            taken = next(iter(inspect.signature(does).parameters.values()), None)
            is_verb = taken is not None and taken.annotation in KINDS
            if is_verb and does.__module__ == each.name and not name.startswith("_"):
                found.add(f"{each.name.removeprefix('servers.lifecycle.')}.{name}")
    assert found == {*VERBS, *LOOKS}


@pytest.mark.django_db
def test_a_request_does_not_start_it_either(theirs: ExternalRun) -> None:
    Run.objects.update(state="stopped")
    with pytest.raises(NotStartedError, match="started by whoever else runs it"):
        gateway.ask(theirs.server, by=None, passing=())
    Run.objects.update(state="ready")


@pytest.mark.django_db
@pytest.mark.parametrize("look", LOOKS)
def test_what_inferdash_has_started_is_not_watched(look: str) -> None:
    run = factories.run(factories.server(factories.box()))
    with pytest.raises(ValueError, match="inferdash's own"):
        LOOKS[look](require_managed(run.server), run)
