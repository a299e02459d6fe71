"""Rules on a profile's Dockerfile and the files beside it. Pure.

It is read by the rules of Docker's own parser (moby/buildkit, frontend/dockerfile/parser). Where
its versions differ, or a reader and a parser might, the Dockerfile is refused.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from servers.judge.messages import say

LONGEST = 64 << 10  # characters of a Dockerfile
LONGEST_FILE = 256 << 10
LONGEST_FILES = 1 << 20  # of all together: a build here has no folder of its own
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
# All but ADD and ONBUILD, which have sentences of their own.
_KNOWN = frozenset(
    ("ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL",
     "MAINTAINER", "RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR")
)  # fmt: skip
_CONTINUED = re.compile(r"\\[ \t]*\Z")
_TWICE = re.compile(r"\\\\[ \t]*\Z")
_BLANKS = re.compile(r"[ \t]+")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_ESCAPE = re.compile(r"#\s*escape\s*=", re.IGNORECASE)
_HEREDOC = re.compile(r"\d*<<-?[^<]")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))", re.ASCII)
_PLAIN = re.compile(r"[A-Za-z0-9._/:@+-]*\Z")


@dataclass(frozen=True, kw_only=True)
class _Stage:
    """A FROM, on the lines first..last."""

    first: int
    last: int
    flags: tuple[str, ...]
    image: str  # its variables filled in; the name of an earlier stage where is_stage
    others: tuple[str, ...]  # AS name
    is_stage: bool


def instructions(text: str) -> list[tuple[int, str, str]]:
    """Line, instruction in capitals and what follows it, with continued lines joined; without
    comments."""
    return [(first, word, rest) for first, _last, word, rest in _spans(text)]


def _spans(text: str) -> list[tuple[int, int, str, str]]:
    """The same with the last line of each behind the first."""
    found: list[tuple[int, int, str, str]] = []
    gathered, began, last = "", 0, 0
    # Not splitlines(), for which more ends a line than for Docker.
    for number, line in enumerate(_lines(text), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        last = number
        if not gathered:
            began, line = number, line.lstrip()
        if (end := _CONTINUED.search(line)) is not None:
            gathered += line[: end.start()]
            continue
        found += _split_lines(began, last, gathered + line)
        gathered = ""
    return found + _split_lines(began, last, gathered)


def _lines(text: str) -> list[str]:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")


def _split_lines(first: int, last: int, whole: str) -> list[tuple[int, int, str, str]]:
    word, *rest = _BLANKS.split(whole.strip(), maxsplit=1)
    return [(first, last, word.upper(), rest[0] if rest else "")] if word else []


def base(text: str) -> str:
    """The image that the last stage begins with; "" for none, and where an ARG names it."""
    named = [rest for _line, word, rest in instructions(text) if word == "FROM"]
    words = _without_flags(named[-1]) if named else []
    return words[0] if words and "$" not in words[0] else ""


def bases(text: str) -> list[str]:
    """Every image that a stage begins with. Raises ValueError, with a sentence, where nobody can
    tell which one it is."""
    found = [each.image for each in _stages(text) if not each.is_stage and each.image != "scratch"]
    return list(dict.fromkeys(found))


def pin_images(text: str, ids: Mapping[str, str]) -> str:
    """The same Dockerfile, with every image that a stage begins with by its id (sha256:…).

    A name may mean another image by the time that Docker builds. Lines keep their numbers. Raises
    KeyError for an image that `ids` does not have, and ValueError as `bases` does.
    """
    lines = _lines(text)
    for each in _stages(text):
        image = each.image if each.is_stage or each.image == "scratch" else ids[each.image]
        written = " ".join(["FROM", *each.flags, image, *each.others])
        # Within a continued instruction an empty line is one that Docker passes over.
        lines[each.first - 1 : each.last] = [written, *[""] * (each.last - each.first)]
    return "\n".join(lines)


def _stages(text: str) -> list[_Stage]:
    """Raises ValueError, with a sentence."""
    defaults: dict[str, str] = {}
    names: set[str] = set()
    found: list[_Stage] = []
    for first, last, word, rest in _spans(text):
        if word == "ARG" and not found:
            name, _equals, value = rest.partition("=")
            defaults[name.strip()] = _unquote(value.strip())
        if word != "FROM":
            continue
        words = _without_flags(rest)
        flags = rest.split()[: len(rest.split()) - len(words)]
        image, *others = words or [""]
        image = _fill_arguments(image, defaults)
        if not image or not _PLAIN.match(image):
            raise ValueError(say("images.dockerfile-base-unknown", line=first).text)
        is_stage = image.casefold() in names
        found.append(
            _Stage(
                first=first,
                last=last,
                flags=tuple(flags),
                image=image,
                others=tuple(others),
                is_stage=is_stage,
            )
        )
        if len(others) == 2 and others[0].upper() == "AS":
            names.add(others[1].casefold())
    return found


def _without_flags(rest: str) -> list[str]:
    words = rest.split()
    while words and words[0].startswith("--"):
        words.pop(0)
    return words


def _unquote(value: str) -> str:
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if is_quoted else value


def _fill_arguments(image: str, defaults: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda name: defaults.get(name[1] or name[2], ""), image)


def faults(text: str, files: Mapping[str, str]) -> list[str]:
    """What keeps it from being built, a sentence each; empty when nothing does."""
    return [*_of_text(text), *_of_files(text, files)]


def faults_of_base(image: str, triggers: Sequence[str]) -> list[str]:
    """The same of an image that it begins with; `triggers` are what that has as ONBUILD."""
    return [
        f"{say('images.dockerfile-trigger', image=image, trigger=each[:200])} {why}"
        for each in triggers
        for why in _of_instructions(each)
    ]


def _of_text(text: str) -> list[str]:
    if len(text) > LONGEST:
        return [say("images.dockerfile-too-long", kib=LONGEST >> 10).text]
    said = _of_lines(text)
    found = instructions(text)
    first = next((word for _line, word, _rest in found if word != "ARG"), "")
    if first != "FROM":
        said.append(say("images.dockerfile-no-from").text)
    said += _of_instructions(text)
    try:
        bases(text)
    except ValueError as error:
        said.append(str(error))
    return said


def _of_lines(text: str) -> list[str]:
    """Of what is read otherwise by other versions of Docker, or by people."""
    said = []
    for number, line in enumerate(_lines(text), start=1):
        if _CONTROL.search(line):
            said.append(say("images.dockerfile-control-character", line=number).text)
        if _ESCAPE.match(line.strip()):
            said.append(say("images.dockerfile-escape", line=number).text)
        if _TWICE.search(line) and not line.lstrip().startswith("#"):
            said.append(say("images.dockerfile-two-backslashes", line=number).text)
    return said


def _of_instructions(text: str) -> list[str]:
    said = []
    for line, word, rest in instructions(text):
        if word == "ADD":
            # Docker's daemon would fetch an address, from where containers may not reach, and
            # what is an address can hang on variables.
            said.append(say("images.dockerfile-add", line=line).text)
        elif word == "ONBUILD":
            said.append(say("images.dockerfile-onbuild", line=line).text)
        elif word not in _KNOWN:
            code = "images.dockerfile-instruction-unknown"
            said.append(say(code, line=line, word=word[:40]).text)
        elif word in ("RUN", "COPY") and any(map(_HEREDOC.match, rest.split())):
            said.append(say("images.dockerfile-heredoc", line=line).text)
    return said


def _of_files(text: str, files: Mapping[str, str]) -> list[str]:
    said = []
    for name, content in files.items():
        if not _NAME.match(name) or name.casefold() in ("dockerfile", ".dockerignore"):
            said.append(say("images.build-file-name", name=name[:60]).text)
        if len(content.encode()) > LONGEST_FILE:
            code = "images.build-file-too-large"
            said.append(say(code, name=name, kib=LONGEST_FILE >> 10).text)
    if sum(len(each.encode()) for each in files.values()) > LONGEST_FILES:
        said.append(say("images.build-files-too-large", mib=LONGEST_FILES >> 20).text)
    for line, word, rest in instructions(text):
        if word != "COPY" or "--from" in rest or rest.startswith("["):
            continue
        for source in _without_flags(rest)[:-1]:
            plain = source.removeprefix("./")
            if not set("*?[$") & set(plain) and plain not in ("", ".", *files):
                said.append(say("images.build-file-missing", line=line, name=plain).text)
    return said
