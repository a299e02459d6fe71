"""Image names, rates and sizes of pulls, newer builds, and the driver that an image requires. Pure."""

import operator
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from servers.host.images.images import Layer, PullState
from servers.judge.messages import say
from servers.judge.profiles.facts import LintFinding
from servers.launch import numbers
from servers.launch.engines.change import LaunchChange
from servers.launch.engines.flaglist import read_release

# What uname says, and what registries say.
ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
# On the disk an image is unpacked: engines' come to a good twice what travels.
UNPACKED = 2.0

_ENGINES = (
    ("sglang", re.compile(r"sglang", re.IGNORECASE)),
    ("vllm", re.compile(r"vllm", re.IGNORECASE)),
    ("llamacpp", re.compile(r"llama[-_.]?cpp|llama-server", re.IGNORECASE)),
)
_VERSIONS = ("org.opencontainers.image.version", "version")
_DIGITS = 64
_ID = re.compile(r"(sha256:)?[0-9a-f]{12,64}")
# Labels of a base image that its children inherit: they count Ubuntu's releases.
_UBUNTU = re.compile(r"(1\d|2\d)\.(04|10)$")


def engine_of(names: Iterable[str]) -> str:
    """The engine (a key of ENGINES) that an image's names speak of; "" for none."""
    said = " ".join(names)
    return next((key for key, pattern in _ENGINES if pattern.search(said)), "")


def version_of(labels: Mapping[str, str]) -> str:
    """The version that an image's labels say; "" for none, and for that of its base."""
    for name in _VERSIONS:
        said = labels.get(name, "").strip()
        if said and not _UBUNTU.match(said):
            return said[:60]
    return ""


def is_for(platforms: Iterable[str], architecture: str) -> bool:
    """Whether one of them (linux/amd64) is the box's; True where nobody tells."""
    told = list(platforms)
    return not told or any(each == f"linux/{architecture}" for each in told)


class Rate:
    """Bytes a second over the last seconds."""

    WINDOW = 10.0  # seconds

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def see(self, t: float, done: int) -> float | None:
        """Take in how much has come at a moment in seconds; None while nothing can be told."""
        self._seen.append((t, done))
        while len(self._seen) > 2 and t - self._seen[0][0] > self.WINDOW:
            self._seen.popleft()
        (first, before), (last, now) = self._seen[0], self._seen[-1]
        return max(0.0, (now - before) / (last - first)) if last - first >= 1.0 else None


def whole(progress: PullState, sizes: Mapping[str, int]) -> tuple[int, int]:
    """Bytes that are there and bytes in all, by the sizes that the registry told by digest.

    Docker itself tells a layer's size only when it has begun it, and never of one that is there.
    """
    known = {each.id: each for each in progress.layers}
    done = 0
    for digest, size in sizes.items():
        layer = known.get(short(digest))
        if layer is not None:
            done += size if layer.state in ("there", "done") else min(layer.done, size)
    return done, sum(sizes.values())


def format_layers(layers: Iterable[Layer], sizes: Mapping[str, int]) -> list[dict[str, Any]]:
    """The layers as a page tells them, with sizes where the registry or Docker has told."""
    by_id = {short(digest): size for digest, size in sizes.items()}
    return [
        {
            "id": each.id,
            "state": each.state,
            "done": each.done,
            "total": by_id.get(each.id, each.total),
            "unpacked": each.unpacked,
        }
        for each in layers
        # Docker names the tag itself like a layer.
        if not by_id or each.id in by_id
    ]


def short(digest: str) -> str:
    """How Docker calls a layer in what it tells of a pull."""
    return digest.removeprefix("sha256:")[:12]


def find_image_name(text: str, names: Mapping[str, str]) -> str:
    """What people call the image that a container was started from.

    Docker knows by its id alone an image that had no name then, or was started by its id. `names`
    are of the box's images by id; an id that none of them has is shortened.
    """
    if not _ID.fullmatch(text):
        return text
    digits = text.removeprefix("sha256:")
    found = [name for key, name in names.items() if key.removeprefix("sha256:").startswith(digits)]
    if len(found) == 1:
        return found[0]
    # Twelve letters from a to f may be a name.
    return short(text) if text.startswith("sha256:") or len(text) == _DIGITS else text


type Kind = Literal["same", "renamed", "changed", "cannot", "unknown"]

# Messages for one and for several, in the order in which a sentence names them.
_MESSAGES: dict[Kind, tuple[str, str]] = {
    "same": ("images.build-same", "images.build-same-several"),
    "renamed": ("images.build-renamed", "images.build-renamed-several"),
    "changed": ("images.build-changed", "images.build-changed-several"),
    "cannot": ("images.build-cannot", "images.build-cannot-several"),
    "unknown": ("images.build-unknown", "images.build-unknown-several"),
}


@dataclass(frozen=True, kw_only=True)
class BuildVerdict:
    """`fresh` are errors that the image of today does not have, the worst first."""

    kind: Kind
    fresh: tuple[LintFinding, ...] = ()
    stale: int = 0  # errors that it has today, too
    why: str = ""  # of "unknown"

    @property
    def says(self) -> str:
        """A few words."""
        return say(_MESSAGES[self.kind][0]).text


