"""What must hold when several people press at the same moment, on both databases."""

import json
from collections.abc import Iterator

import pytest

from tests import databases

AT_ONCE = """
import json
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from django.db import connection, connections

def at_once(*calls):
    barrier = Barrier(len(calls))
    def one(call):
        connection.ensure_connection()
        barrier.wait()
        try:
            return call()
        finally:
            connections.close_all()
    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(one, calls))
"""


@pytest.fixture(scope="module", params=[databases.SQLITE, databases.POSTGRESQL])
def environment(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    with databases.database(request.param, tmp_path_factory.mktemp(request.param)) as environment:
        yield environment


def outcome(code: str, environment: dict[str, str]) -> object:
    return json.loads(databases.run(AT_ONCE + code, environment))


def test_two_admins_who_demote_each_other_leave_one(environment: dict[str, str]) -> None:
    code = """
left = []
for number in range(20):
    User.objects.all().delete()
    a, b = (User.objects.create(username=name, role=Role.ADMIN) for name in "ab")
    at_once(
        lambda: User.objects.change(a.pk, role=Role.VIEWER),
        lambda: User.objects.change(b.pk, is_active=False),
    )
    left.append(User.objects.admins().count())
print(json.dumps(left))
"""
    assert outcome(code, environment) == [1] * 20


def test_two_admins_who_press_at_once_leave_one(environment: dict[str, str]) -> None:
    """Each with a page of their own, at themselves or at the other, in every pairing."""
    code = """
import logging
from django.test import Client
from django.urls import reverse

logging.disable(logging.ERROR)  # there is no Redis to tell of it

def page_of(person):
    client = Client(headers={"host": "localhost"})
    client.force_login(person)
    return client

DEMOTE, DISABLE = ("person_role", {"role": "1"}), ("person_active", {})
left = []
for first in (DEMOTE, DISABLE):
    for second in (DEMOTE, DISABLE):
        for is_at_the_other in (True, False):
            User.objects.all().delete()
            a, b = (User.objects.create(username=name, role=Role.ADMIN) for name in "ab")
            pages, whom = (page_of(a), page_of(b)), (b, a) if is_at_the_other else (a, b)
            statuses = at_once(*[
                lambda page=page, view=view, said=said, at=at:
                    page.post(reverse(view, args=[at.pk]), said).status_code
                for page, (view, said), at in zip(pages, (first, second), whom)
            ])
            left.append([User.objects.admins().count(), set(statuses) <= {302, 403}])
print(json.dumps(left))
"""
    assert outcome(code, environment) == [[1, True]] * 8


def test_a_link_lets_in_one_of_those_who_open_it_together(environment: dict[str, str]) -> None:
    code = """
winners = []
for number in range(10):
    invite, _token = Invite.make(role=Role.VIEWER, by=None)
    won = at_once(*[lambda: Invite.objects.use(invite)] * 8)
    winners.append(sum(won))
print(json.dumps(winners))
"""
    assert outcome(code, environment) == [1] * 10


def test_of_guesses_that_arrive_together_five_are_looked_at(environment: dict[str, str]) -> None:
    code = """
taken = []
for number in range(5):
    LoginFailure.objects.all().delete()
    allowed = at_once(*[lambda: LoginFailure.objects.take_attempt("ada", "10.0.0.1")] * 16)
    taken.append(sum(allowed))
print(json.dumps(taken))
"""
    assert outcome(code, environment) == [5] * 5


def test_two_who_choose_one_name_do_not_both_get_it(environment: dict[str, str]) -> None:
    code = """
from django.db import IntegrityError
def join(name):
    try:
        User.objects.create(username=name)
    except IntegrityError:
        return False
    return True
User.objects.all().delete()
print(json.dumps(sum(at_once(*[lambda name=name: join(name) for name in ("Ada", "ada", "ADA")]))))
"""
    assert outcome(code, environment) == 1


def test_of_starts_at_once_on_one_pool_of_memory_one_loads(environment: dict[str, str]) -> None:
    code = """
import logging
from servers import lifecycle
from servers.lifecycle.runs import gpu_conflicts
from servers.models.runs.run import RunState
from tests import factories

logging.disable(logging.ERROR)
User.objects.all().delete()  # another test's Ada is no ada
card = {"index": 0, "name": "NVIDIA GB10", "compute_capability": "12.1", "kind": "unified"}
box = factories.box("spark-1", facts={"gpus": [{**card, "total": 119 << 30}]})
servers = [factories.server(box, f"model-{number}", model="gemma-tiny") for number in range(6)]

def start(server):
    run = lifecycle.start(server, by=None)
    with gpu_conflicts.lock_queue(run) as is_alone:
        if is_alone:
            Run.objects.filter(pk=run.pk).move(old=[RunState.QUEUED], new=RunState.CREATING)

loading = []
for number in range(5):
    at_once(*[lambda each=each: start(each) for each in servers])
    loading.append(Run.objects.filter(state=RunState.CREATING).count())
    Run.objects.update(state=RunState.STOPPED)
print(json.dumps(loading))
"""
    assert outcome(code, environment) == [1] * 5
