"""Kinds of lines in a paste: a launch, another command, or prose."""

import re
from enum import Enum

from servers.launch.commandline import budget
from servers.launch.commandline.docker_options import TOOLS

_TOOL = r"(?:nvidia-docker|docker|podman|nerdctl)(?:\.exe)?"
# A launch anywhere in a text; matched at a place it must begin there.
LAUNCH = re.compile(
    rf"(?:[\w./~${{}}\\-]{{0,200}}[/\\])?{_TOOL}\s+(?:-\S+\s+(?:[^-\s]\S*\s+)?)*(?:container\s+)?(?:run|create)\b"
    r"|(?:[\w./~${}\\-]{0,200}[/\\])?(?:vllm|sglang)(?:@[\w.]+)?\s+serve\b"
    r"|\S{0,200}(?:python[\d.]*|\$\{?\w*\}?)[\"']?\s+(?:-\w+\s+)*-m\s*(?:vllm\.entrypoints|sglang\.launch|sglang\.cli)"
    r"|\S{0,200}(?:vllm/entrypoints/\S*api_server|sglang/launch_server)\.py"
    r"|(?:[\w./~${}\\-]{0,200}[/\\])?llama-server(?:\.exe)?(?=\s|$)"
)
_NAMES = re.compile(r"docker|podman|nerdctl|vllm|sglang|llama-server")  # one is in every launch
_BEHIND = re.compile(
    rf"(?:&&|;)\s*(?:sudo\s+|nohup\s+|exec\s+|[A-Z_]+=\S+\s+)*(?:{LAUNCH.pattern})"
)
_ASSIGNMENT = re.compile(
    r"(?:(?:export|declare|typeset|local|readonly)\s+(?:-\w+\s+)*)?[A-Za-z_]\w*(?:\[\w*\])?\+?=(?![=>])"
)
_PROGRAMS = """
docker nvidia-docker podman nerdctl vllm sglang llama-server llama-server.exe python python3
python3.9 python3.10 python3.11 python3.12 python3.13 sudo doas nohup time exec command env nice
ionice chrt setsid stdbuf unbuffer numactl taskset timeout tini dumb-init systemd-run screen uvx uv
poetry pipenv pdm rye hatch pixi conda mamba micromamba bash sh zsh dash eval docker.exe
"""
_OTHERS = """
export declare typeset local readonly unset set source . cd : if then else elif fi for while until
do done alias case esac select function { } ( [ [[ test echo printf cat tee curl wget jq sed awk ssh hf
huggingface-cli tmux srun flock nsys ncu strace gdb caffeinate xvfb-run pm2 kubectl oc wsl wsl.exe
proxychains proxychains4 git pip pip3 mkdir rm kill sleep activate setx trap wait exit grep read shift chmod
"""
PROGRAMS = frozenset(_PROGRAMS.split())
OTHERS = frozenset(_OTHERS.split())
_DOS_START = re.compile(r"start\s+(?:\"|/\w)", re.IGNORECASE)
_FIRST = re.compile(r"[^\s;&|]+")
_PATH = re.compile(r"(?:\.{1,2}|~|[A-Za-z]:)?[\w.-]*[/\\][\w./\\-]+$|[\"']?\$")

_IN_SENTENCES = """the is are your you can will this that which with and to an command commands flags options
    supports accepts needs starts runs"""
_SENTENCE = frozenset(_IN_SENTENCES.split())


class LineKind(Enum):
    LAUNCH = "a program that may start an engine"
    ASSIGNMENT = "a variable is set"
    OTHER = "another command"
    PROSE = "no command"


def launch_in(text: str) -> re.Match[str] | None:
    """The first launch anywhere in a text."""
    if _NAMES.search(text) is None:
        return None
    # It is looked for at every letter, as far ahead as the word goes on.
    budget.step(1 + sum(len(word) * min(len(word), 200) for word in text.split()) // 8)
    return LAUNCH.search(text)


def start_of(line: str) -> LineKind:
    """What the line begins with, prompts and bullets taken off before."""
    line = line.lstrip(" \t({!&")
    first = _FIRST.match(line)
    if first is None or line.startswith(("#", "\0")):
        return LineKind.PROSE
    if _NAMES.search(line):
        budget.step(40 * (line.count("&&") + line.count(";")))
        if _BEHIND.search(line):
            return LineKind.LAUNCH
    if _ASSIGNMENT.match(line):
        return LineKind.ASSIGNMENT
    word = first[0]
    if word in PROGRAMS or _PATH.match(word.strip("\"'")) or word[0] == "$":
        return LineKind.PROSE if is_prose(line) else LineKind.LAUNCH
    if word in OTHERS or _DOS_START.match(line) or re.match(r"\w+\(\)", word):
        return LineKind.OTHER
    return LineKind.PROSE


def is_prose(line: str) -> bool:
    """Whether a line that begins like a command is a sentence about it."""
    words = line.split()
    if _SENTENCE.intersection(words[2:3]):
        return True
    if len(words) < 4 or any(word.startswith("-") for word in words):
        return False
    if _SENTENCE.intersection(words[1:]):
        return True
    return words[-1][-1] in ".:!?,;" and not any("/" in word or "=" in word for word in words[1:])


def begins_other(words: list[str]) -> bool:
    """Whether these words are what guides do after a launch: docker logs …, curl http://…"""
    following = words[1] if len(words) > 1 else ""
    if words and words[0] in TOOLS:
        return following in ("logs", "ps", "stop", "rm", "exec", "pull")
    return (
        bool(words)
        and words[0] == "curl"
        and re.match(r"['\"]?(?:https?:|-)", following) is not None
    )
