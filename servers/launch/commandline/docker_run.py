"""`docker run` and its kin: which words are options, which is the image, which the command."""

import csv
import difflib
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from servers.launch import numbers
from servers.launch.commandline import docker_options
from servers.launch.commandline.docker_options import Option
from servers.launch.commandline.engine_words import engine_of, program
from servers.launch.commandline.tokens import LaunchCommand, ShellError
from servers.launch.commandline.variables import ALWAYS_SET, Argument, Value

_IMAGE = re.compile(r"(?=[\w$<{\[(])(?:\{\{[^{}]*\}\}|[^\s,;|&='])*(?<![:/@])\Z")
_CUT = re.compile(r"--\w[\w-]*-|[\w.-]+/[\w./-]*-")  # a line was broken at a hyphen
_LEFT_OUT = ("...", "…", "[...]", "[…]", "[options]", "[args]", "[args...]", "[arg...]")
_ARGUMENTS = re.compile(r"(ARG|OPT|FLAG|PARAM|EXTRA)", re.IGNORECASE)
# Fields that hold the last value, and fields that collect all.
_SINGLE = {each.docker: name for name, each in docker_options.TEXTS.items()} | {
    each: each for each in ("name", "restart", "entrypoint", "network")
}
_MANY = {
    each.docker: name for name, each in docker_options.list_options(*docker_options.LISTS).items()
}
_MANY |= {"volume": "volumes", "publish": "ports", "env-file": "env_file"}
_SWITCHES = {each.docker: name for name, each in docker_options.SWITCHES.items()}


def start(words: Sequence[str]) -> int | None:
    """How many words say "docker run": 2, 3 for `docker container run`, more with options
    between; None if these words do nothing of the kind."""
    if not words or program(words[0]) not in docker_options.TOOLS:
        return None
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in docker_options.GLOBAL_VALUES else 1
    if words[at : at + 1] == ["container"]:
        at += 1
    return at + 1 if words[at : at + 1] in (["run"], ["create"]) else None


def lacks_image(words: Sequence[str]) -> bool:
    """Whether these first words of a `docker run` end before its image."""
    at = start(words)
    if at is None:
        return False
    reader = _DockerRunReader(tool=docker_options.TOOLS[program(words[0])])
    try:
        arguments = [Argument(text=word, offset=0) for word in words]
        return reader.options(arguments, at) >= len(words)
    except ShellError:
        return reader.lacks_value


def read(arguments: list[Argument], *, environment: dict[str, Value]) -> LaunchCommand:
    """A Command from the words of a `docker run`; the offsets of errors are the words'.

    `environment` is what the tool itself would be started with: `-e NAME` takes its value
    from there. Raises ShellError for an unknown option, a bad value, a missing image.
    """
    words = [argument.text for argument in arguments]
    reader = _DockerRunReader(tool=docker_options.TOOLS[program(words[0])], environment=environment)
    at = reader.options(arguments, start(words) or 0)
    if at >= len(arguments):
        raise ShellError("no image follows the options of this command.", arguments[0].offset)
    image = arguments[at]
    for argument in arguments[at:]:
        check_complete(argument)
    reader.check_image(image, arguments[at + 1 :])
    for argument in arguments[at:]:
        reader.name(argument.unresolved)
    command = tuple(argument.text for argument in arguments[at + 1 :])
    entrypoint = reader.single.get("entrypoint")
    return LaunchCommand(
        kind="docker_run",
        engine=engine_of(image=image.text, entrypoint=entrypoint, command=command),
        image=image.text,
        command=command,
        env=reader.env,
        ulimits=reader.ulimits,
        gpus=reader.gpus,
        unresolved=tuple(dict.fromkeys(reader.unresolved)),
        ignored=tuple(reader.ignored),
        **reader.fields(),  # type: ignore[arg-type]
    )


def check_complete(argument: Argument) -> None:
    """Raises ShellError for a word that only says that words are left out."""
    if argument.text.lower() in _LEFT_OUT:
        raise ShellError("words are left out here; write them in full.", argument.offset)
    if _CUT.fullmatch(argument.text):
        raise ShellError(
            f"“{argument.text}” is cut off; join it with the next line.", argument.offset
        )


