"""When a box's images are asked for their flags, what is kept of it, and what it is good for."""

import shlex
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.utils import timezone
from docker import APIClient

from servers import events
from servers.host.docker.containers import DockerContainers
from servers.launch.engines import SERVING
from servers.lifecycle.runs import creation
from servers.models import Box, ImageFacts, Server
from servers.models.runs.run import RunState
from servers.watcher.images import ImageInspector, has_room, list_images, may_ask
from servers.watcher.loop import Watcher
from tests import factories
from tests.base_images import BASE, ENGINE
from tests.images.inspection.boxes import HELP, vllm_32

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_redis")]


VLLM = "/usr/local/bin/vllm"


ASKED_BY_TESTS = "inferdash-test/asked"


IMAGE = "registry.example/team/vllm:nightly"


@pytest.fixture
def box() -> Box:
    return factories.box()


def place(box: Box, image: str = IMAGE, name: str = "coder", **values: Any) -> Server:
    return factories.server(box, name, "gpt-oss-120b", image=image, **values)


@pytest.fixture
def fake_vllm(asking: DockerContainers) -> Iterator[Callable[[str, str], str]]:
    """Makes images whose vllm is a shell script."""
    made: list[str] = []
    with closing(APIClient(asking.host, version="auto")) as client:

        def make(script: str, tag: str) -> str:
            install = f"printf %s {shlex.quote(script)} > {VLLM}; chmod +x {VLLM}"
            container = client.create_container(BASE, ["sh", "-c", install])
            client.start(container["Id"])
            client.wait(container["Id"])
            made.append(client.commit(container["Id"], ASKED_BY_TESTS, tag)["Id"])
            client.remove_container(container["Id"])
            return f"{ASKED_BY_TESTS}:{tag}"

        yield make
        for image in made:
            client.remove_image(image, force=True)


@pytest.mark.docker
def test_an_image_is_asked_once_and_again_when_it_changes(
    fake_vllm: Callable[[str, str], str], box: Box
) -> None:
    reference = fake_vllm(f"#!/bin/sh\ncat <<'EOF'\n{HELP}EOF", "once")
    place(box, reference)
    images = ImageInspector(box)

    images.look(sample=None)
    first = ImageFacts.objects.get()
    images.look(sample=None)

    assert first.error == ""
    assert first.count == 5
    assert first.flaglist is not None
    assert first.flaglist.find("--brand-new") is not None
    assert ImageFacts.objects.get().asked_at == first.asked_at
    fake_vllm("#!/bin/sh\necho gone >&2; exit 4", "once")
    images.look(sample=None)
    second = ImageFacts.objects.get()
    assert second.image_id != first.image_id
    assert second.flaglist is None
    assert "“vllm serve --help=all”" in second.error
    assert second.error.endswith("ended with exit code 4: gone")


@pytest.mark.docker
def test_the_same_image_under_another_name_is_not_asked_again(
    asking: DockerContainers, box: Box
) -> None:
    image = asking.image(ENGINE)
    assert image is not None
    known = factories.image_facts(box, flags=vllm_32(), image_id=image.id)
    place(box, ENGINE)

    ImageInspector(box).look(sample=None)

    assert ImageFacts.objects.get(reference=ENGINE).count == known.count


@pytest.mark.docker
def test_an_image_that_is_no_engine_ends_with_a_sentence(
    asking: DockerContainers, box: Box
) -> None:
    """What every test of a start relies on: the lists that come with inferdash serve then."""
    for engine in SERVING:
        place(box, ENGINE, f"a-{engine}", engine=engine)

    ImageInspector(box).look(sample=None)

    found = ImageFacts.objects.order_by("engine")
    assert [each.engine for each in found] == sorted(SERVING)
    for each in found:
        assert each.version == ""
        assert each.flaglist is None
        assert "exit code 1: This is the tests' engine: it has no flags to list." in each.error
    assert asking.list_ours() == []


