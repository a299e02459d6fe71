"""The browser of the tests: what it leaves out, and what does not disturb it."""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psutil
import pytest
from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

LEFT_OUT = "--disable-features="
# More than the connections that Chromium opens to a host: the others wait for one.
REQUESTS = 8
CONNECTIONS = 6


@pytest.mark.usefixtures("browser")
def test_our_list_of_what_is_left_out_has_all_of_playwrights() -> None:
    found: list[list[set[str]]] = []
    for each in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            words = [word for word in each.cmdline() if word.startswith(LEFT_OUT)]
            found.append([set(word.removeprefix(LEFT_OUT).split(",")) for word in words])
    playwrights, ours = next(lists for lists in found if len(lists) > 1)
    assert playwrights <= ours


class HeldServer(ThreadingHTTPServer):
    """Answers nothing but its first page before it may."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.asked = threading.Semaphore(0)
        self.may_answer = threading.Event()


class Answer(BaseHTTPRequestHandler):
    server: HeldServer

    def do_GET(self) -> None:
        if self.path != "/":
            self.server.asked.release()
            self.server.may_answer.wait()
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *words: object) -> None:
        pass


@contextmanager
def waiting() -> Iterator[HeldServer]:
    with HeldServer() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.may_answer.set()
            server.shutdown()
            thread.join()


@pytest.mark.docker  # the network is the tests' own where they may have an engine
def test_a_network_that_another_test_makes_takes_no_request_back(browser: Browser) -> None:
    with waiting() as server:
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        page.evaluate(
            "n => void (window.all = Promise.all(Array.from({ length: n }, (_, i) => fetch(`/${i}`))))",
            REQUESTS,
        )
        for _ in range(CONNECTIONS):
            server.asked.acquire()

        bridge = "ifd-test-other"
        for command in (
            f"link add {bridge} type bridge",
            f"address add 198.51.100.1/24 dev {bridge}",
            f"link set {bridge} up",
            f"link delete {bridge}",
        ):
            subprocess.run(["ip", *command.split()], check=True)
        server.may_answer.set()

        assert page.evaluate("async () => (await window.all).length") == REQUESTS
        page.close()
