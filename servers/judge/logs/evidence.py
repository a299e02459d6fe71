"""A log as the diagnosis reads it: which lines could tell a cause, and what happened around them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import takewhile
from typing import Any, Literal

from servers.judge.logs import parsing
from servers.judge.messages import Sentence, say

# Lines that could tell a cause, from both ends of a log; one that has more repeats itself.
MOST_FIRST, MOST_LAST = 3000, 3000
# Pieces of a line that a progress bar has redrawn: those at its end.
MOST_PIECES = 20

# A line without any of these tells no cause. Lower case.
_TELLING = tuple(
    """error|exception|fail|fatal|abort|assert|traceback|kill|oom|out-of|out_of|out of |cannot|can't
couldn|unable|must|invalid|unsupport|require|timeout|timed|terminat|died|dead|denied|refuse|unknown
missing|mismatch|exceed|already|undefined|watchdog|sigquit|conflict|toomany|unauthorized|unresolv
insufficient|unbalanced|corrupt|illegal|overflow|incomplete|bus error|xid|aer_|descriptor|ptxas|nvcc
cublas|pcie|occupied|magic|dumped|gated|restricted|awaiting|ambiguous|trust_|duplicate|broken|nccl
speculative|fallen|exit code|does not|is not|are not|not |no longer|no such|no |too old|larger than
greater than|less than|smaller than|only support|crash|malformed|leak|lost|hang|fault|exited with|bootstrapping
placement group|what():|/libllama|__cxa_throw|std::terminate|uncaught_|file "|file /|file ~""".replace(
        "\n", "|"
    ).split("|")
)

# What quotes other people's words: arguments, requests, the configuration in a dump.
_ECHO = re.compile(
    r"server_args=|ServerArgs\(|non-default args|Namespace\(|Received request |Receive: obj=|"
    r"Finish: obj=|Dumping (?:input|scheduler)|Initializing an? (?:V\d )?LLM engine|ReqInput\("
)
# The second is how notebooks write it.
_FRAME = re.compile(r'\s*File (?:"[^"]{1,500}", line \d+|[^\s":]{1,500}:\d+, in \w)')
_FRAME_INDENT = 2  # spaces of a frame, as Python writes it
_TRACEBACK = "Traceback (most recent call last)"
# What follows the last frame and its source: the exception, whatever its name.
_RAISED = re.compile(r"(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{0,60}(?:\([\w.]{1,60}\))?(?=:|$)(?!:\w)")
# An exception that may come without a message of its own.
BARE = re.compile(r"(?:AssertionError|NotImplementedError|Exception)(?:: ?)?$")
# One process repeats what another one died of.
_REPEATED = re.compile(
    r"RuntimeError: Worker failed with error '(?P<said>(?:[^']|'(?=\w)).{2,}?)(?:', please .*|'?)$"
)
_RAISE = re.compile(r"raise (?P<name>[A-Za-z_][\w.]{0,80})\((?P<rest>.*)")
# The last one may be cut off.
_QUOTED = re.compile(r"[fr]?\"([^\"]{1,400})(?:\"|$)|[fr]?'([^']{1,400})(?:'|$)")
_IMPORT = re.compile(r"(?:from [\w.]{1,120} )?import [\w.*(]")
_OF_MAIN = re.compile(r'/bin/[^"/]{1,60}", line \d+, in <module>|, in _run_module_as_main')
# llama-server as a router puts the port of each of its servers before their lines.
_ROUTER = re.compile(r"\[\d{4,5}\] (?=\S)")
# What llama-server says of itself first: "build: 6710 (e29acf74) with cc …", "build_info: b8000-1a2b3c4".
_BUILD = re.compile(r"\bbuild(?:_info)?: b?(\d{3,6})[ -]\(?[0-9a-f]{6,12}\b")
_BEFORE_BUILD = re.compile(r"ggml_\w{1,40}_init|load_backend: ")
# llama.cpp goes on with less memory: what it could not get before was no end.
_RETRY = "retrying without pipeline parallelism"
# Lines between a frame and what may follow it: its source, and marks under that.
_WITHIN = 4
_MOST_FRAMES = 200
_WARNS = re.compile(r"\b\w{0,40}Warning: |^\[W\w* |NCCL INFO|^(?:WARNING|INFO|DEBUG)\b")
_CHAIN = re.compile(
    r"During handling of the above exception|direct cause of the following exception"
)
_QUIET = ("DEBUG", "INFO", "WARNING")
_LOUD = re.compile(r"(?:fatal |main: )?error: ", re.IGNORECASE)

