"""The small files that are kept beside a profile's Dockerfile, as one text box shows them."""

import re

from servers.launch.commandline.text_boxes import WordsError

# As head and tail print several files.
_HEAD = re.compile(r"==>\s*(\S.*?)\s*<==\s*")


def files(text: str) -> dict[str, str]:
    """Texts by name, each below a line “==> name <==”. Raises WordsError.

    Each ends with a newline, as files of text do.
    """
    found: dict[str, str] = {}
    name, lines = "", list[str]()
    for line in text.replace("\r\n", "\n").split("\n"):
        head = _HEAD.fullmatch(line)
        if head is None:
            if not name and line.strip():
                raise WordsError("Begin each file with a line such as ==> fix.patch <==.")
            lines.append(line)
            continue
        _keep(found, name, lines)
        name, lines = head[1], []
        if name in found:
            raise WordsError(f"{name} stands there twice.")
    _keep(found, name, lines)
    return found


def _keep(found: dict[str, str], name: str, lines: list[str]) -> None:
    if name:
        # Blank lines before the next head are for the eye.
        found[name] = "\n".join(lines).rstrip("\n") + "\n"


def text(found: dict[str, str]) -> str:
    """What files() reads again."""
    return "\n".join(f"==> {name} <==\n{content}" for name, content in found.items())
