"""What is said of an engine's end that nobody asked for."""

from datetime import datetime

from servers.host.containers import Container

# What a container's init or shell ends with when it cannot run the program.
NO_PROGRAM = (126, 127)
SIGNALS = {1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS"}
SIGNALS |= {8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 13: "SIGPIPE", 15: "SIGTERM"}


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
