"""An engine of a venv, as somebody starts it by hand: a real process, and a worker below it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.terminal import ROOT

# Says that it is there, forks as engines do, and ends by SIGTERM.
PROGRAM = """
import os, signal, sys
if os.fork() == 0:
    open('/proc/self/comm', 'w').write('VLLM::EngineCore')
print(os.getpid(), flush=True)
signal.pause()
"""


@contextmanager
def bare(folder: Path, *flags: str, **env: str) -> "Iterator[subprocess.Popen[bytes]]":
    """`vllm serve Qwen/Qwen3-8B`, with these flags and nothing but these variables."""
    script = folder / "bin" / "vllm"
    script.parent.mkdir(exist_ok=True)
    script.write_text(PROGRAM)
    words = [sys.executable, str(script), "serve", "Qwen/Qwen3-8B", *flags]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, env=env, start_new_session=True)
    assert process.stdout is not None
    pids = {process.pid} | {int(process.stdout.readline()) for _each in range(2)}
    try:
        yield process
    finally:
        for pid in pids:
            subprocess.run(["kill", "-KILL", str(pid)], check=False, stderr=subprocess.DEVNULL)
        process.wait()
        process.stdout.close()


# The test engine, as `vllm` of a venv: it prints, listens and answers as one does.
ENGINE = f"""
import os, runpy, sys
sys.path.insert(0, {str(ROOT)!r})
sys.argv = ["engine", os.environ.get("AS", "vllm"), *sys.argv[1:]]
if "--log-file" in sys.argv:
    sys.stdout = open(sys.argv[sys.argv.index("--log-file") + 1], "w", buffering=1)
runpy.run_module("tests.engine", run_name="__main__")
"""


@contextmanager
def engine(
    folder: Path, port: int, *, log: IO[bytes] | int = subprocess.DEVNULL, **env: str
) -> "Iterator[subprocess.Popen[bytes]]":
    """`vllm serve Qwen/Qwen3-8B > log 2>&1 &`, which is ready within a moment."""
    script = folder / "bin" / "vllm"
    script.parent.mkdir(exist_ok=True)
    script.write_text(ENGINE)
    words = [sys.executable, "-u", str(script), "serve", "Qwen/Qwen3-8B"]
    words += ["--host", "127.0.0.1", "--port", str(port)]
    with _running(words, folder, log, env) as process:
        yield process


@contextmanager
def llama_server(folder: Path, port: int, *flags: str) -> "Iterator[subprocess.Popen[bytes]]":
    """`llama-server … &` on a terminal that was closed since."""
    script = folder / "engine.py"
    script.write_text(ENGINE)
    program = folder / "llama-server"
    program.symlink_to(Path(sys.executable).resolve())
    words = [str(program), str(script), "-m", "/models/tiny.gguf", "--port", str(port), *flags]
    with _running(words, folder, subprocess.DEVNULL, {"AS": "llama-server"}) as process:
        yield process


@contextmanager
def _running(
    words: list[str], folder: Path, output: IO[bytes] | int, env: dict[str, str]
) -> "Iterator[subprocess.Popen[bytes]]":
    process = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env={"ENGINE_SECONDS": "0.1", "PATH": os.environ["PATH"]} | env,
        start_new_session=True,
        cwd=folder,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
