"""Makes the README's pictures anew from the demo: `make pictures`.

Stills of one simulated box in both colours, and a walk through a paste, its failure, the fix and the
first answer as one moving picture. Needs Pillow, ffmpeg is not.
"""

import io
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, ViewportSize

from tests.browser.chromium import chromium
from tests.ports import free_port
from tests.terminal import ROOT, TerminalProgram

IMAGES = ROOT / "docs/images"
SIZE: ViewportSize = {"width": 1280, "height": 800}
MOST = 3 * 2**20  # bytes of the moving picture
# Until the charts have something to show.
WARM_UP = float(os.environ.get("WARM_UP", "45"))
STILLS = {
    "dashboard": "/",
    "failure": "/servers/llama-70b-long-context/",
    "box": "/boxes/rtx8/",
}
PASTE = """docker run --gpus '"device=1"' --ipc=host \\
  vllm/vllm-openai:v0.20.2 \\
  --model RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic \\
  --max-model-len 131072"""


class Film:
    """Frames of a page, each with how long it is seen."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.frames: list[tuple[Image.Image, int]] = []

    def show(self, seconds: float) -> None:
        """The page as it is, for so long."""
        shot = Image.open(io.BytesIO(self.page.screenshot())).convert("RGB")
        self.frames.append((shot.resize((960, 600), Image.Resampling.LANCZOS), int(seconds * 1000)))

    def follow(self, until: Callable[[], bool], *, every: float, shown: float, most: float) -> None:
        """A frame every so many seconds, each seen for `shown`."""
        end = time.monotonic() + most
        while not until() and time.monotonic() < end:
            self.show(shown)
            self.page.wait_for_timeout(every * 1000)

    def save(self, path: Path) -> None:
        """As small as it has to be."""
        first, *others = [frame for frame, _duration in self.frames]
        times = [duration for _frame, duration in self.frames]
        for quality in (82, 70, 55, 40):
            first.save(path, save_all=True, append_images=others, duration=times, loop=0,
                       quality=quality, method=4, minimize_size=False)  # fmt: skip
            if path.stat().st_size < MOST:
                return
        sys.exit(f"{path} is larger than {MOST} bytes.")


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="idp-") as folder:
        port = free_port()
        up = TerminalProgram([sys.executable, "-m", "inferdash.demo"],
                     {"PORT": str(port), "BOXES": "rtx8", "TMPDIR": folder, "NO_COLOR": "1"})  # fmt: skip
        try:
            up.waits_for("the demo is filled")
            threading.Event().wait(WARM_UP)
            with chromium() as browser:
                url = f"http://127.0.0.1:{port}"
                for colours in ("light", "dark"):
                    take_stills(browser, url, colours)
                take_film(browser, url)
        finally:
            up.press_ctrl_c()
            up.ends()


def take_stills(browser: Browser, url: str, colours: str) -> None:
    page = browser.new_page(viewport=SIZE, color_scheme=colours, device_scale_factor=1.5)  # type: ignore[arg-type]
    page.goto(url)
    for name, path in STILLS.items():
        page.goto(url + path)
        page.wait_for_timeout(3000)
        shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        shot.quantize(256, dither=Image.Dither.NONE).save(
            IMAGES / f"{name}-{colours}.png", optimize=True
        )
    page.close()


def take_film(browser: Browser, url: str) -> None:
    page = browser.new_page(viewport=SIZE, color_scheme="light")
    page.goto(url)
    film = Film(page)
    page.goto(f"{url}/profiles/paste/")
    film.show(0.8)
    for line in PASTE.splitlines(keepends=True):
        page.locator("#text").press_sequentially(line, delay=2)
        film.show(0.45)
    film.show(0.6)
    page.locator("main form button[type=submit], main form button.primary").first.click()
    page.locator("[name=name]").wait_for()
    page.wait_for_timeout(1500)
    page.locator("[name=name]").fill("Llama-3.3-70B")
    page.locator("details.fold summary").first.click()
    page.locator("[name=served_name]").fill("llama-3.3-70b")
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_timeout(1500)
    film.show(1.6)
    page.locator("button[type=submit]", has_text="Save and start").first.click()
    page.wait_for_load_state()
    page.wait_for_timeout(1500)
    for confirm in ("Start anyway", "Start it anyway"):
        button = page.locator("dialog[open] button", has_text=confirm)
        if button.count():
            film.show(1.0)
            if (
                reason := page.locator("dialog[open] textarea, dialog[open] input[type=text]")
            ).count():
                reason.first.fill("To see whether it fits")
            button.first.click()
            break
    page.wait_for_url(f"{url}/servers/llama-33-70b/")
    page.wait_for_timeout(500)
    failed = page.locator("text=Why it failed")
    film.follow(lambda: failed.count() > 0, every=0.8, shown=0.28, most=60)
    page.wait_for_timeout(700)
    film.show(3.0)
    page.locator("button", has_text="Apply fix and start").first.click()
    page.wait_for_timeout(500)
    chat = page.locator("main .actions a", has_text="Chat")
    film.follow(lambda: chat.count() > 0, every=0.9, shown=0.25, most=60)
    film.show(0.7)
    chat.first.click()
    page.locator("#chat-input").wait_for()
    page.locator("#chat-input").fill("How large is the KV cache?")
    film.show(0.8)
    page.locator("#chat-send").click()
    idle = page.locator("#chat-send:visible")
    page.wait_for_timeout(300)
    film.follow(lambda: idle.count() > 0, every=0.3, shown=0.14, most=15)
    page.wait_for_timeout(600)
    film.show(3.0)
    film.save(IMAGES / "first-answer.webp")
    page.close()


if __name__ == "__main__":
    main()
