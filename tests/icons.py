"""Sprite of the icons that pages use, made anew from Lucide: `make icons`.

One file of SVG symbols that templates/base.html includes: no font, no request, no style of its own.
The package holds some thousand icons and weighs 67 MB, so that it is fetched here and not installed.
"""

import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.terminal import ROOT

PACKAGE = "lucide-static@1.62.0"
SPRITE = ROOT / "templates/_icons.html"
# Names in Lucide, by the names that pages use.
ICONS = {
    "activity": "history",
    "alerts": "bell",
    "attach": "paperclip",
    "branch": "git-branch",
    "check": "check",
    "chevron": "chevron-down",
    "close": "x",
    "conversations": "messages-square",
    "copy": "copy",
    "dashboard": "layout-dashboard",
    "delete": "trash-2",
    "down": "arrow-down",
    "download": "download",
    "edit": "pencil",
    "failed": "circle-x",
    "file": "file-text",
    "gateway": "waypoints",
    "gauge": "gauge",
    "images": "layers",
    "info": "info",
    "key": "key-round",
    "log": "scroll-text",
    "menu": "menu",
    "minus": "minus",
    "models": "brain",
    "more": "ellipsis",
    "person": "circle-user-round",
    "playground": "message-square",
    "plus": "plus",
    "profiles": "sliders-horizontal",
    "ready": "circle-check",
    "restart": "rotate-cw",
    "search": "search",
    "send": "arrow-up",
    "servers": "server",
    "settings": "settings",
    "sidebar": "panel-left",
    "star": "star",
    "start": "play",
    "stop": "square",
    "warning": "triangle-alert",
}
USED = (
    re.compile(r'{% icon "([a-z]+)"'),
    re.compile(r'{% page_link "\w+" "[^"]+" "([a-z]+)"'),
    re.compile(r"#icon-([a-z]+)\b"),
    re.compile(r'\bicon\("([a-z]+)"\)'),
    re.compile(r'\bicon_name="([a-z]+)"'),
)


def make_sprite(icons: Path) -> str:
    """The symbols of ICONS from a folder of Lucide's files, below their licence."""
    licence = (icons.parent / "LICENSE").read_text()
    # The list of all icons that once were Feather's.
    licence = re.sub(r"(?m)^airplay, .*$", "See lucide.dev/license.", licence)
    symbols = [
        f'<symbol id="icon-{name}" viewBox="0 0 24 24">{_drawing(icons / f"{of}.svg")}</symbol>'
        for name, of in sorted(ICONS.items())
    ]
    head = f"{{% comment %}}Made by `make icons` from {PACKAGE}; do not edit.\n\n{licence}{{% endcomment %}}"
    return "\n".join([head, '<svg class="sprite" aria-hidden="true" hidden>', *symbols, "</svg>\n"])


def _drawing(file: Path) -> str:
    inside = re.search(r"<svg[^>]*>(.*)</svg>", file.read_text(), re.DOTALL)
    assert inside, file
    return re.sub(r"\s*\n\s*", "", inside[1]).replace(" />", "/>")


def fetch(folder: Path) -> Path:
    """Lucide's icons, unpacked below this folder; npm checks them against its registry."""
    command = ["npm", "pack", "--silent", PACKAGE]
    packed = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    with tarfile.open(folder / packed.stdout.strip()) as archive:
        archive.extractall(folder, filter="data")
    return folder / "package/icons"


def find_used() -> set[str]:
    """The icons that a template, a template tag or a script names."""
    files = [*(ROOT / "templates").rglob("*.html"), *(ROOT / "static/js").rglob("*.js")]
    files += (ROOT / "servers").rglob("*.py")
    texts = [each.read_text() for each in files if each != SPRITE]
    return {name for text in texts for pattern in USED for name in pattern.findall(text)}


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        SPRITE.write_text(make_sprite(fetch(Path(folder))))
    print(f"{len(ICONS)} icons, {SPRITE.stat().st_size / 1024:.1f} KiB: {SPRITE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
