"""Weight of the playground's pages: styles and scripts that come at load, as browsers get them."""

import re
from os.path import normpath
from pathlib import PurePosixPath

from inferdash import static_files
from tests.cases import table
from tests.terminal import ROOT

MOST = 80_000  # bytes, with gzip
STATIC = re.compile(r'{% static "([^"]+\.(?:css|m?js))" %}')
INCLUDE = re.compile(r'{% include "([^"]+)"')
# Static imports alone: import() comes when it is needed.
IMPORT = re.compile(r'^(?:import|(?:import|export) [^;\n]*? from|} from) "(\.[^"]+)"', re.MULTILINE)


def follow(name: str, seen: dict[str, int]) -> None:
    """This file and all that it imports, with their sizes as they are sent."""
    if name in seen:
        return
    file = static_files.read_all()[name]
    seen[name] = len(file.compressed or file.content)
    if name.endswith("js"):
        for imported in IMPORT.findall(file.content.decode()):
            follow(normpath(PurePosixPath(name).parent / imported), seen)


def weigh(*templates: str) -> dict[str, int]:
    seen: dict[str, int] = {}
    for template in templates:
        text = (ROOT / "templates" / template).read_text()
        for name in STATIC.findall(text):
            follow(name, seen)
        seen |= weigh(*INCLUDE.findall(text))
    return seen


@table(
    "template",
    ["gateway/chat/page.html", "gateway/chat/compare.html", "gateway/chat/shared.html"],
)
def test_the_playground_is_light(template: str) -> None:
    found = weigh("base.html", template)

    largest = sorted(found.items(), key=lambda each: -each[1])
    assert sum(found.values()) <= MOST, largest[:12]
    assert "css/page/tokens.css" in found
    assert "js/page/parts.js" in found