# Signs that a process has ended for good, of themselves no cause.
DEATH = re.compile(
    r"Received sigquit from a child proces|SIGQUIT received\. signum=|Scheduler hit an exception|EngineDeadError|"
    r"is already dead|terminating server process|"
    r"EngineCore (?:failed to start|encountered an? (?:fatal error|issue))|"
    r"Engine core initialization failed|Engine process failed to start|died unexpectedly|"
    r"WorkerProc (?:initialization failed|failed to start)|Background loop has errored|"
    r"Engine loop is not running|Fatal Python error|terminate called after throwing|"
    r"RuntimeError: Worker failed with error '|Assertion [`'].{1,400}?' failed\.?$|Segmentation fault|Illegal instruction|core dumped|GGML_ASSERT\(|ggml_abort|Bus error|^Killed$|"
    r"exiting due to (?:model loading|HTTP server) error|scheduler (?:is dead|died)|ggml_uncaught_exception|std::terminate\(\)|"
    r"^\S+\.service: (?:Main process exited, code=(?:exited, status=[1-9]|dumped)|Failed with result)|"
    r"ChildFailedError|Error response from daemon|error: (?:unrecognized|ambiguous|argument|the "
    r"following|invalid argument)|Shutting down .{0,40}because .{0,40}died|"
    r"Initialization failed\. warmup error|DetokenizerManager hit an exception|"
    r"TokenizerManager hit an exception|AsyncLLM output_handler failed|^(?:CUDA|ROCm) error: |^Failed: Cuda error|[Ww]atchdog timeout|Watchdog caught collective"
)

# What may end an engine that serves, or one request of it: what comes after it tells.
MAY_END = re.compile(r"WorkerProc hit an exception")
_LIVES = re.compile(r"\" 200 OK|Avg prompt throughput: (?!0\.0 )")

# How far a start has come, in an order that the engines share.
_MILESTONES = tuple(
    (re.compile(pattern), step)
    for pattern, step in (
        (r"Load weight begin|Starting to load model|load_tensors: ", 1),
        (r"Load weight end|Loading weights took|Model loading took|model buffer size =", 2),
        (r"Dynamo bytecode transform|torch\.compile (?:took|takes)", 3),
        (
            r"KV Cache is allocated|Memory pool end|KV cache size: |# \w+ blocks: \d+|"
            r"llama_kv_cache\w*: +(?:size|CUDA)",
            4,
        ),
        (r"Capture .{0,40}(?:CUDA|cuda) graph end|Graph capturing finished", 5),
        (r"Application startup complete", 6),
        (r"fired up and ready to roll|listening on http", 6),
    )
)
READY = 6
# SGLang's web server says so before its engine has answered a first request.
_TOO_EARLY = {"sglang": "Application startup complete"}