@dataclass
class _DockerRunReader:
    tool: str
    environment: dict[str, Value] = field(default_factory=dict)
    single: dict[str, str] = field(default_factory=dict)
    many: dict[str, list[str]] = field(default_factory=dict)
    switches: dict[str, bool] = field(default_factory=dict)
    env: dict[str, str | None] = field(default_factory=dict)
    ulimits: dict[str, str] = field(default_factory=dict)
    gpus: str | int | tuple[str, ...] | None = None
    unresolved: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    lacks_value: bool = False

    def fields(self) -> dict[str, str | bool | tuple[str, ...]]:
        many = {name: tuple(values) for name, values in self.many.items()}
        return {**self.single, **self.switches, **many}

    def name(self, names: tuple[str, ...]) -> None:
        self.unresolved += names

    def options(self, arguments: list[Argument], at: int) -> int:
        """Read options from the word at `at`; where the image stands. Raises ShellError."""
        while at < len(arguments):
            word = arguments[at]
            if word.text == "--":
                return at + 1
            if not word.text.startswith("-") or word.text == "-":
                return at
            is_long = word.text.startswith("--")
            at = self._long(arguments, at) if is_long else self._cluster(arguments, at)
        return at

    def _long(self, arguments: list[Argument], at: int) -> int:
        word = arguments[at]
        name, equals, value = word.text[2:].partition("=")
        option = self._find_option(name, word)
        if not option.takes_value:
            self._switch(option, value, written=word.text)
            return at + 1
        if equals:
            self._take(option, word, value, written=_write_option(f"--{name}=", value))
            return at + 1
        following = self._value_after(arguments, at)
        self._take(
            option, following, following.text, written=_write_option(f"--{name} ", following.text)
        )
        return at + 2

    def _cluster(self, arguments: list[Argument], at: int) -> int:
        """Short options: -it, -p8000:8000, -itp 8000:8000, -e=K=V."""
        word = arguments[at]
        letters = word.text[1:]
        switches = ""
        for position, letter in enumerate(letters):
            option = self._find_option(letter, word)
            if not option.takes_value:
                switches += letter
                if letters[position + 1 : position + 2] == "=":
                    switches = letters
                    break
                continue
            if switches:
                self.ignored.append(f"-{switches}")
            value = letters[position + 1 :].removeprefix("=")
            if value:
                self._take(option, word, value, written=_write_option(f"-{letter}", value))
                return at + 1
            following = self._value_after(arguments, at)
            self._take(
                option,
                following,
                following.text,
                written=_write_option(f"-{letter} ", following.text),
            )
            return at + 2
        self.ignored.append(f"-{switches}")
        return at + 1

    def _find_option(self, name: str, word: Argument) -> Option:
        option = docker_options.option(self.tool, name)
        if option is not None:
            return option
        dashes = "-" if len(name) == 1 else "--"
        near = difflib.get_close_matches(name, docker_options.names(self.tool), 1)
        hint = f" Is --{near[0]} meant?" if near else ""
        raise ShellError(f"{self.tool} run has no option {dashes}{name}.{hint}", word.offset)

    def _value_after(self, arguments: list[Argument], at: int) -> Argument:
        if at + 1 < len(arguments):
            return arguments[at + 1]
        self.lacks_value = True
        raise ShellError(f"{arguments[at].text} needs a value.", arguments[at].offset)

    def _switch(self, option: Option, value: str, *, written: str) -> None:
        if option.name in _SWITCHES:
            self.switches[_SWITCHES[option.name]] = value.lower() not in ("false", "0", "f")
        else:
            self.ignored.append(written)

    def _take(self, option: Option, word: Argument, value: str, *, written: str) -> None:
        if option.name in _SINGLE:
            self.single[_SINGLE[option.name]] = value
        elif option.name in _MANY:
            self.many.setdefault(_MANY[option.name], []).append(value)
        elif option.name == "env":
            self._take_env(value, word)
        elif option.name == "ulimit":
            name, equals, limit = value.partition("=")
            if not equals:
                raise ShellError(f"“{value}” is not name=number, such as memlock=-1.", word.offset)
            self.ulimits[name] = limit
        elif option.name == "gpus":
            self.gpus = gpus(value, word.offset)
        elif option.name == "mount" and (volume := _parse_mount(value)) is not None:
            self.many.setdefault("volumes", []).append(volume)
        else:
            self.ignored.append(written)
            return
        self.name(word.unresolved)

    def _take_env(self, value: str, word: Argument) -> None:
        name, equals, text = value.partition("=")
        if not name:
            raise ShellError(f"“{value}” names no variable.", word.offset)
        if equals:
            self.env[name] = text
        elif name in self.environment:
            self.env[name] = self.environment[name].text
            self.name(self.environment[name].unresolved)
        else:
            self.env[name] = None
            self.name(() if name in ALWAYS_SET else (name,))

    def check_image(self, image: Argument, following: list[Argument]) -> None:
        """Raises ShellError if this word cannot be the image, or may stand for options."""
        if image.is_open:
            follower = following[0].text if following else ""
            is_command = image.text.startswith(("$(", "`"))
            if (
                any(_ARGUMENTS.search(name) for name in image.unresolved)
                or self._is_option(follower)
                or (is_command and re.search(r"[/:]", follower))
                or "[@]" in image.text
            ):
                raise ShellError(
                    f"options may hide in {image.text}, which has no value here.", image.offset
                )
        is_path = ":/" in image.text and "{{" not in image.text
        if (is_path or not _IMAGE.match(image.text)) and not image.unresolved:
            raise ShellError(f"“{image.text}” is not an image's name.", image.offset)

    def _is_option(self, word: str) -> bool:
        """Whether a word is an option of the tool and of no engine."""
        if not word.startswith("--"):
            return bool(re.match(r"-(?:[ditP]{1,3}$|[vpe](?:[^=]*[:=]|$))", word))
        name, _, value = word[2:].partition("=")
        if name in ("device", "help"):
            return value.startswith("/dev")
        return docker_options.option(self.tool, name) is not None


