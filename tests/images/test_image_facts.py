"""What an image has said of its flags, where it is gone by: checks, command and pages."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from servers import lifecycle
from servers.launch.engines.flaglist import Flag, FlagList, load_shipped
from servers.launch.engines.launch import Launch
from servers.lifecycle.profiles import checks
from servers.lifecycle.profiles.knowledge import LaunchContext
from servers.models import Box, Role, Server
from tests import factories
from tests.factories import ASKED, image_facts

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]

QUIET = "--disable-access-log-for-endpoints"


@pytest.fixture
def box() -> Box:
    return factories.box()


def vllm(*names: str, version: str = "0.32.0") -> FlagList:
    """The release's flags and these."""
    found = load_shipped("vllm", "0.32.0")
    assert found is not None
    more = tuple(Flag(names=(name,), takes="none") for name in names)
    return replace(found, version=version, flags=found.flags + more)


def launch(*flags: str) -> Launch:
    return Launch(engine="vllm", image=ASKED, checkpoint="m", flags=flags)


def test_the_check_goes_by_the_image_s_own_list(box: Box) -> None:
    typed = launch("--brand-new")
    assert [each.severity for each in checks.findings(typed, box) if each.about == "--brand-new"]

    image_facts(box, vllm("--brand-new", version="0.99.0"))

    subject = LaunchContext(typed, box).subject
    assert subject.engine_version == "0.99.0"
    assert subject.flaglist is not None
    assert not [each for each in checks.findings(typed, box) if each.about == "--brand-new"]


def test_a_flag_that_the_image_lacks_is_an_error_where_a_tag_says_nothing(box: Box) -> None:
    typed = launch("--brnd-new")
    image_facts(box, vllm("--brand-new", version="0.99.0"))

    (finding,) = (each for each in checks.findings(typed, box) if each.about == "--brnd-new")

    assert finding.severity == "error"
    assert "vLLM 0.99.0 has no --brnd-new. Did you mean --brand-new?" in finding.says


def test_another_box_s_image_of_that_name_is_another_image(box: Box) -> None:
    image_facts(factories.box("another"), vllm())
    typed = launch()

    assert LaunchContext(typed, box).subject.flaglist is None


def test_an_image_that_could_not_be_asked_leaves_the_shipped_lists(box: Box) -> None:
    image_facts(box, version="0.20.2", error="It ended with exit code 1.")
    typed = launch()

    subject = LaunchContext(typed, box).subject

    assert subject.flaglist is None
    assert subject.engine_version == "0.20.2"


def page(server: Server) -> str:
    client = Client()
    client.force_login(factories.person("vera", Role.VIEWER))
    text = client.get(f"/profiles/{server.slug}/").content.decode()
    return " ".join(text.split())


def test_the_page_says_what_the_image_has(box: Box) -> None:
    server = factories.server(box, "coder", "gpt-oss-120b", image=ASKED)
    assert "flags, read" not in page(server)

    image_facts(box, vllm(), asked_at=timezone.now() - timedelta(hours=2))

    assert "vLLM 0.32.0, 317 flags, read <time" in page(server)


def test_the_page_says_why_the_image_could_not_be_asked(box: Box) -> None:
    server = factories.server(box, "coder", "gpt-oss-120b", image=ASKED)
    image_facts(box, error="“vllm <b>” ended with exit code 1: no GPU.")

    text = page(server)

    assert "The image’s flags could not be read <time" in text
    assert "“vllm &lt;b&gt;” ended with exit code 1: no GPU." in text
    assert "The lists that come with inferdash serve instead." in text


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"asking": "asking"}, "Asking the image for its flags… <time"),
        ({"asking": "waiting", "why": "A model <b> loads."}, "A model &lt;b&gt; loads."),
        ({"asking": "absent"}, "The image is not on rtx8"),
        ({"asking": "trouble", "why": "The disk is full."}, "The disk is full. Tried again <time"),
    ],
)
def test_the_page_says_where_the_asking_stands(box: Box, values: dict[str, Any], said: str) -> None:
    server = factories.server(box, "coder", "gpt-oss-120b", image=ASKED)
    assert "Image not inspected yet on rtx8" in page(server)
    again_at = timezone.now() + timedelta(minutes=9) if values["asking"] == "trouble" else None

    image_facts(box, asked_at=None, again_at=again_at, **values)

    text = page(server)
    assert said in text
    assert "Until then the lists that come with inferdash serve." in text
    assert "not inspected yet" not in text


def test_what_an_image_said_before_is_shown_while_it_is_asked_again(box: Box) -> None:
    server = factories.server(box, "coder", "gpt-oss-120b", image=ASKED)
    image_facts(box, vllm(), asking="asking")

    text = page(server)

    assert "Asking the image for its flags…" in text
    assert "Until then: vLLM 0.32.0, 317 flags, read <time" in text


