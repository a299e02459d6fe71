"""Rules on styles: `python -m tests.styles`, as `make lint` runs it.

Sizes of text and spaces come from static/css/page/tokens.css, and from nowhere else; so do shadows
of what lies above the page. A length of 1 or 2 px is a line, and no space.
"""

import re
import sys
from collections.abc import Iterator

from tests.terminal import ROOT

FOLDER = ROOT / "static/css"
TOKENS = FOLDER / "page/tokens.css"
DECLARATION = re.compile(
    r"(?<![\w-])(font-size|(?:padding|margin|scroll-margin)(?:-[a-z-]+)?|(?:row-|column-)?gap|box-shadow):"
    r"\s*([^;{}]+);"
)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
SIZE = re.compile(r"var\(--size-\d+\)|inherit")
# Besides the tokens: nothing, lines, what a telephone covers, and sums and multiples of these.
SPACE = re.compile(
    r"var\(--(?:space-\d+|below|above)\)|env\([a-z-]+, 0rem\)|calc|-?[12]px|auto|-?\d+|[-+*/() ]"
)
SHADOW = re.compile(r"var\(--shadow-[12]\)|none|inset .*")


def find_faults(text: str, tokens: set[str]) -> Iterator[tuple[int, str]]:
    """Lines of a sheet, counted from 1, and what is wrong there."""
    blank = COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    for found in DECLARATION.finditer(blank):
        prop, value = found[1], " ".join(found[2].split())
        line = blank.count("\n", 0, found.start()) + 1
        if prop == "font-size":
            is_fine = SIZE.fullmatch(value) is not None
        elif prop == "box-shadow":
            is_fine = SHADOW.fullmatch(value) is not None
        else:
            is_fine = SPACE.sub("", value) == ""
        if not is_fine:
            yield line, f"{prop}: {value} is no token of page/tokens.css"
        for name in re.findall(r"var\((--(?:size|space|shadow)-[\w-]+)", value):
            if name not in tokens:
                yield line, f"{name} is not in page/tokens.css"


def read_tokens() -> set[str]:
    return set(re.findall(r"^\s*(--[\w-]+):", TOKENS.read_text(), re.MULTILINE))


def main() -> int:
    tokens, count = read_tokens(), 0
    for kind, most in (("size", 6), ("space", 6), ("shadow", 2)):
        if len(named := sorted(each for each in tokens if each.startswith(f"--{kind}-"))) != most:
            print(f"{TOKENS.relative_to(ROOT)}: {most} of --{kind}-*, not {len(named)}")
            count += 1
    for sheet in sorted(FOLDER.rglob("*.css")):
        if sheet != TOKENS:
            for line, fault in find_faults(sheet.read_text(), tokens):
                print(f"{sheet.relative_to(ROOT)}:{line}: {fault}")
                count += 1
    return min(count, 1)


if __name__ == "__main__":
    sys.exit(main())
