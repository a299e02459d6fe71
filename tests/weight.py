"""Weight of pages: `python -m tests.weight`, as `make lint` runs it; with --all, that of every page.

What a page loads before anybody does anything: the sheets and scripts that its template, what that
extends and what it includes name, and all that its modules import. Each counts gzipped, as it is
sent. What a module imports later, by import(), does not count.
"""

import os
import posixpath
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import django

from tests.terminal import ROOT

LIMIT = 80_000  # bytes
COMMENT = re.compile(r"{#.*?#}|{% comment.*?{% endcomment %}", re.DOTALL)
LOADED = re.compile(r"{% static [\"']([\w./-]+\.(?:css|js))[\"'] %}")
PART = re.compile(r"{% (?:extends|include) (?:[\"']([\w./-]+\.html)[\"']|(tab\.template|frame)\b)")
TAB_PART = "{% include tab.template %}"
# In a branch for another tab nothing is loaded.
BRANCH = re.compile(r"{% (if|elif|else|endif)\b(?:[^%]*?\btab\.name == \"(\w+)\")?[^%]*%}")
IS_PAGE = re.compile(r"{% extends ")
# Comments of JSDoc begin with an asterisk; what is not minified by its makers is loaded as a script.
IMPORTED = re.compile(
    r"^(?:import|export)\b[^\"'();]*?[\"'](\.[\w./-]+)[\"']"
    r"|\bnew URL\(\"(\.[\w./-]+\.js)\", import\.meta\.url\)",
    re.MULTILINE,
)


@dataclass(frozen=True, kw_only=True)
class PageWeights:
    """Templates by name, and files by the path that pages name: their text, and bytes as sent."""

    templates: Mapping[str, str]
    texts: Mapping[str, str]
    sizes: Mapping[str, int]

    tabs: Mapping[str, str]  # the tabs of a server's page by name, each with its template

    @cached_property
    def pages(self) -> list[tuple[str, str]]:
        """Templates that are pages, those with tabs once for each: its name, else ""."""
        names = sorted(name for name, text in self.templates.items() if IS_PAGE.search(text))
        return [
            (name, tab) for name in names for tab in (self.tabs if self._has_tabs(name) else [""])
        ]

    def weigh(self, page: str, tab: str = "") -> dict[str, int]:
        """Bytes of each file that this page loads, the heaviest first."""
        parts = _closure({page}, lambda name: self._find_parts(name, tab))
        named = {each for part in parts for each in LOADED.findall(self._read(part, tab))}
        found = {each: self.sizes[each] for each in _closure(named, self._find_imports)}
        return dict(sorted(found.items(), key=lambda each: -each[1]))

    def _has_tabs(self, page: str) -> bool:
        parts = _closure({page}, lambda name: self._find_parts(name, ""))
        return any(TAB_PART in self.templates[part] for part in parts)

    def _read(self, template: str, tab: str) -> str:
        text = COMMENT.sub("", self.templates[template])
        read, at, others = [], 0, [""]  # the tab that each open branch is for
        for found in BRANCH.finditer(text):
            if all(each in ("", tab) for each in others):
                read.append(text[at : found.start()])
            at = found.end()
            if found[1] != "if":
                others.pop()
            if found[1] != "endif":
                others.append(found[2] or "")
        return "".join([*read, text[at:]])

    def _find_parts(self, template: str, tab: str) -> Iterator[str]:
        for named, variable in PART.findall(self._read(template, tab)):
            if named or variable == "frame":  # a page or a dialog
                yield named or "base.html"
            elif tab:
                yield self.tabs[tab]

    def _find_imports(self, file: str) -> Iterator[str]:
        if file.endswith((".js", ".mjs")):
            for imported, loaded in IMPORTED.findall(self.texts[file]):
                yield posixpath.normpath(f"{posixpath.dirname(file)}/{imported or loaded}")


def _closure(first: set[str], find_next: Callable[[str], Iterator[str]]) -> set[str]:
    found, waiting = set[str](), [*first]
    while waiting:
        if (here := waiting.pop()) not in found:
            found.add(here)
            waiting += find_next(here)
    return found


def read_weights() -> PageWeights:
    """This working copy's."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "inferdash.settings")
    django.setup()
    from inferdash import static_files  # noqa: PLC0415 - needs the settings
    from servers.contexts.runs import server_page  # noqa: PLC0415

    folder = ROOT / "templates"
    files = {
        name: file
        for name, file in static_files.read_all().items()
        if name.endswith((".css", ".js", ".mjs"))
    }
    return PageWeights(
        templates={
            each.relative_to(folder).as_posix(): each.read_text() for each in folder.rglob("*.html")
        },
        tabs={tab.name: tab.template for tab in server_page.TABS},
        texts={name: file.content.decode() for name, file in files.items()},
        sizes={name: len(file.compressed or file.content) for name, file in files.items()},
    )


def main(words: list[str]) -> int:
    weights, too_heavy = read_weights(), 0
    for page, tab in weights.pages:
        files = weights.weigh(page, tab)
        total = sum(files.values())
        is_fine = total <= LIMIT
        too_heavy += not is_fine
        if not is_fine or "--all" in words:
            most = ", ".join(f"{name} {_kilo(size)}" for name, size in [*files.items()][:4])
            over = "" if is_fine else f", {_kilo(total - LIMIT)} kB too many"
            name = f"templates/{page}{f' ({tab})' if tab else ''}"
            print(f"{name}: {_kilo(total)} kB in {len(files)} files{over} ({most}, …)")
    return min(too_heavy, 1)


def _kilo(size: int) -> str:
    return f"{size / 1000:.1f}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
