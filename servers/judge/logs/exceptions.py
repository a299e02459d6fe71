"""Exceptions in a log: which line ends one, where it was raised, and which one ended the engine."""

import re
from collections.abc import Sequence

from servers.judge.logs import parsing
from servers.judge.logs.evidence import BARE, EvidenceLine, EvidenceLog

_EXCEPTION = re.compile(
    r"(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{0,60}?"
    r"(?:Error|Exception|Failure|Exit|OutOfResources|Timeout|Interrupt|Dead|Died|Empty|Expired|"
    r"Unsupported|CompilerFailed|StopIteration)(?:\([\w.]{1,60}\))?(?=:|$)"
)
_NO_FAULT = re.compile(r"(?:KeyboardInterrupt|SystemExit|GeneratorExit|.{0,60}CancelledError)\b")
# How the ends of other processes look from here, and what says only that another text follows.
_FALLOUT = re.compile(
    r"(?:EOFError|BrokenPipeError|ConnectionResetError|ConnectionRefusedError|ChildProcessError|"
    r"(?:zmq\.)\S{0,60}|torch\.distributed\.elastic\.\S{0,80}ChildFailedError|"
    r"(?:_?queue\.)?Empty|TimeoutError$|subprocess\.CalledProcessError|(?:\S{0,60}\.)?EngineDeadError|"
    r"RuntimeError: (?:cancelled|DataLoader worker|Rank \d+ scheduler died|Worker failed with error|"
    r"Engine process failed|Engine core initialization failed|cannot schedule new futures|"
    r"Error raised in subprocess|Background loop)|"
    r"Exception: (?:Call to \w+ method failed|WorkerProc )|"
    # Of an executor that is taken down before it was whole.
    r"AttributeError: '\w{0,20}Executor' object has no attribute '(?:workers|io_thread_pool)'|"
    # Its own words stand in the next line.
    r"pydantic_core\.\S{0,60}ValidationError: )"
)
# Of one request, which the client is told of; the server goes on.
_OF_REQUEST = re.compile(
    r"maximum context length is|(?:^|\.)BadRequestError\b|RequestValidationError\b|"
    r"VLLMValidationError\b|[Pp]rompt .{0,40}(?:is too long|is longer than|exceeds)|"
    r"At most \d+ \S{1,20} may be provided|\bmax_tokens must be|is out of vocabulary|"
    r"input is too long|Input length .{0,60}exceeds|client (?:has )?disconnected|ClientDisconnect"
)
_REQUEST_PLACE = re.compile(
    r"/entrypoints/(?:\w{1,40}/){0,4}(?:serving|protocol|\w{1,20}_api)\w{0,40}\.py|/sampling_params\.py"
)
# Functions that run before the server answers: what they call is of no request.
_OF_START = re.compile(
    r", in (?:init_app_state|run_server\w{0,20}|init_static_loras|launch_server)$"
)
_PYDANTIC = re.compile(
    r"\s{1,4}(?:(?:Value error|Assertion failed), |.{1,300}\[type=\w{1,60}, input_value=)"
)
_WHAT = re.compile(r"\s{0,4}what\(\): {1,4}\S")
# Python tells of these and goes on.
_NAMED = re.compile(r"\w(?:Error|Exception)\b|^\s{1,4}(?:Value error|Assertion failed), ")
_WHAT_IS = re.compile(r"^what\(\): +")
_IGNORED = re.compile(
    r"Exception ignored in|Exception in thread|Task exception was never retrieved"
)

LAST_LINES = 5  # in which a log that breaks off tells why
_LAST_WORD = re.compile(
    r"^(?i:(?:fatal )?error|fatal|panic)(?: ?\d{0,6})?: |\[(?:ERROR|FATAL)\]|"
    r": (?:Permission denied|Read-only file system|Operation not permitted|No such file or directory|"
    r"No space left on device|Exec format error|Cannot allocate memory)(?: \(os error \d+\))?\.?$|"
    r"^[\w./-]{1,80}: .{0,80}(?:(?:unknown|unrecognized|invalid|illegal) (?:argument|option|flag)|[Ff]atal error)"
)
# Says once more what it was raised from.
_REPEATS = re.compile(r"Exception: Capture (?:cuda|CUDA) graph failed: ")
_REST = 4  # lines below a name, among which its message begins
_FILE = re.compile(
    r'\s*File (?:"(?P<path>[^"]{1,500})", line |(?P<note>[^\s":]{1,500}):)(?P<line>\d{1,7})'
    r"(?:, in (?P<name>[^\s(]{1,80}))?"
)
_PACKAGES = re.compile(
    r".*(?:/(?:site|dist)-packages/|/sglang/python/(?=sglang/)|/(?=(?:vllm|sglang)\w*/(?:[\w.]+/)*[\w.]+$))"
)
_OURS = re.compile(r"(?:vllm|sglang|sgl_kernel)\w*/")