def judge_new_build(now: Iterable[LintFinding], then: Iterable[LintFinding]) -> BuildVerdict:
    """Of the findings with the image of today and with the newer one.

    An error with both is nothing that the newer build would change. A flag that is gone without
    another in its place cannot be put right by leaving it out: it was there for a reason.
    """
    known = {(each.rule, each.about) for each in now if each.severity == "error"}
    errors = [each for each in then if each.severity == "error"]
    fresh = tuple(each for each in errors if (each.rule, each.about) not in known)
    stale = len(errors) - len(fresh)
    if not fresh:
        return BuildVerdict(kind="same", stale=stale)
    if any(each.fix is None or _only_drops(each.fix) for each in fresh):
        return BuildVerdict(kind="cannot", fresh=fresh, stale=stale)
    is_renamed = all(each.fix is not None and _renames(each.fix) for each in fresh)
    return BuildVerdict(kind="renamed" if is_renamed else "changed", fresh=fresh, stale=stale)


def explain_unknown_build(why: str) -> BuildVerdict:
    return BuildVerdict(kind="unknown", why=why)


def describe_new_build(verdicts: Sequence[BuildVerdict]) -> str:
    """ "4 start as they are, 1 needs a flag renamed, 1 does not start"; "" without any."""
    counted = Counter(each.kind for each in verdicts)
    parts = [
        f"{counted[kind]} {say(one if counted[kind] == 1 else several)}"
        for kind, (one, several) in _MESSAGES.items()
        if counted[kind]
    ]
    return ", ".join(parts)


def _only_drops(fix: LaunchChange) -> bool:
    return bool(fix.drop_flags) and not (fix.set_flags or fix.set_env or fix.fields)


def _renames(fix: LaunchChange) -> bool:
    return bool(fix.drop_flags and fix.set_flags) and not (fix.set_env or fix.fields)


# NVIDIA_REQUIRE_CUDA: its source is NVIDIA's container toolkit, where a start is refused with
# “unsatisfied condition: cuda>=…”. The variable holds alternatives, separated by spaces; the parts of
# one, separated by commas, must all hold: "cuda>=12.8 brand=tesla,driver>=535,driver<536". CUDA's
# release notes say which driver brought which version.
_CUDA_OF = (
    (450, (11, 0)), (455, (11, 1)), (460, (11, 2)), (465, (11, 3)), (470, (11, 4)),
    (495, (11, 5)), (510, (11, 6)), (515, (11, 7)), (520, (11, 8)), (525, (12, 0)),
    (530, (12, 1)), (535, (12, 2)), (545, (12, 3)), (550, (12, 4)), (555, (12, 5)),
    (560, (12, 6)), (565, (12, 7)), (570, (12, 8)), (575, (12, 9)), (580, (13, 0)),
    (590, (13, 1)),
)  # fmt: skip
_PART = re.compile(r"(cuda|driver|brand|arch)(>=|<=|!=|=|<|>)(.+)")
_COMPARE: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
    "!=": operator.ne,
}


def satisfies(driver: str, require: str) -> bool | None:
    """Whether a driver ("580.142") meets the condition; None where that is not known.

    An empty condition is met. Which brand a card is of nobody tells here, so what depends on
    it is not known. Minor versions of CUDA run on every driver of their major version's first
    (forward compatibility aside), but the toolkit goes by the condition, and so does this.
    """
    if not require.strip():
        return True
    found = [_all(part, driver) for part in require.split()]
    return True if True in found else None if None in found else False


def find_needed_cuda(require: str) -> str:
    """The least CUDA version that a condition names first, "12.8"; "" where it names none."""
    found = re.search(r"cuda>=([0-9]+(?:\.[0-9]+)?)", require)
    return found[1] if found else ""


def first_for(cuda: str) -> str:
    """The first driver branch that brought a CUDA version, "570"; "" where it is not known."""
    wanted = _numbers(cuda)
    if not wanted:
        return ""
    return next((str(branch) for branch, brought in _CUDA_OF if brought >= wanted), "")


def _all(alternative: str, driver: str) -> bool | None:
    found = [_one(part, driver) for part in alternative.split(",")]
    return False if False in found else None if None in found else True


def _one(part: str, driver: str) -> bool | None:
    match, mine = _PART.fullmatch(part), read_release(driver)
    if match is None or mine is None:
        return None
    what, how, value = match.groups()
    wanted = _numbers(value)
    if what == "driver" and wanted:
        return _COMPARE[how](mine[: len(wanted)], wanted)
    if what == "cuda" and wanted:
        return _cuda(mine[0], how, (*wanted, 0)[:2])
    return None


def _cuda(branch: int, how: str, wanted: tuple[int, ...]) -> bool | None:
    brought = [cuda for first, cuda in _CUDA_OF if first <= branch]
    if not brought:
        return False if how in (">=", ">") else None
    if branch > _CUDA_OF[-1][0] and how in (">=", ">") and not _COMPARE[how](brought[-1], wanted):
        return None  # newer than this table
    return _COMPARE[how](brought[-1], wanted)


def _numbers(text: str) -> tuple[int, ...]:
    """Nothing where one of them is none: then nothing is known of all."""
    found = [numbers.whole(each) for each in re.findall(r"[0-9]+", text)]
    return tuple(each for each in found if each is not None) if None not in found else ()
