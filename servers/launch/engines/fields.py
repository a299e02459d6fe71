"""The description of one field of a launch: what form, YAML, exports and comparisons go by."""

from dataclasses import dataclass
from typing import Literal

# How people write the value: in a text box, in YAML, and in a list of differences.
type FieldKind = Literal[
    "text", "phrase", "switch", "ipc", "count", "port", "choice", "size", "span", "minutes", "hold",
    "path", "address", "network", "gpus", "words", "lines", "items", "capabilities", "aliases",
    "patterns", "volumes", "limits", "parameters", "figures", "digests", "files", "dockerfile",
    "image", "engine", "flags", "env", "hidden",
]  # fmt: skip
SPANS = ("span", "minutes", "hold")  # lengths of time, in seconds


@dataclass(frozen=True, kw_only=True)
class LaunchField:
    kind: FieldKind
    group: str = ""  # of the profile form; "": it is rarely needed
    after: str = ""  # the field behind which it stands there, if not the one before it here
    box: str = ""  # its name there, if another
    label: str = ""  # "": its name, as a word
    help: str = ""
    required: bool = False
    longest: int | None = None
    rows: int = 0  # of a text area; 0: one line
    placeholder: str = ""
    least: int = 0
    most: int | None = None
    choices: tuple[tuple[str, str], ...] = ()
    # What YAML may say: a word for each choice, then further ones for the empty one. (): any text.
    words: tuple[str, ...] = ()
    says_only: bool = False  # what is started does not depend on it
    docker: str = ""  # its option of `docker run`, without dashes
    compose: str = ""  # its key in a compose service, if another than its name
    pasted: str = ""  # its name in a LaunchCommand, if another
    title: str = ""  # in the comparison of two containers, of each entry where it is a list
