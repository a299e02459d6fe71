"""The sprite of icons: what pages use, and nothing else."""

import re

from tests import icons


def test_the_sprite_holds_the_icons_that_pages_use_and_no_others() -> None:
    drawn = set(re.findall(r'<symbol id="icon-([a-z]+)"', icons.SPRITE.read_text()))
    assert drawn == set(icons.ICONS)
    assert icons.find_used() <= drawn, "change ICONS in tests/icons.py, then say make icons"
