"""Static files: who may keep them for how long, and that a running server keeps its own."""

import gzip
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from os.path import normpath
from pathlib import Path
from typing import Any

import httpx
import pytest
from asgiref.sync import async_to_sync
from django.contrib.staticfiles import finders
from django.templatetags.static import static

from inferdash import static_files
from inferdash.limits import Message, Receive, Send
from tests.terminal import ROOT


async def _page(_scope: Message, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body", "body": b"Django's"})


@async_to_sync
async def ask(path: str, method: str = "GET", **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(static_files.StaticFiles(_page))  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url="http://box") as client:
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        return await client.request(method, path, headers=headers)


CSS = (Path(__file__).parents[1] / "static/css/page/app.css").read_bytes()


def test_an_address_with_the_version_is_kept_for_good() -> None:
    address = static("css/page/app.css")
    assert static_files.version() in address

    answer = ask(address)

    assert answer.content == CSS
    assert answer.headers["content-type"] == "text/css; charset=utf-8"
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("of", ["", "0123456789ab/"])
def test_an_address_of_another_version_is_asked_for_again(of: str) -> None:
    """A page from before an upgrade goes on, and keeps nothing under its own version."""
    answer = ask(f"/static/{of}css/page/app.css")

    assert (answer.content, answer.headers["cache-control"]) == (CSS, "public, no-cache")
    again = ask(f"/static/{of}css/page/app.css", if_none_match=answer.headers["etag"])
    assert (again.status_code, again.content) == (304, b"")


def test_what_scripts_import_comes_with_their_own_version() -> None:
    script = Path(__file__).parents[1] / "static/js"
    absolute = [each.name for each in script.rglob("*.js") if '"/static/' in each.read_text()]
    assert absolute == []
    assert (
        ask(f"/static/{static_files.version()}/vendor/uplot/uPlot.esm.js")
        .headers["content-type"]
        .startswith("text/javascript")
    )


def test_what_no_page_names_is_not_held() -> None:
    held = static_files.read_all()
    assert "vendor/katex/katex.min.js" in held
    assert [name for name in held if name.endswith((".map", ".woff2", ".d.ts"))] == []


def test_all_that_scripts_import_is_there() -> None:
    script = Path(__file__).parents[1] / "static/js"
    imported = re.compile(r'(?:from|import)\s*\(?\s*"(\.[^"]+)"')
    absent = [
        f"{each.name}: {name}"
        for each in script.rglob("*.js")
        for name in imported.findall(each.read_text())
        if ask(static(normpath(each.relative_to(script.parent).parent / name))).status_code != 200
    ]
    assert absent == []


def test_scripts_are_sent_without_lines_that_are_comments() -> None:
    script = b"""// @ts-check
/** @import { A } from "./a.js" */

/**
 * What it is for.
 * @param {string} a **
 */
export const text = /** @type {B} */ (a); // kept
  // Why.
const address = `https://${
  /** @type {string} */ (host)
}`;
"""
    assert static_files.strip_comments(script) == (
        b"\n\n\n\n\n\n\nexport const text = /** @type {B} */ (a); // kept\n\n"
        b"const address = `https://${\n  /** @type {string} */ (host)\n}`;\n"
    )
    sent = ask(static("js/page/index.js")).text
    stored = (Path(__file__).parents[1] / "static/js/page/index.js").read_text()
    assert sent.count("\n") == stored.count("\n")
    assert len(sent) < len(stored)


def test_scripts_mean_the_same_without_their_comments(tmp_path: Path) -> None:
    """As the compiler reads them: no text within backticks has a line that begins as a comment does."""
    for folder in ("with", "without"):
        shutil.copytree(ROOT / "static/js", tmp_path / folder / "js")
    for each in (tmp_path / "without").rglob("*.js"):
        each.write_bytes(static_files.strip_comments(each.read_bytes()))
    read = {folder: _compile(tmp_path / folder) for folder in ("with", "without")}
    assert len(read["with"]) > 50
    assert read["with"] == read["without"]


def _compile(folder: Path) -> dict[str, str]:
    made = folder / "made"
    words = "--allowJs --noCheck --removeComments --target esnext --module esnext --moduleResolution bundler"
    scripts = sorted(map(str, folder.rglob("*.js")))
    command = [
        str(ROOT / "node_modules/.bin/tsc"),
        *words.split(),
        "--ignoreConfig",
        "--outDir",
        str(made),
        *scripts,
    ]
    path = f"{ROOT}/.venv/bin{os.pathsep}{os.environ['PATH']}"
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PATH": path})
    return {each.relative_to(made).as_posix(): each.read_text() for each in made.rglob("*.js")}


def test_text_is_sent_compressed_to_who_takes_it() -> None:
    plain = ask(static("css/page/app.css"), accept_encoding="identity")
    packed = ask(static("css/page/app.css"), accept_encoding="gzip, br")

    assert plain.content == packed.content == CSS  # httpx unpacks
    assert "content-encoding" not in plain.headers
    assert int(packed.headers["content-length"]) == len(gzip.compress(CSS, 6))
    assert packed.headers["vary"] == "accept-encoding"


def test_only_files_that_are_there_are_answered_and_only_to_readers() -> None:
    for path in ("/static/", "/static/css", "/static/css/no.css", "/static/%2e%2e/manage.py", "/"):
        assert ask(path).content == b"Django's", path
    head = ask(static("css/page/app.css"), "HEAD")
    assert (head.status_code, head.content) == (200, b"")
    assert int(head.headers["content-length"]) > 0
    refused = ask(static("css/page/app.css"), "POST")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")


def _forget() -> None:
    for function in (finders.get_finder, static_files.read_all, static_files.version):
        function.cache_clear()  # type: ignore[union-attr]


@pytest.fixture
def folder(tmp_path: Path, settings: Any) -> Iterator[Path]:
    """The only one with static files."""
    settings.STATICFILES_DIRS = [tmp_path]
    _forget()
    yield tmp_path
    _forget()


def test_a_running_server_keeps_its_files(folder: Path) -> None:
    (folder / "page.css").write_text("old")
    address = static("page.css")
    (folder / "page.css").write_text("pulled")
    assert ask(address).text == "old"

    _forget()  # as another start does

    assert static("page.css") != address
    assert ask(static("page.css")).text == ask(address).text == "pulled"


def test_who_works_on_files_sees_them_at_once(folder: Path, settings: Any) -> None:
    settings.DEBUG = True
    for text in ("one", "two"):
        (folder / "page.css").write_text(text)
        answer = ask(static("page.css"))
        assert (answer.text, answer.headers["cache-control"]) == (text, "public, no-cache")
