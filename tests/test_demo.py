"""The demo: all of inferdash on simulated boxes, from its start to what it leaves behind."""

import json
import re
import signal
import statistics
import sys
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.request import HTTPCookieProcessor, Request, build_opener

import pytest

from inferdash.demo import script
from inferdash.demo.docker import _help
from inferdash.demo.load import Heat, Traffic
from inferdash.demo.script import Exit, LogLine, Settings
from servers.judge.logs.diagnosis import report
from servers.launch.engines import ENGINES, flaghelp
from tests.ports import free_port
from tests.terminal import TerminalProgram
from tests.waiting import PATIENCE, wait_until

GIB = 2**30


def _settings(**values: object) -> Settings:
    usual = {"engine": "vllm", "model": "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "served": "q", "port": 8000,
             "ranks": 1, "context": 131072, "share": 0.9}  # fmt: skip
    return Settings(**{**usual, **values})  # type: ignore[arg-type]


def test_load_comes_in_bursts_and_remembers() -> None:
    traffic = Traffic(rate=0.5, speed=100, seed=3)
    running = []
    for _second in range(3600):
        traffic.step(1.0)
        running.append(len(traffic.jobs))
    mean = statistics.fmean(running)
    assert max(running) > 3 * mean, "no bursts"
    assert min(running) == 0, "never idle"
    together = statistics.correlation(running[:-1], running[1:])
    assert together > 0.8, "each second knows nothing of the one before"
    # A wave would come back to itself at some distance; load does not.
    apart = [abs(statistics.correlation(running[:-lag], running[lag:])) for lag in (300, 600, 900)]
    assert max(apart) < 0.6


def test_a_card_warms_up_behind_its_work() -> None:
    heat = Heat(idle_watts=30, most_watts=560, temperature=30)
    heat.step(1.0, 0.9)
    soon = heat.temperature
    for _second in range(200):
        heat.step(1.0, 0.9)
    assert soon < 40 < heat.temperature < 90


def test_the_failure_is_one_whose_fix_the_engine_then_starts_with() -> None:
    steps = list(script.play_start(_settings(), 95 * GIB, seconds=1))
    assert steps[-1] == Exit(code=1)
    told = report((step.text for step in steps if isinstance(step, LogLine)), exit_code=1)
    fixes = json.dumps(told)
    assert "vllm-max-len-too-big" in fixes
    found = re.search(r"--max-model-len\W+(?:to )?(\d+)", fixes.replace("131072", ""))
    assert found, fixes
    good = list(script.play_start(_settings(context=int(found[1])), 95 * GIB, seconds=1))
    assert not any(isinstance(step, Exit) for step in good)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_simulated_image_tells_its_flags(engine: str) -> None:
    found = flaghelp.flags_in(ENGINES[engine], _help(engine), version="1")
    assert len(found.flags) > 100


class Visitor:
    """A browser that runs no scripts."""

    def __init__(self, url: str) -> None:
        self.url = url
        opener = build_opener(HTTPCookieProcessor(CookieJar()))
        opener.addheaders = [("Accept", "text/html")]
        self._open = opener.open

    def see(self, path: str) -> str:
        with self._open(self.url + path, timeout=PATIENCE) as answer:
            return str(answer.read().decode())

    def post(self, path: str, page: str, body: bytes = b"", kind: str = "") -> str:
        """With the token of a page that was seen before."""
        token = re.search(r'"X-CSRFToken": "(\w+)"', page)
        assert token
        headers = {"X-CSRFToken": token[1], "Origin": self.url, "HX-Request": "true"}
        headers["Content-Type"] = kind or "application/x-www-form-urlencoded"
        request = Request(self.url + path, data=body, headers=headers)  # noqa: S310 - our own
        with self._open(request, timeout=PATIENCE) as answer:
            return str(answer.read().decode())


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[tuple[Visitor, Path]]:
    port = free_port()
    variables = {"PORT": str(port), "BOXES": "rtx8", "TMPDIR": str(tmp_path), "NO_COLOR": "1", "INFERDASH_DEMO_SECONDS": "2",
                 "DATABASE_URL": "postgresql://nobody@/real", "INFERDASH_DATA": str(tmp_path / "real")}  # fmt: skip
    up = TerminalProgram([sys.executable, "-m", "inferdash.demo"], variables)
    try:
        up.waits_for("ready at")
        yield Visitor(f"http://127.0.0.1:{port}"), tmp_path
    finally:
        # What `docker run` without a terminal passes on of a Ctrl-C.
        up.process.send_signal(signal.SIGINT)
        up.ends()
        print(up.said)
    assert list(tmp_path.iterdir()) == [], "the demo has left something behind"


@pytest.mark.demo
@pytest.mark.takes(150)
def test_the_demo_shows_a_start_a_failure_with_its_fix_a_leak_and_a_chat(
    demo: tuple[Visitor, Path],
) -> None:
    visitor, folder = demo
    assert "Log in</h1>" not in visitor.see("/chat/"), (
        "a first page other than / asks for a password"
    )

    def says(text: str, path: str = "/") -> None:
        wait_until(lambda: text in visitor.see(path), f"{path} says {text}")

    says("needs 39.98 GiB of KV cache")
    says("outlived its container")
    assert "GiB free of 3575 GiB" in visitor.see("/models/")
    for path in ("/", "/profiles/", "/models/", "/gateway/", "/nothing-here/"):
        try:
            page = visitor.see(path)
        except OSError as error:  # of an address that is not there
            page = error.read().decode()  # type: ignore[attr-defined]
        assert "Simulated." in page, path
    page = visitor.see("/servers/llama-70b-long-context/")
    fix = re.search(
        r'hx-post="([^"]+)"[^>]*aria-label="Apply fix and start: [^"]*max-model-len', page
    )
    assert fix, page
    visitor.post(fix[1], page)
    says("127.0.0.1:", "/servers/llama-70b-long-context/")
    wait_until(
        lambda: "/chat/?server=llama" in visitor.see("/servers/llama-70b-long-context/"),
        "the fix has helped",
    )
    chat = visitor.see("/chat/?server=gpt-oss-120b")
    run = re.search(r'data-slug="gpt-oss-120b"[^>]*data-run="(\d+)"', chat)
    assert run
    question = {"run": int(run[1]), "messages": [{"role": "user", "content": "What is a KV cache?"}]}  # fmt: skip
    said = visitor.post(
        "/chat/completions/", page, json.dumps(question).encode(), "application/json"
    )
    words = re.findall(r'"content": ?"((?:[^"\\]|\\.)*)"', said)
    assert "KV cache" in "".join(words)
    says("/kill/", "/boxes/rtx8/")
    ending = re.search(r'hx-get="([^"]+/kill/[^"]+)"', visitor.see("/boxes/rtx8/"))
    assert ending, "nothing ends what was left behind"
    end = re.search(r'hx-post="([^"]+)"', visitor.see(ending[1]))
    assert end
    visitor.post(end[1], page)
    wait_until(lambda: "outlived" not in visitor.see("/"), "the memory has come back")
    assert not (folder / "real").exists(), "the real installation's folder was touched"
    assert [each.name[:15] for each in folder.iterdir()] == ["inferdash-demo-"]
