"""The core on a real PostgreSQL: what SQLite is lenient about, and what it cannot race in."""

import json
from collections.abc import Callable, Iterator

import pytest

from tests import databases
from tests.runs.test_races import AT_ONCE

type Outcome = Callable[[str], object]

PREPARE = """
from servers.launch.engines.launch import Launch
from servers.lifecycle.runs import commands, starts
from servers.models.logs import LogMovedError
from servers.models.runs.run import RunState

Server.objects.update(run=None)
Profile.objects.update(current=None)
for model in (Run, Server, ProfileVersion, Profile, Box):
    model.objects.all().delete()
ada, _made = User.objects.get_or_create(username="ada", defaults={"role": Role.ADMIN})
box = Box.objects.create(slug="rtx8", home="/home/ada")
profile = Profile.objects.create(slug="qwen", name="Qwen – ünïcode ✓", owner=ada)
launch = Launch(engine="vllm", image="vllm/vllm-openai:v0.20.2", checkpoint="Qwen/Qwen3-8B")
profile.save_version(launch, by=ada, message="First version")
server = Server.objects.create(slug="qwen", profile=profile, box=box)
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("postgres")
    with databases.database(databases.POSTGRESQL, folder) as environment:
        yield environment


@pytest.fixture
def outcome(environment: dict[str, str], redis_url: str) -> Outcome:
    """What code prints as JSON that runs with an empty database and Redis."""

    def outcome(code: str) -> object:
        variables = environment | {"REDIS_URL": redis_url}
        return json.loads(databases.run(AT_ONCE + PREPARE + code, variables))

    return outcome


def test_a_click_of_eight_people_at_once_starts_one_run(outcome: Outcome) -> None:
    code = """
counts = []
for number in range(10):
    runs = at_once(*[lambda: commands.start(server, by=ada)] * 8)
    counts.append([sum(run is not None for run in runs), Run.objects.active().count()])
    Run.objects.active().update(state=RunState.STOPPED)
print(json.dumps(counts))
"""
    assert outcome(code) == [[1, 1]] * 10


def test_a_stop_and_a_restart_at_once_leave_one_run(outcome: Outcome) -> None:
    code = """
left = []
for number in range(10):
    run = commands.start(server, by=ada)
    at_once(
        lambda: commands.restart(server, by=ada),
        lambda: commands.stop(run, by=ada),
        lambda: commands.start(server, by=ada),
    )
    run.refresh_from_db()
    left.append([Run.objects.active().count(), run.wanted])
    Run.objects.active().update(state=RunState.STOPPED)
print(json.dumps(left))
"""
    assert outcome(code) == [[1, "stopped"]] * 10


def test_one_of_those_who_move_a_run_wins(outcome: Outcome) -> None:
    code = """
wins = []
for number in range(10):
    run = commands.start(server, by=ada)
    mine = Run.objects.filter(pk=run.pk)
    won = at_once(*[lambda: mine.move(old=[RunState.QUEUED], new=RunState.CREATING)] * 8)
    wins.append(sum(won))
    mine.update(state=RunState.FAILED)
print(json.dumps(wins))
"""
    assert outcome(code) == [1] * 10


def test_bytes_of_every_kind_come_back_from_the_log(outcome: Outcome) -> None:
    code = r"""
from servers.watcher.logs.writer import records
at = "2026-11-21T10:00:00.%09dZ"
texts = [b"NUL \0 inside", b"invalid \xff\xfe bytes", b"\x1b[31mred\x1b[0m", "snow ☃".encode(), b""]
frames = [(at % number, "o", texts[number % 5]) for number in range(2000)]
run = commands.start(server, by=ada)
upto = 0
for first in range(0, 2000, 300):
    upto = LogChunk.objects.append(run.pk, upto, list(records(frames[first:first + 300], None)))
lines = LogChunk.objects.lines(run.pk, 0, 5000)
picked = LogChunk.objects.pick_lines(run.pk, [4, 1999])
try:
    LogChunk.objects.append(run.pk, 7, [b"x"])
except LogMovedError:
    moved = True
