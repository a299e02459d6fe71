"""A paste without what is around its commands: prompts, fences, stray words of web pages.

What is taken out is replaced by blanks, so that lines and columns stay where they were.
"""

import html
import re
from collections.abc import Sequence
from dataclasses import replace

from servers.launch.commandline import blocks, compose, tokens
from servers.launch.commandline.blocks import Block
from servers.launch.commandline.compose import YamlError
from servers.launch.commandline.engine_words import OTHER_SERVER, is_shell, list_words, program
from servers.launch.commandline.lines import LAUNCH, LineKind, launch_in, start_of
from servers.launch.commandline.script import ShellScript
from servers.launch.commandline.shell import END
from servers.launch.commandline.tokens import LaunchCommand, PasteError
from servers.launch.commandline.variables import Scope
from servers.launch.engines import known_entrypoint
from servers.launch.engines.engine import flag_value
from servers.launch.tables import read_table

_INVISIBLE = re.compile("[\u200b-\u200d\u2060\ufeff\u00ad]|\x1b\\[[0-9;?]*[A-Za-z]")
_SPACES = str.maketrans(dict.fromkeys("\u00a0\u2007\u202f\u2002\u2003\u2009\u3000", " "))
_FENCE = re.compile(r"\s*(?:[-*>]\s+)?(?:`{3,}|~{3,})[^`]*$|`\s*$")
_END_FENCE = re.compile(r"(?<=\S)\s*`{3,}\s*$")
_STRAY = re.compile(
    r"(?i)\s*(?:bash|shell|sh|zsh|console|terminal|plaintext|text|yaml|yml|docker|dockerfile|powershell|cmd"
    r"|shell ?session|copy|copy code|copied!?|code|wrap|command|copy to clipboard)\s*$"
)
_BOLD = re.compile(r"\s*(\*{1,3})(?=[^*\s])(.*?)(?P<end>\1)\s*$")
# What stands before a command in a notebook, a Makefile or a crontab.
_BEFORE = re.compile(
    r"\s*(?:@reboot\s+|In \[\d*\]:\s*!?|\$(?=[a-z])|[!@](?=\w|/)|(?:[\d*/,-]+\s+){5})"
)
_STRAY_PREFIX = re.compile(
    r"(?i)\s*(?:bash|shell|sh|console|powershell|cmd|text)?\s*(?:copy(?:\s?code)?(?:\s?edit)?|复制(?:代码)?|拷贝)?\s*"
)
_OPEN_BACKTICK = re.compile(rf"\s*`(?=(?:sudo |[A-Z_]+=\S+ )*(?:{LAUNCH.pattern}))")
_CLOSED_BACKTICK = re.compile(r"(?<=[^\s`])`(?!`)")
_SHEBANG = re.compile(r"\s*#!\s?/\S*(?:/env\s+)?\S*(?:\s+-\w+)*")
# "- docker run", "2. docker run", "Command: docker run", an arrow or an emoji.
_BULLET = re.compile(
    r"\s*(?:[^\w\s/$~.\"'({<#]{1,3}|\d{1,2}[.)]|[A-Za-z][\w *()-]{0,40}:)\s+`?(?=\S)"
)
_WHOLE_LINE = re.compile(r"\s*`([^`]+)`\s*$")
_TAG = re.compile(
    r"</?(?:code|pre|p|br|span|div|li|[uo]l|t[dhr]|t?body|table|strong|em|kbd|h[1-6]|details|summary)(?:\s[^<>]*)?/?>"
)
_NUMBERED = re.compile(r"\s*(\d+)(?:[:|]\s?|\s)(?!\s*$)")
_EXEC_START = re.compile(r"\s*ExecStart=[-@:+!]*")
# What other than a shell's `export` sets a variable: systemd, PowerShell, cmd.
_EXPORT = re.compile(
    r"\s*(?:Environment=(?=\S)|\$env:(?=\w+\s*=)|set\s+(?=\"?\w+=))", re.IGNORECASE
)
_USER = r"\[?[\w.-]+@[\w.-]+[^$#%>\n]{0,60}"
_SHELL = r"(?:ba|z)?sh-[\d.]+"
_FOLDER = r"(?:[\w.-]{1,40}:)?~?[\w./~-]{0,80}\s?"
_PROMPT = re.compile(
    rf"\s*(?:\([\w.~/-]+\)\s*)?(?:(?:{_USER}|{_SHELL}|{_FOLDER}|PS [^>\n]{{0,80}})?[$%❯>»λ]\s(?:\s*>\s)*"
    rf"|(?:{_USER}|{_SHELL})#\s|[A-Z]:\\[^>\n]{{0,80}}>"
    r"|➜\s+\S+(?:\s+git:\(\S*\))?(?:\s+✗)?\s|\+\s|\+(?=\w))\s*(?=\S)"
    r"|\s*\d{2,5}\s{2}(?=\S)"  # of a shell's history
    r"|\s*\((?:base|[\w.-]*env[\w.-]*)\)\s+(?=\S)"
)
_ROOT_PROMPT = re.compile(r"\s*#\s+(?=\S)")
_ADDED = re.compile(r"\s*\+")  # to a file, as a comparison shows it
_QUOTATION = re.compile(r"\s*>\s?")  # of Markdown
_SECOND_PROMPT = re.compile(r"(?:\s*>)+\s+(?=\S)")
_CONTINUED = re.compile(r"(?:\\|(?<=\s)[\^`])\s*(?:#.*)?$")
_WRAPPED = re.compile(r"\s*(?:(?:sudo|nohup|exec)\s+|[A-Z_]+=\S+\s+)*")
_GLUED_LAUNCH = re.compile(
    r"(?<=[0-9a-z}])(?=(?:python3? -m (?:vllm|sglang)\.|docker run |vllm serve |sglang serve |sudo docker ))"
)
_LONGEST_LINE = 4_000  # in longer ones nothing is mended
_GLUED_COMMENT = re.compile(r"(?<=[\w\"'}])(?=# [A-Z])")
_GLUED_PROSE = re.compile(r"(?<=[a-z0-9\"'}])(?=[A-Z][\w-]*[:,]?(?:\s+[^\s-]\S*){2,}[.:]\s*$)")
# How the last line of a broken command begins: with an option, or an image.
_LAST_LINE = re.compile(r"\s*(?:-|[\w./-]+:\S)")


