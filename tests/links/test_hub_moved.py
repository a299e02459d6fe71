import pytest
from django.core.management.base import CommandError

from servers.management.commands.hub_moved import read_address
from tests.cases import table


@table(
    ("text", "found"),
    [
        ("10.0.0.9", ("10.0.0.9", 8471)),
        ("hub.lan:9000", ("hub.lan", 9000)),
        ("fd00::9", ("fd00::9", 8471)),
        ("[fd00::9]", ("fd00::9", 8471)),
        ("[fd00::9]:9000", ("fd00::9", 9000)),
    ],
)
def test_the_new_address_of_a_hub_is_read(text: str, found: tuple[str, int]) -> None:
    assert read_address(text, 8471) == found


@table("text", ["", ":8471", "hub.lan:x", "hub.lan:70000"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(CommandError, match="is no address"):
        read_address(text, 8471)