def test_an_image_that_was_not_asked_yet_is_no_failure(box: Box) -> None:
    image_facts(box, asked_at=None, asking="asking")

    assert said(box=str(box.pk))["asked"] == ""


def test_the_command_begins_with_what_the_image_s_own_entrypoint_says(box: Box) -> None:
    assert f"{ASKED} vllm serve m" in lifecycle.preview(LaunchContext(launch(), box)).command

    image_facts(box, asked_at=None, asking="asking", entrypoint=["vllm", "serve"])
    assert f"{ASKED} m \\\n  --host" in lifecycle.preview(LaunchContext(launch(), box)).command

    # An official image that was built anew without its entrypoint.
    official = replace(launch(), image="vllm/vllm-openai:v0.32.0")
    assert "v0.32.0 m \\\n  --host" in lifecycle.preview(LaunchContext(official, box)).command
    image_facts(box, asked_at=None, reference=official.image, entrypoint=[])
    assert "v0.32.0 vllm serve m" in lifecycle.preview(LaunchContext(official, box)).command


def test_the_part_of_the_page_that_goes_by_the_image_can_be_asked_for_alone(box: Box) -> None:
    server = factories.server(box, "coder", "gpt-oss-120b", image=ASKED)
    image_facts(box, vllm())
    client = Client()
    client.force_login(factories.person("vera", Role.VIEWER))

    response = client.get(f"/profiles/{server.slug}/known/{server.slug}/")

    assert "vLLM 0.32.0, 317 flags, read <time" in response.content.decode()
    assert "<main" not in response.content.decode()
    assert client.get(f"/profiles/{server.slug}/known/nothing/").status_code == 404


def test_what_inferdash_asks_every_other_second_stays_out_of_the_log(box: Box) -> None:
    image_facts(box, vllm())

    preview = lifecycle.preview(LaunchContext(launch(), box))

    assert f"{QUIET} /health,/metrics" in preview.command


def test_a_list_that_is_not_the_image_s_own_adds_no_flag_to_a_command(box: Box) -> None:
    image_facts(factories.box("another"), vllm())
    image_facts(box, version="0.32.0", error="It ended with exit code 1.")
    release = replace(launch(), image="vllm/vllm-openai:v0.32.0")

    assert QUIET not in lifecycle.preview(LaunchContext(launch(), box)).command
    assert QUIET not in lifecycle.preview(LaunchContext(release, box)).command


def test_the_page_shows_what_is_added_to_the_command(box: Box) -> None:
    server = factories.server(box, "coder", "gpt-oss-120b", image=ASKED)
    image_facts(box, vllm())

    assert f"{QUIET} /health,/metrics" in page(server)


def said(**query: str) -> dict[str, Any]:
    client = Client()
    client.force_login(factories.person("eva", Role.EDITOR))
    response = client.get("/profiles/flags.json", {"engine": "vllm", "image": ASKED, **query})
    assert response.status_code == 200
    found: dict[str, Any] = response.json()
    return found


def names(of: dict[str, Any]) -> set[str]:
    return {name for flag in of["flags"] for name in flag["names"]}


def test_the_form_s_help_goes_by_the_image_on_the_box_that_is_chosen(box: Box) -> None:
    image_facts(box, vllm("--brand-new", version="0.99.0"))

    here = said(box=str(box.pk))
    elsewhere = said(box=str(factories.box("another").pk))

    assert (here["version"], here["is_exact"], here["asked"]) == ("0.99.0", True, "answered")
    assert "--brand-new" in names(here)
    assert (elsewhere["is_exact"], elsewhere["asked"]) == (False, "")
    assert "--brand-new" not in names(elsewhere)


def test_the_help_of_a_profile_goes_by_the_image_on_its_own_box(box: Box) -> None:
    server = factories.server(box, "coder", "gpt-oss-120b", image=ASKED)
    image_facts(box, vllm("--brand-new", version="0.99.0"))

    assert "--brand-new" in names(said(profile=server.slug, box=""))
    assert said(profile=server.slug, image="another/image:1")["is_exact"] is False


def test_an_image_that_told_its_version_alone_has_the_list_of_that_release(box: Box) -> None:
    image_facts(box, version="0.20.2", error="It ended with exit code 1.")

    known = said(box=str(box.pk))
    assert (known["version"], known["is_exact"], known["asked"]) == ("0.20.2", True, "failed")


@pytest.mark.parametrize("box_said", ["", "0", "x", "-1", "99999999999999999999"])
def test_a_box_that_does_not_exist_has_asked_nothing(box_said: str) -> None:
    assert said(box=box_said)["is_exact"] is False