def normalize(text: str) -> str:
    """The paste with plain line ends and blanks, and without what nobody sees."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").translate(_SPACES)
    text = _INVISIBLE.sub("", text)
    if re.search(r"&(?:amp|quot|apos|lt|gt|nbsp|#\d{2,3}|#x27);", text):
        text = text.replace("&nbsp;", " ").replace("&#160;", " ")
        text = html.unescape(text)
    text = _TAG.sub(lambda tag: " " * len(tag[0]), text)
    return _without_line_numbers(text)


def dedent(text: str) -> tuple[str, int]:
    """A paste of which every line is indented or quoted (">"), without that; and how wide it was."""
    lines = text.split("\n")
    told = [line for line in lines if line.strip()]
    width = 0
    while told and all(line[width : width + 1] in (" ", "\t", ">") for line in told):
        width += 1
    return "\n".join(line[width:] for line in lines), width


def _without_line_numbers(text: str) -> str:
    lines = text.split("\n")
    matches = [_NUMBERED.match(line) for line in lines if line.strip()]
    numbers = [int(match[1]) for match in matches if match is not None]
    are_counted = len(numbers) > 1 and numbers == list(range(numbers[0], numbers[0] + len(matches)))
    return "\n".join(_blank_match(line, _NUMBERED) for line in lines) if are_counted else text


def blank_fences(text: str) -> str:
    """The text with END for each line that is a Markdown fence or a web page's button.

    A stray "bash" is one, but not as the last word of a command that goes on in its line.
    """
    found: list[str] = []
    continues = False
    for line in text.split("\n"):
        is_stray = bool(line.strip()) and not continues and _STRAY.match(line) is not None
        if is_stray or _FENCE.match(line):
            found.append(END + " " * (len(line) - 1))
            continues = False
        else:
            found.append(_without_end_fence(line))
            continues = _CONTINUED.search(line) is not None
    return "\n".join(found)


def clean_shell(text: str, *, root_prompts: bool = False) -> str:
    """Shell lines with everything around their commands blanked.

    `root_prompts`: "# docker run" is a command typed by root, not one switched off.
    """
    lines = text.split("\n")
    is_quoted = all(line.lstrip().startswith(">") for line in lines if line.strip())
    found: list[str] = []
    continues = False
    second_prompts = False
    in_backticks = is_commented = is_added = False
    for line in lines:
        if is_quoted:
            line = _blank_match(line, _QUOTATION)
        if continues:
            if in_backticks and (span := _CLOSED_BACKTICK.search(line)) is not None:
                line = line[: span.start()] + END + line[span.end() :]
            if is_commented:
                line = _blank_match(line, _ROOT_PROMPT)
            if is_added:
                line = _blank_match(line, _ADDED)
            if second_prompts or re.match(r"(?:\s*>)+\s+-", line):
                line = _blank_match(line, _SECOND_PROMPT)
                second_prompts = True
        else:
            before = line
            in_backticks = line.count("`") == 1 and _OPEN_BACKTICK.match(line) is not None
            line = line.replace("`", " ") if in_backticks else line
            is_added = _ADDED.match(line) is not None
            is_commented = root_prompts and line.lstrip().startswith("#")
            line = _strip_prompt(line, root_prompts=root_prompts)
            second_prompts = bool(_PROMPT.match(before)) and line != before
        line = _restore_line_ends(line)
        continues = _CONTINUED.search(line) is not None
        found.append(line)
    return "\n".join(found)


def _strip_prompt(line: str, *, root_prompts: bool) -> str:
    """A line at which a command may begin, without prompt, bullet, stray word."""
    line = _blank_match(line, _SHEBANG)
    if (code := _WHOLE_LINE.match(line)) is not None and launch_in(code[1]):
        line = line.replace("`", " ")
    line = _strip_label(line)
    for pattern in (_PROMPT, _PROMPT, _EXEC_START):
        shorter = _blank_match(line, pattern)
        if start_of(shorter) is not LineKind.PROSE or shorter.lstrip().startswith("#"):
            line = shorter
    if (match := _EXPORT.match(line)) is not None:
        line = "export ".rjust(match.end()) + re.sub(r"^(\w+)\s*=\s*", r"\1=", line[match.end() :])
    if root_prompts:
        shorter = _strip_label(_blank_match(line, _ROOT_PROMPT))
        line = shorter if start_of(shorter) is not LineKind.PROSE else line
    shorter = _blank_match(line, _STRAY_PREFIX)
    if shorter != line and LAUNCH.match(shorter.lstrip().removeprefix("sudo ")):
        line = shorter
    return line


def _strip_label(line: str) -> str:
    """A line without the bullet, label or sign before its launch."""
    for pattern in (_BEFORE, _BULLET):
        shorter = _blank_match(line, pattern)
        if _is_launch(shorter):
            line = shorter
    bold = _BOLD.match(line)
    if bold is not None and _is_launch(bold[2]):
        line = " " * bold.start(2) + bold[2] + " " * (len(line) - bold.end(2))
    return line


def _is_launch(line: str) -> bool:
    return LAUNCH.match(_WRAPPED.sub("", line, count=1)) is not None


def _restore_line_ends(line: str) -> str:
    """A line with the line ends put back that a web page lost, as END or a comment sign."""
    if len(line) > _LONGEST_LINE:
        return line
    prose = None if _CONTINUED.search(line) else _GLUED_PROSE.search(line)
    is_command = launch_in(line) or _LAST_LINE.match(line)
    if prose is not None and is_command and not _is_quoted(line, prose.start()):
        line = line[: prose.start()]
    for pattern in (_GLUED_COMMENT, _GLUED_LAUNCH):
        match = pattern.search(line)
        if match is not None and not _is_quoted(line, match.start()):
            cut = " " if pattern is _GLUED_COMMENT else "\n"
            line = line[: match.start()] + cut + line[match.start() :]
    return line


def _is_quoted(line: str, position: int) -> bool:
    """Whether a quotation mark is open there; lines above are not looked at."""
    before = line[:position]
    return before.count("'") % 2 == 1 or before.count('"') % 2 == 1


def _blank_match(line: str, pattern: re.Pattern[str]) -> str:
    match = pattern.match(line)
    return " " * match.end() + line[match.end() :] if match else line


def _without_end_fence(line: str) -> str:
    match = _END_FENCE.search(line)
    return line[: match.start()] + " " * len(match[0]) if match else line


# Images in which people install an engine by hand: they start a shell.
_BASE_IMAGE = re.compile(
    r"(?:docker\.io/)?(?:(?:library/)?(?:ubuntu|debian)|nvidia/cuda|pytorch/pytorch)(?=[:@]|$)"
)
# Containers that wait for somebody to `docker exec` into them.
_WAITS = (["sleep", "infinity"], ["tail", "-f", "/dev/null"])


def join_exec_commands(commands: Sequence[LaunchCommand]) -> list[LaunchCommand]:
    """Engines that follow a container with nothing but a shell, or that waits, run in that container.

    That container alone is left out then: it starts nothing.
    """
    found: list[LaunchCommand] = []
    around: LaunchCommand | None = None
    empty: dict[str, LaunchCommand] = {}  # containers that start no engine, by name
    for command in commands:
        if command.kind == "engine_command":
            holder = empty.get(command.name or "")
            if holder is None and around is not None and _may_hold(around, command):
                holder = around
            if holder is not None:
                found = [each for each in found if each is not holder]
                found.append(_inside(holder, command))
                continue
        around = command if _opens_shell(command) else None
        if command.kind == "docker_run" and command.name and (around or not list_words(command)):
            empty[command.name] = command
        found.append(command)
    return found


def _opens_shell(command: LaunchCommand) -> bool:
    words = [word for word in list_words(command) if word]
    if command.kind != "docker_run":
        return False
    if not words:
        # Its image starts a shell, or nothing that the engine below would not start.
        return any(
            re.fullmatch(r"-[a-z]*[it][a-z]*|--tty|--interactive", o) for o in command.ignored
        )
    is_empty = all(word in ("-l", "-i", "--login") for word in words[1:])
    return (is_shell(words[0]) and is_empty) or words in _WAITS


def _may_hold(around: LaunchCommand, command: LaunchCommand) -> bool:
    """Whether an engine that is typed below a container may run in it, rather than beside it."""
    if command.name and around.name and "$" not in command.name and "<" not in command.name:
        return command.name == around.name
    if list_words(around) or around.engine == command.engine:
        return True
    image = around.image or ""
    return known_entrypoint(image) == () or _BASE_IMAGE.match(image) is not None


def _inside(around: LaunchCommand, command: LaunchCommand) -> LaunchCommand:
    return replace(
        around,
        engine=command.engine or around.engine,
        entrypoint=None,
        command=command.command,
        env={**around.env, **command.env},
        unresolved=tuple(dict.fromkeys((*around.unresolved, *command.unresolved))),
        ignored=(*around.ignored, *command.ignored),
    )


LONGEST = 60_000  # characters; the longest guide seen has 25,000
_INLINE = re.compile(r"(?<!`)(`{1,3})(?!`)([^`\n]+)\1(?!`)")
_LANGUAGE = re.compile(r"\s*(?:bash|sh|shell|console)\s+(?!-)")
# Files that start containers by other means, and what to paste of them.
_OTHER_FORMS = [(re.compile(said["form"]), said["reason"]) for said in read_table(__file__)]
_QUOTED = re.compile(r"(?:^|[\s=])[\"'][^\"']*\Z")  # what stands before it opens a quotation
_DOUBLE, _SINGLE = compose.TYPOGRAPHIC_QUOTES
_QUOTES = str.maketrans(dict.fromkeys(_DOUBLE, '"') | dict.fromkeys(_SINGLE, "'"))


def read(text: str) -> list[LaunchCommand]:
    """All launch commands of a paste, in order; never empty.

    Raises PasteError if there is none, or if one of them cannot be read completely.
    """
    if len(text) > LONGEST:
        raise PasteError("this is too long to be a launch command.", line=1, column=1)
    text, indent = dedent(normalize(text))
    try:
        with tokens.limit_paste():
            return _read(blank_fences(text))
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
        self._clusters: list[tuple[tuple[str, ...], list[str], int]] = []

    def read(self, text: str, scope: Scope, first_line: int) -> list[LaunchCommand]:
        found: list[LaunchCommand] = []
        for block in blocks.split(text, first_line):
            found += self._services(block, scope) if block.is_yaml else self._script(block, scope)
        return found

    def _script(self, block: Block, scope: Scope) -> list[LaunchCommand]:
        text = clean_shell(block.text, root_prompts=self._root_prompts)
        script = ShellScript(text, scope, first_line=block.first_line, read_text=self.read)
        found = script.read()
        self._assigned += [_line(text, offset, block) for offset in found.assigned]
        self._assembled += [_line(text, offset, block) for offset in found.assembled]
        self._scripts += [(name, _line(text, offset, block)) for name, offset in found.scripts]
        for hosts, words, offset in found.clusters:
            self._clusters.append((hosts, words, _line(text, offset, block)))
        return found.commands

    def _services(self, block: Block, scope: Scope) -> list[LaunchCommand]:
        try:
            return [
                compose.read(name, entry, scope, compose.find_real_names(document, scope))
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
        if self._clusters:
            hosts, words, line = self._clusters[0]
            return PasteError(_describe_cluster(hosts, words), line=line, column=1)
        if (match := OTHER_SERVER.search(text)) is not None:
            line = text.count("\n", 0, match.start("name")) + 1
            reason = (
                f"{match['name']} is none of vLLM, SGLang and llama.cpp. As Other it needs a "
                "container: paste its docker run line or its compose service."
            )
            return PasteError(reason, line=line, column=1)
        if self._assembled:
            reason = "the command is assembled in a variable or alias; paste the command itself."
            return PasteError(reason, line=self._assembled[0], column=1)
        if self._scripts:
            name, line = self._scripts[0]
            reason = f"{name} is a file that is not here; paste the command inside it."
            return PasteError(reason, line=line, column=1)
        if self._assigned and _sets_alone(text):
            reason = "only variables are set here; the command that uses them is missing."
            return PasteError(reason, line=self._assigned[0], column=1)
        if (match := launch_in(text)) is not None:
            before = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
            if _QUOTED.search(before):
                reason = f"“{match[0].strip()}” is quoted inside another command. Paste it alone."
                return PasteError(reason, line=text.count("\n", 0, match.start()) + 1, column=1)
        lines = enumerate(text.split("\n"), start=1)
        line = next((number for number, each in lines if each.strip(f" {END}")), 1)
        reason = (
            "no command here starts a container or an engine. Paste a docker run line, "
            "a compose service, or a vllm, sglang or llama-server command."
        )
        return PasteError(reason, line=line, column=1)


def _sets_alone(text: str) -> bool:
    """Whether nothing but variables is set in it."""
    lines = [line.strip(f" {END}") for line in text.split("\n")]
    told = [line for line in lines if line and not line.startswith("#")]
    return all(start_of(line) is LineKind.ASSIGNMENT for line in told)


def _describe_cluster(hosts: tuple[str, ...], words: list[str]) -> str:
    named = f" ({', '.join(hosts)})" if hosts else ""
    script = flag_value(tuple(words), "--launch-script")
    inside = f"the command inside {program(script)}" if script else "its engine’s command"
    return (
        f"launch-cluster.sh starts one engine on several boxes{named}, which inferdash cannot start "
        f"yet. For one box, paste {inside}."
    )


def _line(text: str, offset: int, block: Block) -> int:
    return block.first_line + text.count("\n", 0, offset)


def _documents(text: str) -> list[object]:
    """YAML documents; typographic quotes and a first line without its indentation are mended."""
    text = compose.without_comments(text)
    lines = text.split("\n")
    deeper = [len(each) - len(each.lstrip()) for each in lines[1:] if each.strip()]
    indented = "\n".join([" " * min(deeper, default=0) + lines[0].lstrip(), *lines[1:]])
    wrong: YamlError | None = None  # with the text as it is
    for attempt in dict.fromkeys((text, text.translate(_QUOTES), indented)):
        try:
            return compose.documents(attempt)
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