@pytest.mark.docker
def test_an_image_that_lists_a_part_of_its_flags_is_not_believed(
    fake_vllm: Callable[[str, str], str], box: Box
) -> None:
    part = HELP.replace("--max-model-len", "--max-something")
    place(box, fake_vllm(f"#!/bin/sh\ncat <<'EOF'\n{part}EOF", "part"))

    ImageInspector(box).look(sample=None)

    assert "only a part of vLLM's flags: --max-model-len" in ImageFacts.objects.get().error


@pytest.mark.docker
def test_an_image_that_is_not_on_the_box_is_not_asked(asking: DockerContainers, box: Box) -> None:
    place(box, "no/such:image")

    ImageInspector(box).look(sample=None)

    found = ImageFacts.objects.get()
    assert (found.asking, found.asked_at) == ("absent", None)
    assert found.flaglist is None


@pytest.mark.docker
def test_a_name_that_no_image_can_have_keeps_no_other_waiting(
    asking: DockerContainers, box: Box, caplog: pytest.LogCaptureFixture
) -> None:
    place(box, "A/Name With:blanks", "first")
    place(box, ENGINE)
    images = ImageInspector(box)

    images.look(sample=None)
    images.look(sample=None)

    assert ImageFacts.objects.get(asking="done").reference == ENGINE
    trouble = ImageFacts.objects.get(asking="trouble")
    assert trouble.reference == "A/Name With:blanks"
    assert trouble.why
    assert trouble.again_at is not None
    assert timedelta() < trouble.again_at - timezone.now() <= timedelta(minutes=10)
    assert caplog.text.count("A/Name With:blanks cannot be asked") == 1


@pytest.mark.docker
def test_a_load_on_unified_memory_comes_first(asking: DockerContainers, box: Box) -> None:
    box.facts = {**box.facts, "gpus": [{"index": 0, "kind": "unified"}]}
    server = place(box, ENGINE)
    run = factories.run(server, RunState.STARTING)

    ImageInspector(box).look(sample=None)
    waiting = ImageFacts.objects.get()
    assert (waiting.asking, waiting.asked_at) == ("waiting", None)
    assert waiting.why.startswith("A model is loading")

    type(run).objects.filter(pk=run.pk).update(state=RunState.READY)
    ImageInspector(box).look(sample=None)
    assert ImageFacts.objects.get().error


@pytest.mark.docker
def test_a_watcher_that_ends_keeps_nothing(fake_vllm: Callable[[str, str], str], box: Box) -> None:
    place(box, fake_vllm("#!/bin/sh\nsleep 600", "hangs"))
    answers = iter([True, True, False])

    ImageInspector(box).look(sample=None, go_on=lambda: next(answers, False))

    found = ImageFacts.objects.get()
    assert (found.asking, found.why, found.asked_at) == ("waiting", "", None)