def is_exception(line: EvidenceLine) -> bool:
    """Whether it ends the traceback of an exception that says something of its own."""
    if line.is_quiet:
        return False
    text = line.searched
    if _PYDANTIC.match(text) or _WHAT.match(text):
        return True
    if not (line.is_raised or _EXCEPTION.match(text)):
        return False
    if _OF_REQUEST.search(text) or _is_at_request(line):
        return False
    return not _NO_FAULT.match(text) and not _FALLOUT.match(text)


def _is_at_request(line: EvidenceLine) -> bool:
    """Whether it was raised where a request is read. The engine's start runs some of that too."""
    if not _REQUEST_PLACE.search(explain_place(line)):
        return False
    return not any(map(_OF_START.search, list_frames(line)))


def is_last_word(line: EvidenceLine) -> bool:
    """Whether it is how programs other than Python's say that they cannot go on."""
    return bool(_LAST_WORD.search(line.text)) and not (
        _OF_REQUEST.search(line.text) or is_frame(line)
    )


def is_frame(line: EvidenceLine) -> bool:
    """Whether it is a place of a traceback: of itself it says nothing."""
    return bool(_FILE.match(line.text))


def names_one(line: EvidenceLine) -> bool:
    """Whether it is an exception, or another line that quotes one."""
    return line.is_raised or bool(_NAMED.search(line.searched))


def pick_fatal(exceptions: Sequence[EvidenceLine], log: EvidenceLog) -> EvidenceLine | None:
    """The exception that says most of the end: the last one of the first chain; None of none.

    Exceptions that were raised while an earlier one was handled belong to its chain.
    """
    ends = [line for line in exceptions if not _is_ignored(line, log)] or list(exceptions)
    if not ends:
        return None
    said = ends[0]
    for later in ends[1:]:
        if later.rank != said.rank or not log.is_chained(said, later):
            break
        if not BARE.match(later.text) and not _REPEATS.match(later.text):
            said = later
    return said


def _is_ignored(line: EvidenceLine, log: EvidenceLog) -> bool:
    start = line.frames_at[0] if line.frames_at else 0
    return any(map(_IGNORED.search, log.texts[max(0, start - 2) : start]))


def quote(line: EvidenceLine, log: EvidenceLog) -> str:
    """What the exception says, in one line: its message may begin below its name."""
    said = _WHAT_IS.sub("", line.searched.strip())
    if said.endswith(":" if line.is_raised else " raised:"):
        rest = (parsing.read(text).text.strip() for text in log.texts[line.position + 1 :][:_REST])
        said = " ".join([said, *filter(None, rest)][:2])
    return said


def explain_place(line: EvidenceLine) -> str:
    """The engine's own frame that raised it, such as "vllm/x.py, line 3, in load"; "": not told."""
    frames = [found for each in line.frames if (found := _FILE.match(each))]
    own = [found for found in frames if _OURS.match(_shorten(found["path"] or found["note"]))]
    last = (own or frames)[-1:]
    return "".join(
        f"{_shorten(found['path'] or found['note'])}, line {found['line']}"
        + (f", in {found['name']}" if found["name"] else "")
        for found in last
    )


def list_frames(line: EvidenceLine) -> list[str]:
    """The frames of its traceback, their paths from the package on: "vllm/x.py, in load"."""
    every = filter(None, map(_FILE.match, line.frames))
    return [f"{_shorten(found['path'] or found['note'])}, in {found['name']}" for found in every]


def _shorten(path: str) -> str:
    """A file's path from its package on."""
    return _PACKAGES.sub("", path)
