"""Which paths of a launch are on its box, and how a page comes to know."""

from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from servers import tasks
from servers.launch.engines.launch import Launch
from servers.launch.engines.placement import Site, VolumeError, list_required_paths
from servers.lifecycle.profiles import path_reports
from servers.lifecycle.profiles.knowledge import LaunchContext
from servers.models import Box, Role
from servers.views.profiles import checks
from tests import factories


def launch(*volumes: str, checkpoint: str = "zai-org/GLM-5", **values: Any) -> Launch:
    return Launch(
        engine="vllm", image="vllm/vllm-openai:v0.20.2", checkpoint=checkpoint,
        volumes=volumes, mount_hf_cache=False, **values,
    )  # fmt: skip


def found(of: Launch) -> list[tuple[str, str]]:
    return [(each.path, each.of) for each in list_required_paths(of, Site(home="/home/ada"))]


def test_mounted_folders_are_needed_and_volumes_of_docker_are_not() -> None:
    assert found(launch("~/models:/models:ro", "kernels:/cache")) == [
        ("/home/ada/models", "volumes")
    ]


def test_a_checkpoint_is_found_through_its_mount() -> None:
    of = launch("/data:/data", "/mnt/w:/data/w", checkpoint="/data/w/GLM-5")

    assert found(of) == [
        ("/data", "volumes"), ("/mnt/w", "volumes"), ("/mnt/w/GLM-5", "checkpoint"),
    ]  # fmt: skip


def test_files_that_flags_name_are_found_and_those_of_the_image_left_out() -> None:
    flags = ("--chat-template=/models/t.jinja", "--tool-parser-plugin", "/opt/plugin.py")

    assert found(launch("/srv/models:/models", flags=flags)) == [
        ("/srv/models", "volumes"), ("/srv/models/t.jinja", "--chat-template"),
    ]  # fmt: skip


def test_a_path_that_climbs_out_of_its_mount_is_not_followed() -> None:
    assert found(launch("/srv/models:/models", checkpoint="/models/../etc")) == [
        ("/srv/models", "volumes")
    ]


def test_a_mount_without_a_home_is_told() -> None:
    with pytest.raises(VolumeError, match="home folder"):
        list_required_paths(launch("~/models:/models"), Site())


@pytest.fixture
def root(root: Path) -> Path:
    for folder in ("data/models/GLM-5", "home/ada/models/GLM-6", "etc"):
        (root / folder).mkdir(parents=True)
    return root.parent


@pytest.fixture
def eva() -> Client:
    return factories.log_in(factories.person("eva", Role.EDITOR))


def form(client: Client, box: Box, volumes: str) -> dict[str, Any]:
    given = client.get("/profiles/new/").context["form"]
    values = {field.html_name: field.value() for field in given}
    values = {k: v for k, v in values.items() if v is not None and v is not False}
    image = "vllm/vllm-openai:v0.20.2"
    typed = {"name": "glm", "box": box.pk, "engine": "vllm", "image": image}
    return values | typed | {"checkpoint": "zai-org/GLM-5", "volumes": volumes}


def answered(box: Box, of: Launch) -> None:
    """The worker's part."""
    wanted = path_reports.list_needed_paths(of, box)
    paths = [each.path for each in wanted]
    tasks.look_at_paths(path_reports.question(box, wanted), paths, box.home, box.hf_cache)


@pytest.mark.django_db
@pytest.mark.usefixtures("own_redis", "root")
def test_the_form_tells_what_its_box_has(eva: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "ANSWERS_WITHIN", 1)
    box = factories.box()
    volumes = "/data/models:/models\n/data/GLM-6:/glm\n/etc:/mnt/etc"
    typed = form(eva, box, volumes)

    text = " ".join(eva.post("/profiles/check/", typed).content.decode().split())
    assert "Asking rtx8…" in text
    text = " ".join(eva.post("/profiles/paths/", typed).content.decode().split())
    assert "rtx8 does not answer" in text

    answered(box, launch(*volumes.split("\n")))

    for path in ("/profiles/check/", "/profiles/paths/"):
        text = " ".join(eva.post(path, typed).content.decode().split())
        assert "<code>/data/models</code> is there" in text
        assert (
            "<code>/data/GLM-6</code> is not there; the same name lies at "
            "<code>/home/ada/models/GLM-6</code>" in text
        )
        assert "<code>/etc</code> will not be mounted: /etc lies outside" in text


@pytest.mark.django_db
@pytest.mark.usefixtures("own_redis", "root")
def test_the_form_tells_which_model_lies_there_and_where_a_missing_one_lies(eva: Client) -> None:
    box = factories.box()
    factories.stored(box, "GLM-5", path="/data/models/GLM-5", size=131 * 2**30)
    factories.stored(
        box, "far", path="/mnt/a/b/c/d/e/f/GLM-7", state="partial", because="b is gone"
    )
    volumes = "/data/models/GLM-5:/model\n/data/GLM-7:/seven"
    answered(box, launch(*volumes.split("\n")))

    text = eva.post("/profiles/check/", form(eva, box, volumes)).content.decode()

    text = " ".join(text.split())
    assert '<code>/data/models/GLM-5</code> is there: <a href="/models/' in text
    assert ">131 GiB, complete</a>" in text
    assert "the same name lies at <code>/mnt/a/b/c/d/e/f/GLM-7</code>" in text


@pytest.mark.django_db
@pytest.mark.usefixtures("own_redis", "root")
def test_what_lies_in_a_missing_folder_is_not_told_of_its_own() -> None:
    box = factories.box()
    of = launch("/data/weights:/w", checkpoint="/w/GLM-5")

    answered(box, of)

    told = LaunchContext(of, box).folders
    assert told is not None
    assert [(each.path, each.lies) for each in told] == [("/data/weights", "missing")]


@pytest.mark.django_db
@pytest.mark.usefixtures("own_redis")
def test_a_box_without_limits_gives_no_answer(settings: Any, tmp_path: Path) -> None:
    settings.BOX_FILE = tmp_path / "missing.toml"
    box = factories.box()
    of = launch("/data:/data")

    answered(box, of)

    assert LaunchContext(of, box).folders is None
