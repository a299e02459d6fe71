"""Pasted launch commands, read into Commands: the door to this package."""

import re

from servers.launch.commandline import blocks, budget, compose, paste, yaml_text
from servers.launch.commandline.blocks import Block
from servers.launch.commandline.command import LaunchCommand, PasteError
from servers.launch.commandline.exec_commands import join_exec_commands
from servers.launch.commandline.line_kinds import LineKind, launch_in, start_of
from servers.launch.commandline.script import ShellScript
from servers.launch.commandline.shell import END
from servers.launch.commandline.variables import Scope
from servers.launch.commandline.yaml_text import YamlError

LONGEST = 60_000  # characters; the longest guide seen has 25,000
_INLINE = re.compile(r"(?<!`)(`{1,3})(?!`)([^`\n]+)\1(?!`)")
_LANGUAGE = re.compile(r"\s*(?:bash|sh|shell|console)\s+(?!-)")
# Files that start containers by other means, and what to paste of them.
_OTHER_FORMS = (
    (
        re.compile(r"(?m)^\[Container\]"),
        "this is a Quadlet file of podman. Paste it as podman run: the options, the image of "
        "Image=, and the words of Exec=.",
    ),
    (
        re.compile(r"(?m)^apiVersion:"),
        "this is a Kubernetes manifest. Paste what its container runs as docker run, or its "
        "command and args as one line.",
    ),
)
_DOUBLE, _SINGLE = yaml_text.TYPOGRAPHIC_QUOTES
_QUOTES = str.maketrans(dict.fromkeys(_DOUBLE, '"') | dict.fromkeys(_SINGLE, "'"))


def read(text: str) -> list[LaunchCommand]:
    """All launch commands of a paste, in order; never empty.

    Raises PasteError if there is none, or if one of them cannot be read completely.
    """
    if len(text) > LONGEST:
        raise PasteError("this is too long to be a launch command.", line=1, column=1)
    text, indent = paste.dedent(paste.normalize(text))
    try:
        with budget.limit_paste():
            return _read(paste.blank_fences(text))
    except PasteError as error:
        raise PasteError(error.reason, line=error.line, column=error.column + indent) from None


def _read(text: str) -> list[LaunchCommand]:
    reader = _PasteReader()
    commands = reader.read(text, Scope(), 1)
    if not commands:
        commands = _PasteReader(root_prompts=True).read(text, Scope(), 1) or _inline(text)
    if not commands:
        raise reader.nothing_found(text)
    return join_exec_commands(commands)


class _PasteReader:
    def __init__(self, *, root_prompts: bool = False) -> None:
        self._root_prompts = root_prompts
        # What else there was, with the line: why a paste without a command has none.
        self._assigned: list[int] = []
        self._assembled: list[int] = []
        self._scripts: list[tuple[str, int]] = []

    def read(self, text: str, scope: Scope, first_line: int) -> list[LaunchCommand]:
        found: list[LaunchCommand] = []
        for block in blocks.split(text, first_line):
            found += self._services(block, scope) if block.is_yaml else self._script(block, scope)
        return found

    def _script(self, block: Block, scope: Scope) -> list[LaunchCommand]:
        text = paste.clean_shell(block.text, root_prompts=self._root_prompts)
        script = ShellScript(text, scope, first_line=block.first_line, read_text=self.read)
        found = script.read()
        self._assigned += [_line(text, offset, block) for offset in found.assigned]
        self._assembled += [_line(text, offset, block) for offset in found.assembled]
        self._scripts += [(name, _line(text, offset, block)) for name, offset in found.scripts]
        return found.commands

    def _services(self, block: Block, scope: Scope) -> list[LaunchCommand]:
        try:
            return [
                compose.read(name, entry, scope)
                for document in _documents(block.text)
                for name, entry in compose.services(document).items()
            ]
        except YamlError as error:
            line = block.first_line + error.line
            raise PasteError(error.reason, line=line, column=error.column + 1) from error

    def nothing_found(self, text: str) -> PasteError:
        """Why a paste has no command, as precisely as can be said."""
        for form, reason in _OTHER_FORMS:
            if (match := form.search(text)) is not None:
                return PasteError(reason, line=text.count("\n", 0, match.start()) + 1, column=1)
        if self._assembled:
            reason = "the command is assembled in a variable or alias; paste the command itself."
            return PasteError(reason, line=self._assembled[0], column=1)
        if self._scripts:
            name, line = self._scripts[0]
            reason = f"{name} is a file that is not here; paste the command inside it."
            return PasteError(reason, line=line, column=1)
        if self._assigned:
            reason = "only variables are set here; the command that uses them is missing."
            return PasteError(reason, line=self._assigned[0], column=1)
        lines = enumerate(text.split("\n"), start=1)
        line = next((number for number, each in lines if each.strip(f" {END}")), 1)
        reason = (
            "no command here starts a container or an engine. Paste a docker run line, "
            "a compose service, or a vllm, sglang or llama-server command."
        )
        return PasteError(reason, line=line, column=1)


def _line(text: str, offset: int, block: Block) -> int:
    return block.first_line + text.count("\n", 0, offset)


def _documents(text: str) -> list[object]:
    """YAML documents; typographic quotes and a first line without its indentation are mended."""
    text = yaml_text.without_comments(text)
    lines = text.split("\n")
    deeper = [len(each) - len(each.lstrip()) for each in lines[1:] if each.strip()]
    indented = "\n".join([" " * min(deeper, default=0) + lines[0].lstrip(), *lines[1:]])
    wrong: YamlError | None = None  # with the text as it is
    for attempt in dict.fromkeys((text, text.translate(_QUOTES), indented)):
        try:
            return yaml_text.documents(attempt)
        except YamlError as error:
            wrong = wrong or error
    assert wrong is not None
    raise wrong


def _inline(text: str) -> list[LaunchCommand]:
    """Commands in a sentence: run `vllm serve MODEL` and wait."""
    found: list[LaunchCommand] = []
    for number, line in enumerate(text.split("\n"), start=1):
        for match in _INLINE.finditer(line):
            code = _LANGUAGE.sub("", match[2])
            if launch_in(code) and len(code.split()) > 2 and start_of(code) is not LineKind.PROSE:
                found += _PasteReader().read(code, Scope(), number)
    return found