print(json.dumps({
    "numbered": [line.number for line in lines] == list(range(1, 2001)),
    "texts": [line.text for line in lines[:5]],
    "all alike": all(line.text == lines[place % 5].text for place, line in enumerate(lines)),
    "tail": LogChunk.objects.tail(run.pk, 1)[0].number,
    "picked": [[line.number, line.text] for line in picked],
    "moved": moved,
}))
"""
    assert outcome(code) == {
        "numbered": True,
        "texts": [
            "NUL \0 inside",
            "invalid \ufffd\ufffd bytes",
            "\x1b[31mred\x1b[0m",
            "snow ☃",
            "",
        ],
        "all alike": True,
        "tail": 2000,
        "picked": [[4, "snow ☃"], [1999, "snow ☃"]],
        "moved": True,
    }


def test_two_writers_of_one_log_do_not_mix_their_lines(outcome: Outcome) -> None:
    code = """
run = commands.start(server, by=ada)
def write(who):
    stored = 0
    for number in range(40):
        after = RunLog.objects.values_list("lines", flat=True).get(run=run.pk)
        try:
            LogChunk.objects.append(run.pk, after, [b"2026-11-21T10:00:00.000000000Z o %d" % who] * 30)
        except LogMovedError:
            continue
        stored += 30
    return stored
stored = at_once(*[lambda who=who: write(who) for who in range(4)])
lines = LogChunk.objects.lines(run.pk, 0, 10_000)
numbers = [line.number for line in lines]
print(json.dumps([sum(stored) == len(lines), numbers == list(range(1, len(lines) + 1))]))
"""
    assert outcome(code) == [True, True]


def test_last_words_with_a_nul_in_them_can_be_kept(outcome: Outcome) -> None:
    code = r"""
run = commands.start(server, by=ada)
words = starts.mask_secrets(run, "Segmentation \0 fault")
Run.objects.filter(pk=run.pk).write(log__last_lines=[words], failure=words, failure_detail=words)
run.refresh_from_db()
print(json.dumps([*run.log.last_lines, run.failure, run.failure_detail]))
"""
    assert outcome(code) == ["Segmentation \ufffd fault"] * 3


def test_runs_are_counted_on_from_the_number_of_one_that_was_adopted(outcome: Outcome) -> None:
    code = """
from datetime import UTC, datetime
from servers.host.docker.containers import Container, Port
from servers.lifecycle.runs import out_of_band
last = commands.start(server, by=ada)
Run.objects.filter(pk=last.pk).update(state=RunState.STOPPED)
port = Port(container_port=8000, host_port=18000, host_ip="127.0.0.1")
made = Container(
    id="c" * 64, name="x", image_id="sha256:1", state="running", pid=1, exit_code=None,
    oom_killed=False, error="", started_at=datetime.now(UTC), finished_at=None,
    labels={"inferdash.run": str(last.pk + 7), "inferdash.version": "1"}, published=(port,),
)
adopted = out_of_band._create_run(server, made, ada, "")
Run.objects.filter(pk=adopted.pk).update(state=RunState.STOPPED)
numbers = []
for _ in range(9):
    run = commands.start(server, by=ada)
    numbers.append(run.pk - last.pk)
    Run.objects.filter(pk=run.pk).update(state=RunState.STOPPED)
print(json.dumps([adopted.pk - last.pk, adopted.port, *numbers]))
"""
    assert outcome(code) == [7, 18000, *range(8, 17)]


def test_profiles_are_found_by_what_they_launch(outcome: Outcome) -> None:
    code = r"""
from servers.models.profiles import ProfileFilter
Box.objects.filter(pk=box.pk).update(facts={"docker": {"version": "28 – ✓"}})
box.refresh_from_db()
print(json.dumps([
    [found.name for found in Profile.objects.for_list(ada, ProfileFilter(text=text))]
    for text in ("qwen3", "ÜNÏCODE vllm", "100%_\\")
] + [box.facts["docker"]["version"]]))
"""
    assert outcome(code) == [["Qwen – ünïcode ✓"], ["Qwen – ünïcode ✓"], [], "28 – ✓"]


def test_an_address_with_a_nul_in_it_is_refused(outcome: Outcome) -> None:
    code = r"""
import logging
from django.test import Client
logging.disable(logging.ERROR)
client = Client(HTTP_HOST="127.0.0.1")
client.force_login(ada)
answers = [
    client.get(address).status_code
    for address in (
        "/profiles/?q=a", "/profiles/?q=a%00", "/activity/?q=%00", "/profiles/new/?from=%00",
        "/join/%00/", "/runs/99999999999999999999/log/",
    )
]
print(json.dumps(answers))
"""
    assert outcome(code) == [200, 400, 400, 400, 400, 404]
