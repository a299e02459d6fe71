"""A shell script, or what is pasted of one, read top to bottom without running anything."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from servers.launch.commandline import docker_run, tokens
from servers.launch.commandline.docker_options import TOOLS
from servers.launch.commandline.engine_words import (
    engine_start,
    find,
    find_container,
    find_hosts,
    name_changing,
    program,
    shell_script,
    wrappers,
)
from servers.launch.commandline.lines import LineEnds, LineKind, begins_other, launch_in, start_of
from servers.launch.commandline.shell import Lexer
from servers.launch.commandline.tokens import (
    ArrayAssignment,
    HereDocument,
    LaunchCommand,
    Operator,
    PasteError,
    ShellError,
    Substitution,
    Text,
    Variable,
    Word,
)
from servers.launch.commandline.variables import Argument, Scope, Value

_NAMED = re.compile(r"([A-Za-z_]\w*)(\[\w*\])?(\+?)=")
_DETACHED = re.compile(
    r"(?:\$\(|`)\s*(?:sudo )?(?:docker|podman|nerdctl)\s+run\s(?:[^;|&]*\s)?(?:-[itPq]*d[itPq]*|--detach)\s",
    re.DOTALL,
)
_NAME = re.compile(r"[A-Za-z_]\w*")
_EXPORTS = ("export", "setx")
_DECLARES = (*_EXPORTS, "declare", "typeset", "local", "readonly")
_OPENERS = ("if", "for", "while", "until", "case", "select")
_CLOSERS = ("fi", "done", "esac")
_KEYWORDS = ("then", "else", "elif", "do", "!", "{", "time", *_OPENERS[:1], *_OPENERS[2:4])
_ENV_FILE = "EnvironmentFile"  # of a systemd unit, which reads as a variable that is set
_TESTS = ("[", "[[", "test", "(")
# Commands that take a word or two, behind which a lost line end may hide the next command.
_SHORT = ("export", "set", "source", ".", "cd", "activate", "pip", "git", "mkdir")
# Programs that hand a command on as words or as a text, behind words of their own.
_CARRIED_BY = """ssh tmux screen srun su flock apptainer singularity nsys ncu strace gdb caffeinate xvfb-run pm2 start wsl
    wsl.exe proxychains proxychains4"""
_CARRIERS = frozenset(_CARRIED_BY.split())
_CONTAINERS = ("apptainer", "singularity")
_POD_TOOLS = ("kubectl", "oc")


@dataclass(frozen=True, kw_only=True)
class ScriptResult:
    """What a script, or a part of it, gave."""

    commands: list[LaunchCommand] = field(default_factory=list)
    assigned: list[int] = field(default_factory=list)  # where, in the text
    # Where something was assigned that looks like a whole command.
    assembled: list[int] = field(default_factory=list)
    scripts: list[tuple[str, int]] = field(default_factory=list)  # files that are run, and where
    # Scripts that start one engine on several boxes: which, their words, and where.
    clusters: list[tuple[tuple[str, ...], list[str], int]] = field(default_factory=list)


ReadText = Callable[[str, Scope, int], list[LaunchCommand]]


class ShellScript:
    """One text of shell commands, prose and comments. `read_text` reads a here-document's body."""

    def __init__(self, text: str, scope: Scope, *, first_line: int, read_text: ReadText) -> None:
        self.text = text
        self.scope = scope
        self.found = ScriptResult()
        self._first_line = first_line
        self._read_text = read_text
        self._depth = 0
        self._is_conditional = False
        self._outer: list[Scope] = []
        # An "if" that nothing closes below is a word of a sentence.
        closers = re.finditer(r"(?:^|[;\s])(?:fi|done|esac)\b", text)
        self._last_closer = max((match.start() for match in closers), default=-1)

    def read(self) -> ScriptResult:
        """All launches in order. Raises PasteError for one that cannot be read completely."""
        at = 0
        while at < len(self.text):
            tokens.spend_step()
            stop = self.text.find("\n", at)
            stop = len(self.text) if stop < 0 else stop
            line = self.text[at:stop]
            start = start_of(line)
            following = stop + 1
            if start is not LineKind.PROSE:
                try:
                    following = self._logical_line(at)
                except ShellError as error:
                    if start is LineKind.ASSIGNMENT or launch_in(line):
                        raise self._error(error) from error
            at = following
        return self.found

    def _logical_line(self, at: int) -> int:
        ends = LineEnds(self.text, at)
        tokens, following = Lexer(self.text, ends.goes_on).line(at)
        for document in tokens:
            if isinstance(document, HereDocument):
                self._here_document(document)
        command: list[Word | ArrayAssignment] = []
        previous = ""
        for token in [*tokens, Operator(text="\n", offset=following)]:
            if isinstance(token, Word | ArrayAssignment):
                command.append(token)
            elif isinstance(token, Operator):
                after_test = self._is_conditional
                self._is_conditional = self._depth > 0 or (previous in ("&&", "||") and after_test)
                if command:
                    self._simple(command)
                self._is_conditional = bool(command) and self._is_test(command)
                command, previous = [], token.text
                self._nest(token.text)
        return following

    def _nest(self, operator: str) -> None:
        """What a subshell sets is gone behind it."""
        if operator == "(":
            self._outer.append(self.scope.copy())
        elif operator == ")" and self._outer:
            self.scope.restore(self._outer.pop())

    def _is_test(self, command: list[Word | ArrayAssignment]) -> bool:
        return isinstance(command[0], Word) and self._raw(command[0]) in _TESTS

    def _simple(self, command: list[Word | ArrayAssignment]) -> None:
        command = self._behind_keywords(command)
        offset = command[0].offset if command else 0
        prefix: dict[str, Value] = {}
        while command:
            first = command[0]
            if isinstance(first, ArrayAssignment):
                self._set_array(first)
            elif (assigned := self._assignment(first)) is not None:
                self._read_captured(first)
                prefix[assigned[0]] = assigned[1]
                if len(command) == 1 and len(prefix) == 1 and assigned[2]:
                    self._add(assigned[0], assigned[1])
                    return
            else:
                break
            command = command[1:]
        words = [word for word in command if isinstance(word, Word)]
        if not words:
            for name, value in prefix.items():
                self._set(name, value, offset)
            return
        self._command(words, command, prefix)

    def _read_captured(self, word: Word) -> None:
        """A container that is started to keep its id: ID=$(docker run -d …)."""
        for piece in word.pieces:
            if isinstance(piece, Substitution) and _DETACHED.match(piece.raw):
                self._read_nested(piece.raw[1:-1].removeprefix("("), word.offset)

    def _behind_keywords(
        self, command: list[Word | ArrayAssignment]
    ) -> list[Word | ArrayAssignment]:
        while command and isinstance(command[0], Word):
            word = self._raw(command[0])
            if word in _CLOSERS:
                self._depth = max(0, self._depth - 1)
            elif word in _OPENERS and command[0].end < self._last_closer:
                self._depth += 1
                if word in ("for", "select") and len(command) > 1:
                    loop = command[1]
                    self.scope.forget(self._raw(loop) if isinstance(loop, Word) else loop.name)
            if word not in _KEYWORDS:
                return command
            command = command[1:]
        return command

    def _command(
        self,
        words: list[Word],
        command: list[Word | ArrayAssignment],
        prefix: dict[str, Value],
    ) -> None:
        name = self._raw(words[0])
        lost = self._lost_line_end(words)
        if lost is not None:
            self._command(words[:lost], list(words[:lost]), prefix)
            self._simple(list(words[lost:]))
            return
        if name in _DECLARES:
            self._declare(command[1:], exports=name in _EXPORTS or "-x" in map(self._raw, words))
        elif name == "set":
            self._set_options(words[1:])
        elif name == "alias" and launch_in(self.text[words[0].offset : words[-1].end]):
            self.found.assembled.append(words[0].offset)
        elif name == "unset":
            for word in words[1:]:
                self.scope.forget(self._raw(word))
        if name in _SHORT:
            return
        try:
            arguments = self.scope.arguments(words)
            self._refuse_assembled(words, arguments)
            if arguments:
                self._launch(arguments, prefix)
        except ShellError as error:
            if launch_in(self.text[words[0].offset : words[-1].end]) or error.is_certain:
                raise

    def _lost_line_end(self, words: list[Word]) -> int | None:
        """Where, behind `export A=1` or a launch, another command stands on the same line."""
        texts = [self._raw(word) for word in words]
        first = wrappers(texts)
        is_short = texts[0] in _SHORT
        is_engine = engine_start(texts[first:]) is not None
        is_docker = program(texts[first]) in TOOLS if first < len(texts) else False
        if not (is_short or is_engine or is_docker):
            return None
        _look_at_each_rest(texts)
        for position in range(1 if is_short else first + 2, len(texts)):
            if not is_short and re.fullmatch(r"--?[\w-]+", texts[position - 1]):
                continue  # an option's value
            if texts[0] in _EXPORTS and _NAMED.match(texts[position]):
                continue  # what it exports: the command behind it knows these values
            rest = texts[position + wrappers(texts[position:]) :]
            if is_short and texts[position] in _SHORT[:5]:
                return position
            if docker_run.start(rest) or (engine_start(rest) and not is_docker):
                return position
            if not is_short and begins_other(rest):
                return position
        return None

    def _launch(self, arguments: list[Argument], prefix: dict[str, Value]) -> None:
        texts = [argument.text for argument in arguments]
        own = wrappers(texts)
        for argument in arguments[:own]:
            name, equals, text = argument.text.partition("=")
            # vllm==0.11.0 behind uvx --from is a version.
            if equals and not text.startswith("=") and _NAMED.match(argument.text):
                prefix[name] = Value(text=text, unresolved=argument.unresolved)
        changing = name_changing(texts)
        container = find_container(texts[:own])
        arguments, texts = arguments[own:], texts[own:]
        if not texts:
            return
        tokens.spend_step(tokens.COMMAND)
        environment = self.scope.environment() | prefix
        if docker_run.start(texts) is not None:
            self.found.commands.append(docker_run.read(arguments, environment=environment))
        elif engine_start(texts) is not None:
            self._engine(arguments, environment, ignored=changing, container=container)
        elif (script := shell_script(texts)) is not None:
            if find(texts) is not None:
                self._engine(arguments, environment, ignored=changing, container=container)
            elif launch_in(script):
                self._read_nested(script, arguments[0].offset)
        elif program(texts[0]) in _CARRIERS or self._enters_pod(texts):
            carrier = program(texts[0])
            ignored = carrier if carrier in _CONTAINERS else ""
            self._read_carried(arguments, texts, ignored=ignored)
        elif (hosts := find_hosts(texts)) is not None:
            self.found.clusters.append((hosts, texts, arguments[0].offset))
        elif names := [text for text in texts[:2] if text.endswith(".sh")]:
            has_launch = self._read_carried(arguments, texts, ignored=names[0])
            if not has_launch:
                self.found.scripts.append((names[0], arguments[0].offset))

    def _enters_pod(self, texts: list[str]) -> bool:
        return program(texts[0]) in _POD_TOOLS and "exec" in texts[1:4]

    def _read_carried(
        self, arguments: list[Argument], texts: list[str], *, ignored: str = ""
    ) -> bool:
        """Whether there was a launch in it; each says that `ignored` stood around it."""
        at = len(self.found.commands)
        self._find_carried(arguments, texts)
        made = self.found.commands[at:]
        if ignored:
            made = [replace(each, ignored=(*each.ignored, ignored)) for each in made]
            self.found.commands[at:] = made
        return bool(made)

    def _find_carried(self, arguments: list[Argument], texts: list[str]) -> None:
        _look_at_each_rest(texts)
        for position in range(1, len(texts)):
            rest = texts[position + wrappers(texts[position:]) :]
            if engine_start(rest) or docker_run.start(rest) or find(rest):
                self._launch(arguments[position:], {})
                return
            if launch_in(texts[position]):
                self._read_nested(texts[position], arguments[position].offset)

    def _read_nested(self, script: str, offset: int, scope: Scope | None = None) -> None:
        line = self._first_line + self.text.count("\n", 0, offset)
        tokens.spend_step(1 + len(script) // 8)
        self.found.commands.extend(self._read_text(script, scope or self.scope.copy(), line))

    def _engine(
        self,
        arguments: list[Argument],
        environment: dict[str, Value],
        *,
        ignored: tuple[str, ...],
        container: str,
    ) -> None:
        unresolved: list[str] = []
        for value in environment.values():
            unresolved += value.unresolved
        for argument in arguments:
            unresolved += argument.unresolved
            docker_run.check_complete(argument)
        words = tuple(argument.text for argument in arguments)
        started = find(words)
        file = self.scope.values.get(_ENV_FILE)
        self.found.commands.append(
            LaunchCommand(
                kind="engine_command",
                engine=started[0] if started else None,
                command=words,
                env={name: value.text for name, value in environment.items()},
                env_file=(file.text.removeprefix("-"),) if file else (),
                name=container or None,
                unresolved=tuple(dict.fromkeys(unresolved)),
                ignored=ignored,
            )
        )

    def _refuse_assembled(self, words: list[Word], arguments: list[Argument]) -> None:
        """Raises ShellError where a variable, not a word, says which command to run."""
        name = self._raw(words[0])
        used = (
            words[1:] if name == "eval" or shell_script([a.text for a in arguments]) else words[:1]
        )
        for word in used:
            piece = word.pieces[0] if len(word.pieces) == 1 else None
            pieces = [p for p in word.pieces if isinstance(p, Variable)]
            if name == "eval" and pieces or (isinstance(piece, Variable) and self._holds(piece)):
                raise ShellError(
                    f"the command is assembled in the variable {pieces[0].raw}; "
                    "paste the command itself.",
                    word.offset,
                    is_certain=True,
                )

    def _holds(self, variable: Variable) -> bool:
        value = self.scope.values.get(variable.name)
        return value is not None and launch_in(value.text) is not None

    def _assignment(self, word: Word, *, quoted: bool = False) -> tuple[str, Value, bool] | None:
        """Name, value and whether it is added, of a word NAME=value; also "NAME=value"."""
        first = word.pieces[0] if word.pieces else None
        if not isinstance(first, Text) or (first.quoted and not quoted):
            return None
        match = _NAMED.match(first.text)
        if match is None:
            return None
        rest = replace(first, text=first.text[match.end() :])
        return match[1], self.scope.value([rest, *word.pieces[1:]]), bool(match[3])

    def _declare(self, command: list[Word | ArrayAssignment], *, exports: bool) -> None:
        for item in command:
            if isinstance(item, ArrayAssignment):
                self._set_array(item)
                continue
            assigned = self._assignment(item, quoted=True)
            if assigned is not None:
                self._set(assigned[0], assigned[1], item.offset)
            if exports and not self._raw(item).startswith("-"):
                self.scope.export(assigned[0] if assigned else self._raw(item))

    def _set(self, name: str, value: Value, offset: int) -> None:
        self.found.assigned.append(offset)
        if launch_in(value.text):
            self.found.assembled.append(offset)
        if self._is_conditional:
            self.scope.forget(name)
        else:
            self.scope.set(name, value)

    def _add(self, name: str, value: Value) -> None:
        """NAME+=value."""
        if self._is_conditional:
            self.scope.forget(name)
        else:
            self.scope.set(name, value, adds=True)

    def _set_array(self, assignment: ArrayAssignment) -> None:
        self.found.assigned.append(assignment.offset)
        if self._is_conditional:
            self.scope.forget(assignment.name)
        else:
            self.scope.set_array(assignment)

    def _set_options(self, words: list[Word]) -> None:
        options = [self._raw(word) for word in words]
        if len(words) > 2 and re.fullmatch(r"-\w*x", options[0]) and _NAME.fullmatch(options[1]):
            # fish: set -x NAME value
            self._set(options[1], self.scope.value(words[2].pieces), words[1].offset)
            self.scope.export(options[1])
            return
        if "allexport" in options or any(re.match(r"[-+]\w*a", option) for option in options):
            self.scope.exports_all = options[0].startswith("-")

    def _here_document(self, document: HereDocument) -> None:
        body = document.body
        scope = self.scope.copy()
        if document.is_literal:
            scope.values = self.scope.environment()
        else:
            body = body.replace("\\\\\n", "\\\n").replace("\\$", "$")
        self._read_nested(body, document.offset, scope)

    def _raw(self, word: Word) -> str:
        return self.text[word.offset : word.end]

    def _error(self, error: ShellError) -> PasteError:
        offset = min(error.offset, len(self.text))
        before = self.text.rfind("\n", 0, offset) + 1
        line = self._first_line + self.text.count("\n", 0, offset)
        return PasteError(error.reason, line=line, column=offset - before + 1)


def _look_at_each_rest(texts: list[str]) -> None:
    """Count that a command is looked for behind each of its words, in all that follow."""
    tokens.spend_step(1 + len(texts) * len(texts) // 64)