@pytest.mark.docker
def test_a_docker_that_is_away_says_nothing_of_an_image(
    asking: DockerContainers,
    box: Box,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    place(box, ENGINE)
    monkeypatch.setattr(creation.docker(), "host", "unix:///no/such.sock")

    ImageInspector(box).look(sample=None)

    assert not ImageFacts.objects.exists()
    assert "Docker Engine does not answer" in caplog.text


@pytest.mark.docker
def test_a_docker_that_goes_away_meanwhile_leaves_no_image_being_asked(
    asking: DockerContainers, box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    place(box, ENGINE)

    def gone() -> bool:
        monkeypatch.setattr(creation.docker(), "host", "unix:///no/such.sock")
        return True

    ImageInspector(box).look(sample=None, go_on=gone)

    found = ImageFacts.objects.get()
    assert (found.asking, found.asked_at) == ("waiting", None)
    assert found.why.startswith("Docker Engine does not answer")


@pytest.mark.docker
def test_every_step_of_the_asking_is_told(
    fake_vllm: Callable[[str, str], str], box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    place(box, fake_vllm(f"#!/bin/sh\ncat <<'EOF'\n{HELP}EOF", "steps"))
    told: list[tuple[str, bool]] = []

    def note(_kind: str) -> None:
        found = ImageFacts.objects.get()
        told.append((found.asking, found.asked_at is not None))

    monkeypatch.setattr(events, "publish_change", note)
    images = ImageInspector(box)

    images.look(sample=None)

    assert told == [("waiting", False), ("asking", False), ("done", True)]
    images.look(sample=None)
    assert len(told) == 3


@pytest.mark.docker
def test_the_entrypoint_of_an_image_is_kept_also_of_one_that_was_asked_before(
    asking: DockerContainers, box: Box
) -> None:
    image = asking.image(ENGINE)
    assert image is not None
    place(box, ENGINE)
    factories.image_facts(box, vllm_32(), reference=ENGINE, image_id=image.id)
    assert image.entrypoint

    ImageInspector(box).look(sample=None)

    found = ImageFacts.objects.get()
    assert found.entrypoint == list(image.entrypoint)
    assert found.count == len(vllm_32().flags)


@pytest.mark.docker
def test_what_no_profile_names_any_more_is_not_going_to_be_asked(
    asking: DockerContainers, box: Box
) -> None:
    place(box, ENGINE)
    factories.image_facts(box, reference="never:1", asked_at=None, asking="waiting")
    factories.image_facts(box, vllm_32(), reference="once:1", asking="asking")

    ImageInspector(box).look(sample=None)

    assert set(ImageFacts.objects.values_list("reference", "asking")) == {
        (ENGINE, "done"),
        ("once:1", "done"),
    }


@pytest.mark.docker
def test_a_round_without_news_asks_the_database_no_more_for_more_images(
    asking: DockerContainers, box: Box, django_assert_max_num_queries: Any
) -> None:
    for number in range(6):
        place(box, f"no/such:image{number}", f"a-{number}")
    images = ImageInspector(box)
    images.look(sample=None)
    assert ImageFacts.objects.filter(asking="absent").count() == 6

    with django_assert_max_num_queries(5):
        images.look(sample=None)


@pytest.mark.docker
def test_a_watcher_asks_by_itself(
    asking: DockerContainers, own_redis: redis.Redis, settings: Any, tmp_path: Any
) -> None:
    settings.BOX_FILE = tmp_path / "box.toml"
    watcher = Watcher()
    place(watcher.box, ENGINE)

    watcher._look_at_images()

    assert ImageFacts.objects.get().box == watcher.box


def test_other_boxes_and_removed_servers_do_not_count(box: Box) -> None:
    place(box)
    place(box, "other:1", "second", engine="sglang")
    place(box, name="third")
    gone = place(box, "gone:1", "gone")
    Server.objects.filter(pk=gone.pk).update(removed_at=timezone.now())
    place(factories.box("another"), "elsewhere:1", "elsewhere")

    assert list_images(box) == [("sglang", "other:1"), ("vllm", IMAGE)]


def test_a_failure_is_not_repeated_before_a_day_has_passed(box: Box) -> None:
    fine = factories.image_facts(box, flags=vllm_32())
    failed = factories.image_facts(box, reference="other", error="It ended with exit code 1.")
    tomorrow = timezone.now() + timedelta(hours=25)

    assert not fine.is_due("sha256:one", tomorrow)
    assert fine.is_due("sha256:two")
    assert not failed.is_due("sha256:one")
    assert failed.is_due("sha256:one", tomorrow)
    assert failed.is_due("sha256:two")


@pytest.mark.parametrize(
    ("gpus", "state", "may"),
    [
        ([{"kind": "discrete"}], RunState.STARTING, True),
        ([{"kind": "unified"}], RunState.STARTING, False),
        ([{"kind": "unified"}], RunState.QUEUED, False),
        ([{"kind": "unified"}], RunState.PULLING, True),
        ([{"kind": "unified"}], RunState.READY, True),
        (None, RunState.STARTING, False),
        ([], RunState.STARTING, True),
    ],
)
def test_what_loads_comes_first_where_memory_is_shared(
    box: Box, gpus: Any, state: RunState, may: bool
) -> None:
    box.facts = {**box.facts, **({} if gpus is None else {"gpus": gpus})}
    factories.run(place(box), state)

    assert may_ask(box) is may


def test_memory_that_is_not_there_is_not_taken() -> None:
    assert has_room(None)
    assert has_room({"meminfo": {"MemAvailable": 100 << 30}})
    assert not has_room({"meminfo": {"MemAvailable": 3 << 30}})
