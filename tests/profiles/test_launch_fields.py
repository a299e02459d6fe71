"""The one table of a launch's fields: nothing of it is without its place."""

from collections import Counter
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest

from servers.forms.profile import ProfileForm
from servers.forms.profile_fields import list_boxes
from servers.forms.profile_sections import SECTIONS
from servers.launch.commandline import docker_options, export, paste
from servers.launch.commandline.draft import draft
from servers.launch.commandline.tokens import LaunchCommand
from servers.launch.engines.launch import FIELDS, Launch
from servers.launch.spec import Spec

OF_CONTAINER = {name: each for name, each in FIELDS.items() if each.docker}


def test_each_field_stands_in_the_form_once() -> None:
    shown = Counter(name for group in ("Essentials", *SECTIONS, "") for name in list_boxes(group))
    wanted = {each.box or name for name, each in FIELDS.items() if each.kind != "hidden"}

    assert shown == Counter(wanted)
    assert wanted <= set(ProfileForm.base_fields)


@pytest.mark.parametrize("name", OF_CONTAINER)
def test_each_option_of_the_container_is_read_and_given(name: str) -> None:
    of = OF_CONTAINER[name]

    assert docker_options.option("docker", of.docker) is not None
    assert (of.pasted or name) in {each.name for each in fields(LaunchCommand)}
    assert name in {each.name for each in fields(Spec)}


VALUES: dict[str, Any] = {
    "text": "x1",
    "ipc": "host",
    "size": 1 << 30,
    "switch": True,
    "words": ("sh",),
}
VALUES |= {"limits": {"memlock": -1}, "lines": ("/dev/x",), "items": ("a=b",)}
VALUES |= {"capabilities": ("SYS_NICE",)}


@pytest.mark.parametrize("written", [export.docker_run, export.compose])
@pytest.mark.parametrize(
    "name", sorted(OF_CONTAINER.keys() - {"entrypoint"})
)  # a script: commandline's
def test_an_export_is_read_back(name: str, written: Callable[[Launch], str]) -> None:
    plain = Launch(engine="vllm", image="vllm/vllm-openai:v0.20.2", checkpoint="org/m")
    said = replace(plain, **{name: VALUES[OF_CONTAINER[name].kind]})
    text = written(said)

    (command,) = paste.read(text)
    read = draft(command, text=text).launch

    assert getattr(read, name) == getattr(said, name)
