"""Reasons of exits that nobody asked for."""

from dataclasses import dataclass
from datetime import datetime

from servers.host.docker.containers import Container
from servers.models.runs.run import RunState

# What a container's init or shell ends with when it cannot run the program.
NO_PROGRAM = (126, 127)
SIGNALS = {1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS"}
SIGNALS |= {8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 13: "SIGPIPE", 15: "SIGTERM"}


# SIGINT and SIGTERM: somebody wanted it to end, with Docker or without.
_WANTED_ENDS = (130, 143)

REMOVED = "Its container was removed outside inferdash. Its log is kept as far as it was read."


@dataclass(frozen=True, kw_only=True)
class ExitJudgement:
    """What an end was, and one sentence for it."""

    state: RunState  # stopped or failed
    says: str
    is_sure: bool = True  # False: it may as well have been the other


def judge(ready_at: datetime | None, container: Container, *, asked: bool | None) -> ExitJudgement:
    """What an end was that nobody asked inferdash for, whoever owns the container.

    `asked`: somebody had Docker end it; None: nobody can tell, as Docker does not remember.
    """
    why = why_ended(ready_at, container)
    code = container.exit_code
    if asked:
        with_code = "" if code is None else f" It ended with exit code {code}."
        return ExitJudgement(
            state=RunState.STOPPED,
            says=f"Somebody has stopped its container outside inferdash, with Docker.{with_code}",
        )
    if container.oom_killed:
        return ExitJudgement(state=RunState.FAILED, says=why)
    if code in _WANTED_ENDS:
        says = (
            f"{SIGNALS[code - 128]} from outside inferdash has ended it. Who sent it is not known."
        )
        return ExitJudgement(state=RunState.STOPPED, says=says, is_sure=False)
    if asked is None and code == 0 and ready_at is not None:
        says = (
            "It ended with exit code 0 while nobody looked: whether somebody has stopped it, or it "
            "ended by itself, is not known."
        )
        return ExitJudgement(state=RunState.STOPPED, says=says, is_sure=False)
    if asked is None:
        why += " Whether somebody has asked Docker for it is not known."
    return ExitJudgement(state=RunState.FAILED, says=why, is_sure=asked is not None)


def why_ended(ready_at: datetime | None, container: Container) -> str:
    """One sentence on an end that nobody asked for.

    An exit code of 0 is no success here: SGLang as PID 1 exits 0 when its start fails,
    vLLM when its engine dies while serving.
    """
    when = "while it was serving" if ready_at else "before it was ready"
    code = container.exit_code
    if container.oom_killed:
        return (
            f"The kernel killed the engine {when}: it wanted more memory than its container may "
            "use (OOMKilled). This is main memory, not GPU memory."
        )
    if code is None:
        return f"The engine ended {when}; Docker does not say how. {container.error}".strip()
    if code in NO_PROGRAM and not ready_at:
        return (
            f"The image does not contain the program that the profile starts (exit code {code}). "
            "Check that the engine fits the image, and the entrypoint."
        )
    if code > 128 and (name := SIGNALS.get(code - 128)):
        return f"The engine was ended by {name} (exit code {code}) {when}, not by inferdash."
    return f"The engine ended by itself {when}, with exit code {code}."
