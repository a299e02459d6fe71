"""The sprite of icons: all that pages use, and all on the page that shows them."""

import re

from servers.views import design
from tests import icons


def test_the_sprite_holds_the_icons_that_pages_use_and_one_page_shows_all() -> None:
    drawn = set(re.findall(r'<symbol id="icon-([a-z]+)"', icons.SPRITE.read_text()))
    assert drawn == set(icons.ICONS), "say make icons"
    assert icons.find_used() <= drawn, "change ICONS in tests/icons.py, then say make icons"
    assert set(design.list_icons()) == drawn