def _write_option(option: str, value: str) -> str:
    return option + shlex.quote(value)


def gpus(text: str, offset: int) -> str | int | tuple[str, ...] | None:
    """What --gpus says: "all", a number, ids, or the text itself if a variable stands for it.

    Source: docker's opts/gpus.go; "device=0,1" without the inner quotes is read as it is meant.
    Raises ShellError.
    """
    cleaned = text.strip().strip("'\"")
    if "$" in cleaned and "=" not in cleaned:
        return text
    if cleaned == "device=all":
        return "all"
    if cleaned.startswith("device=") and ("$(" in cleaned or "`" in cleaned):
        return (cleaned.removeprefix("device="),)
    if cleaned.startswith("device="):
        ids = re.split(r"[\"']?,[\"']?(?=\w+=)", cleaned.removeprefix("device="))[0]
        return tuple(part.strip() for part in ids.strip("'\"").split(",") if part.strip())
    for part in _fields(text.strip()):
        key, equals, value = part.strip("'\" ").partition("=")
        if key == "device":
            return tuple(value.split(","))
        if key == "count" or not equals:
            return _count(value if equals else key, offset)
    return "all"


def _fields(text: str) -> list[str]:
    """The parts between commas, which quotation marks may hold together, as Docker cuts them."""
    return next(csv.reader([text.replace("\n", " ")]))


def _count(text: str, offset: int) -> str | int:
    if text in ("all", "-1"):
        return "all"
    if (count := numbers.whole(text)) is None:
        raise ShellError(f"“{text}” is not all, a number, or device=0,1.", offset)
    return count


def _parse_mount(text: str) -> str | None:
    """--mount as src:dst[:mode]; None for what that form cannot say, such as a tmpfs."""
    parts: dict[str, str] = {}
    for part in _fields(text):
        key, _, value = part.partition("=")
        parts[key.strip().lower()] = value.strip()
    source = parts.pop("source", parts.pop("src", ""))
    target = parts.pop("target", parts.pop("dst", parts.pop("destination", "")))
    kind = parts.pop("type", "volume")
    read_only = [parts.pop(key) for key in ("readonly", "ro") if key in parts]
    modes = ["ro"] if read_only and read_only[0] not in ("false", "0") else []
    modes += [parts.pop("bind-propagation")] if "bind-propagation" in parts else []
    parts.pop("consistency", None)
    if kind not in ("bind", "volume") or parts or not source or not target:
        return None
    return ":".join([source, target, *([",".join(modes)] if modes else [])])
