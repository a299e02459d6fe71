"""Open WebUI from PyPI, in an environment of its own.

`python -m tests.clients.open_webui` installs it unless it is there: some minutes, and some 7 GB.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.docker_engine import FOLDER
from tests.ports import free_port

VERSION = "0.12.4"
HOME = FOLDER / f"open-webui-{VERSION}"
PROGRAM = HOME / "bin" / "open-webui"
PATIENCE = 300  # seconds until it answers: some 25 on an idle machine
# It would load a model for its search in documents from a hub, and look for newer versions.
QUIET = {
    "OFFLINE_MODE": "true",
    "HF_HUB_OFFLINE": "1",
    "RAG_EMBEDDING_ENGINE": "openai",
    "ANONYMIZED_TELEMETRY": "false",
    "DO_NOT_TRACK": "true",
    "ENABLE_VERSION_UPDATE_CHECK": "false",
}


class NoPythonError(Exception):
    """None that it runs on; the text says which it wants."""


def install() -> None:
    if PROGRAM.exists():
        return
    shutil.rmtree(HOME, ignore_errors=True)
    print(f"installing Open WebUI {VERSION} into {HOME}: some minutes", flush=True)
    subprocess.run([_python(), "-m", "venv", HOME], check=True)
    pip = HOME / "bin" / "pip"
    try:
        subprocess.run([pip, "install", "--quiet", f"open-webui=={VERSION}"], check=True)
    except BaseException:
        shutil.rmtree(HOME, ignore_errors=True)
        raise


def _python() -> str:
    """One of those that it runs on. Raises NoPythonError."""
    for name in (sys.executable, "python3.12", "python3.11"):
        said = subprocess.run(
            [name, "-c", "import sys; print(sys.version_info[:2] in ((3, 11), (3, 12)))"],
            capture_output=True,
            text=True,
            check=False,
        ) if shutil.which(name) else None  # fmt: skip
        if said is not None and said.stdout.strip() == "True":
            return name
    raise NoPythonError("Open WebUI runs on Python 3.11 and 3.12 alone: install one of them.")


@contextmanager
def open_webui(told: dict[str, str]) -> Iterator[str]:
    """The address of a new one, which this was added to the environment of."""
    with tempfile.TemporaryDirectory(prefix="open-webui-") as folder:
        port = free_port()
        # Nothing of this machine's: a database, a proxy, another key.
        env = {"PATH": os.defpath, "HOME": folder, "DATA_DIR": folder, "WEBUI_SECRET_KEY": "test"}
        env |= QUIET | told
        log = Path(folder) / "log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [PROGRAM, "serve", "--host", "127.0.0.1", "--port", str(port)],
                cwd=folder, env=env, stdout=out, stderr=subprocess.STDOUT,
            )  # fmt: skip
        url = f"http://127.0.0.1:{port}"
        try:
            _wait(url, process, log)
            yield url
        finally:
            process.terminate()
            process.wait(timeout=30)
            if kept := os.environ.get("OPEN_WEBUI_LOG"):
                shutil.copy(log, kept)


def _wait(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            httpx.get(f"{url}/health", timeout=10)
            return
        except httpx.TransportError:
            if process.poll() is not None or time.monotonic() > deadline:
                said = log.read_text(errors="replace")[-4000:]
                raise RuntimeError(f"Open WebUI does not answer:\n{said}") from None
            time.sleep(0.5)


if __name__ == "__main__":
    try:
        install()
    except NoPythonError as error:
        sys.exit(str(error))