# Somebody ended it: what follows is no failure.
STOP = re.compile(
    r"KeyboardInterrupt|received SIG(?:TERM|INT)|SIGTERM received|shutdown triggered|Shutting down$|"
    r"Received signal (?:2|15)\b|Gracefully exiting|Received exit signal|^\^C"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceLine:
    number: int
    position: int  # in the log as it was read
    text: str  # without prefixes
    lower: str = ""  # what is searched, in lower case
    said: str = ""  # all that it says, where that is more than its text
    rank: str = ""
    is_quiet: bool = True  # it calls itself a warning or less
    is_loud: bool = False  # it calls itself an error
    step: int = 0  # how far the start had come
    is_raised: bool = False  # it stands where a traceback names its exception
    frames: tuple[str, ...] = ()  # of the traceback that it ends, the innermost last
    frames_at: tuple[int, ...] = ()  # their positions

    @property
    def searched(self) -> str:
        return self.said or self.text


@dataclass(kw_only=True)
class _Traceback:
    """The one that a process is writing."""

    frames: list[str] = field(default_factory=list)
    at: list[int] = field(default_factory=list)
    number: int = 0  # of its last frame's line
    indent: int = 0  # spaces before its exception: a logger may have shifted all of it

    def add(self, frame: str, position: int, number: int) -> None:
        self.number = number
        self.indent = max(0, len(frame) - len(frame.lstrip(" ")) - _FRAME_INDENT)
        if len(self.frames) < _MOST_FRAMES:
            self.frames.append(frame.strip())
            self.at.append(position)


@dataclass(kw_only=True)
class EvidenceLog:
    """`texts` is everything that was read, one piece a position."""

    texts: list[str] = field(default_factory=list)
    telling: list[EvidenceLine] = field(default_factory=list)
    milestones: list[tuple[int, int, str]] = field(default_factory=list)  # position, step, rank
    chains: list[int] = field(default_factory=list)  # positions
    ready_at: int | None = None  # position of the last line that says so
    stopped_at: int | None = None  # position of the first line of somebody's stop
    build: str = ""  # the number of the llama.cpp that wrote the last lines; "": not told

    def note_build(self, build: str) -> bool:
        """Whether this is another build, whose start makes all that was read the past."""
        is_other = self.build not in ("", build)
        self.build = build
        if is_other:
            ahead = takewhile(lambda each: _BEFORE_BUILD.match(each.text), reversed(self.telling))
            self.telling = list(ahead)[::-1]
            self.milestones, self.chains = [], []
            self.ready_at = self.stopped_at = None
        return is_other

    def has_survived(self, line: EvidenceLine) -> bool:
        """Whether the same process has got further after it: then it was no end."""
        return any(
            position > line.position and step > line.step and rank in ("", line.rank or rank)
            for position, step, rank in self.milestones
        )

    def was_stopped_before(self, line: EvidenceLine) -> bool:
        return self.stopped_at is not None and self.stopped_at < line.position

    def lives_after(self, line: EvidenceLine) -> bool:
        """Whether anything behind it speaks of an answer to somebody."""
        return any(map(_LIVES.search, self.texts[line.position :]))

    def is_chained(self, first: EvidenceLine, later: EvidenceLine) -> bool:
        """Whether the later exception was raised while the first one was handled."""
        return any(first.position < position < later.position for position in self.chains)


def read(lines: Iterable[tuple[int, str]], engine: str = "") -> EvidenceLog:
    """Read numbered lines. Never fails; its time grows with their number alone.

    `engine` is a key of ENGINES; "": not known.
    """
    early = _TOO_EARLY.get(engine, "\0")
    log = EvidenceLog()
    rank = ""
    step = 0
    frame_at = -_WITHIN
    written: dict[str, _Traceback] = {}
    for number, raw in lines:
        for piece in _pieces(raw):
            position = len(log.texts)
            log.texts.append(piece)
            if (told_build := _BUILD.search(piece)) and log.note_build(told_build[1]):
                written, step, rank = {}, 0, ""
            lower = piece.lower()
            milestone = None if early in piece else _milestone(piece)
            if log.stopped_at is None and STOP.search(piece):
                log.stopped_at = position
            if _RETRY in piece:
                log.milestones.append((position, step + 1, rank))
                continue
            is_near = position - frame_at < _WITHIN
            if milestone is None and not is_near and not any(word in lower for word in _TELLING):
                continue
            said = parsing.read(piece)
            if port := _ROUTER.match(said.text):
                said = parsing.read(said.text[port.end() :])
            # Lines of a traceback have no prefix of their own.
            rank = said.rank if said.at or said.rank else rank
            if milestone is not None:
                log.milestones.append((position, milestone, said.rank))
                step = max(step, milestone)
                if milestone == READY:
                    log.ready_at, log.stopped_at = position, None
                continue
            if rank in written and (shift := written[rank].indent):
                said = _unshift(said, shift)
            if _CHAIN.search(piece):
                log.chains.append(position)
            if _TRACEBACK in piece:
                written[rank] = _Traceback()
            if _FRAME.match(said.text):
                frame_at = position
                written.setdefault(rank, _Traceback()).add(said.text, position, number)
            elif (
                (is_near and said.text[:1].isspace())
                or _ECHO.search(piece)
                or _RAISE.match(said.text)
            ):
                continue
            is_raised = rank in written and bool(_RAISED.match(said.text))
            told = _Traceback()
            if is_raised:
                told, frame_at = written.pop(rank), -_WITHIN
            whole = _name_source(said.text, told, log.texts) if is_raised else ""
            if is_raised and (repeated := _REPEATED.match(said.text)):
                whole, told = _read_repeated(repeated["said"]), _Traceback()
            log.telling.append(
                EvidenceLine(
                    number=number,
                    position=position,
                    text=said.text,
                    lower=(whole or said.text).lower(),
                    said=whole,
                    rank=rank,
                    is_quiet=said.level in _QUIET or bool(_WARNS.search(said.text)),
                    is_loud=said.level in ("ERROR", "CRITICAL") or bool(_LOUD.match(said.text)),
                    step=step,
                    is_raised=is_raised,
                    frames=tuple(told.frames),
                    frames_at=tuple(told.at),
                )
            )
    log.telling += [
        line
        for rank, told in written.items()
        if (line := _read_raise(told, rank, step, log.texts)) is not None
    ]
    if len(log.telling) > MOST_FIRST + MOST_LAST:
        log.telling = log.telling[:MOST_FIRST] + log.telling[-MOST_LAST:]
    return log


def _unshift(said: parsing.ParsedLine, shift: int) -> parsing.ParsedLine:
    """The line of a shifted traceback that may name its exception, without the shift."""
    is_shifted = said.text[:shift].isspace() and not said.text[shift : shift + 1].isspace()
    is_raised = is_shifted and not _FRAME.match(said.text) and _RAISED.match(said.text, shift)
    return replace(said, text=said.text[shift:]) if is_raised else said


def _read_repeated(said: str) -> str:
    return "" if BARE.match(said) else said


def _name_source(text: str, told: _Traceback, texts: Sequence[str]) -> str:
    """An exception that has no message, with the source line that raised it."""
    if not BARE.match(text) or not told.at:
        return ""
    source = parsing.read(texts[told.at[-1] + 1]).text.strip()
    is_code = source and not _RAISED.match(source)
    return f"{text.rstrip(': ')} at “{source}”" if is_code else ""


def _read_raise(
    told: _Traceback, rank: str, step: int, texts: Sequence[str]
) -> EvidenceLine | None:
    """What a traceback was about to say whose end is not in the log: its last line of source."""
    if not told.at:
        return None
    at = told.at[-1] + 1
    below = [parsing.read(text).text.strip() for text in texts[at : at + 2 * _WITHIN]]
    found = _RAISE.match(below[0]) if below else None
    if found is not None:
        texts_said = _QUOTED.findall(" ".join([found["rest"], *below[1:]]))
        message = "".join(double or single for double, single in texts_said)
        said = f"{found['name']}: {message}" if message else found["name"]
    elif below and _is_uncaught_import(told, below):
        said = f"The log breaks off in a traceback, at “{below[0]}”"
    else:
        return None
    return EvidenceLine(
        number=told.number + 1,
        position=at,
        text=below[0],
        lower=said.lower(),
        said=said,
        rank=rank,
        is_quiet=False,
        step=step,
        is_raised=True,
        frames=tuple(told.frames),
        frames_at=tuple(told.at),
    )


def _is_uncaught_import(told: _Traceback, below: Sequence[str]) -> bool:
    """Whether the program itself ended at an import: nobody catches what its first file raises."""
    is_mains = bool(_OF_MAIN.search(told.frames[0]))
    return is_mains and bool(_IMPORT.match(below[0])) and not any(below[1:])


def _pieces(raw: str) -> Sequence[str]:
    pieces = list(parsing.pieces(raw[: 4 * parsing.LONGEST]))
    return pieces[-MOST_PIECES:]


def _milestone(piece: str) -> int | None:
    for pattern, step in _MILESTONES:
        if pattern.search(piece):
            return step
    return None


# Who tells of it, the least telling first. counter: only the machine's count of such kills rose.
type OomSource = Literal["counter", "docker", "cgroup", "kernel"]
_SOURCES: tuple[OomSource, ...] = ("counter", "docker", "cgroup", "kernel")

# The id in the catalogue of failures.
CAUSE = "main-memory-oom"

# Seconds between the kill and the end of its container: engines of several processes take a while
# to notice that one is gone.
NOTICES = 60.0
# Seconds that the counter may be read later than the end is noted: a sample a second, a busy box.
READ_LATE = 10.0

GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class Oom:
    """A kill that has to do with one run. None, "": not known."""

    source: OomSource
    at: float  # unix seconds
    name: str = ""  # of the process
    pid: int | None = None
    held: int | None = None  # bytes of main memory: the process's, or its whole container's
    limit: int | None = None  # bytes that its container may use
    is_limit: bool | None = None  # it was that limit which was reached, and not the machine's end
    others: tuple[tuple[str, int], ...] = ()  # the largest programs beside it: bytes
    said: str = ""  # the kernel's line

    @property
    def is_sure(self) -> bool:
        return self.source != "counter"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "Oom | None":
        """None of {}: no such kill is known."""
        if not kept:
            return None
        others = tuple((str(name), int(size)) for name, size in kept.get("others", ()))
        return cls(**{**kept, "others": others})


def says_more(new: Oom, old: Oom | None) -> bool:
    """Whether a source tells more of the same kill than the one that was heard first."""
    return old is None or _SOURCES.index(new.source) > _SOURCES.index(old.source)


def may_explain(moved_at: float, ended_at: float) -> bool:
    """Whether a rise of the counter, seen at `moved_at`, fits an end; unix seconds.

    Rule: the kill comes before the end, by no more than an engine takes to notice it.
    """
    return ended_at - NOTICES <= moved_at <= ended_at + READ_LATE


def is_anothers(
    kills: Iterable[Mapping[str, Any]], container: str, move: Mapping[str, Any]
) -> bool:
    """Whether the kernel's log names others for every kill that one rise of the counter counts."""
    near = [each for each in kills if abs(each["t"] - move["t"]) <= READ_LATE]
    elsewhere = [each for each in near if each.get("container") != container]
    return len(elsewhere) >= int(move["count"])


def explain_oom(oom: Oom) -> str:
    """What happened, what it had and what else was large: sentences for a person."""
    parts = [_explain_kill(oom), _explain_size(oom)]
    if oom.others:
        named = ", ".join(f"{name} {_size(size)}" for name, size in oom.others)
        parts.append(say("logs.oom-others", named=named))
    parts.append(say("logs.oom-main-memory"))
    return " ".join(str(part) for part in parts if part)


def _explain_kill(oom: Oom) -> Sentence:
    if not oom.is_sure:
        return say("logs.oom-likely")
    code = "logs.oom"
    if oom.is_limit is not None:
        code = "logs.oom-of-limit" if oom.is_limit else "logs.oom-of-box"
    who = f"{oom.name} (process {oom.pid})" if oom.name else "a process of this engine"
    return say(code, who=who)


def _explain_size(oom: Oom) -> Sentence | None:
    if oom.held and oom.limit:
        return say("logs.oom-held-limit", held=_size(oom.held), limit=_size(oom.limit))
    if oom.held:
        return say("logs.oom-held", held=_size(oom.held))
    return say("logs.oom-limit", limit=_size(oom.limit)) if oom.limit else None


def _size(size: int) -> str:
    return f"{size / GIB:.1f} GiB" if size >= GIB else f"{size / 2**20:.0f} MiB"
