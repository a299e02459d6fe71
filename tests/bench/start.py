"""How soon a second browser sees what happens: a click on Start, a container's death."""

import statistics
import time
from collections.abc import Iterator
from typing import cast

from playwright.sync_api import Page

from tests import docker_engine
from tests.base_images import ENGINE
from tests.bench.result import BenchResult, progress
from tests.browser.chromium import chromium, new_page
from tests.browser.steps import join
from tests.installation import Installation, installation
from tests.nvml import profiles

SLUG = "timed"
ROUNDS = 15
CLICK_LIMIT, DEATH_LIMIT, CTRL_C_LIMIT = 300.0, 2000.0, 10.0
WATCH = f"""
window.seen = [];
addEventListener("DOMContentLoaded", () => {{
  const look = () => {{
    const state = document.querySelector('article[data-name="{SLUG}"]')?.dataset.state;
    if (state && state !== window.seen.at(-1)?.[0]) window.seen.push([state, Date.now()]);
  }};
  look();
  new MutationObserver(look).observe(document.body, {{
    subtree: true, childList: true, attributes: true,
  }});
}});
"""
# Playwright's own waiting asks by eval, which our policy refuses.
WHEN = """
(states) => new Promise((resolve) => {
  const look = () => {
    const found = window.seen.find(([state]) => states.includes(state));
    if (found) resolve(found[1]);
    else requestAnimationFrame(look);
  };
  look();
})
"""
CLICK = f"""
() => {{
  const card = document.querySelector('article[data-name="{SLUG}"]');
  const buttons = [...card.querySelectorAll("button")];
  const clickedAt = Date.now();
  buttons.find((each) => each.textContent.trim() === "Start").click();
  return clickedAt;
}}
"""


def bench() -> Iterator[BenchResult]:
    with (
        docker_engine.lease() as host,
        installation(host, profiles.rtx_pro_6000()) as place,
        chromium() as browser,
    ):
        first = new_page(browser.new_context(), [])
        join(first, place)
        second = new_page(browser.new_context(storage_state=first.context.storage_state()), [])
        _make(place)
        for page in (first, second):
            page.add_init_script(WATCH)
            page.goto(f"{place.url}/")
        rounds = [_round(place, first, second) for _number in range(ROUNDS)]
        clicks, deaths = zip(*rounds, strict=True)
        yield BenchResult(
            name="Start: from the click to the card in a second browser, p50",
            value=statistics.median(clicks),
            unit="ms",
            limit=CLICK_LIMIT,
        )
        yield BenchResult(
            name=f"a container's death, until the card says so (worst of {ROUNDS})",
            value=max(deaths),
            unit="ms",
            limit=DEATH_LIMIT,
        )
        yield _ctrl_c(place)


def _make(place: Installation) -> None:
    place.run(
        "from servers.launch.engines.launch import Launch\n"
        "person = User.objects.get()\n"
        f"profile = Profile.objects.create(slug='{SLUG}', name='{SLUG}', owner=person)\n"
        f"launch = Launch(engine='vllm', image='{ENGINE}', checkpoint='Qwen/Qwen3-8B',\n"
        "    served_name='tiny', env={'ENGINE_SECONDS': '0'})\n"
        "profile.save_version(launch, by=person, message='First version')\n"
        f"Server.objects.create(slug='{SLUG}', profile=profile, box=Box.objects.get())\n"
    )


def _round(place: Installation, first: Page, second: Page) -> tuple[float, float]:
    """Milliseconds from the click, and from the death, to the second browser."""
    _ready_to_click(first)
    second.evaluate("window.seen = []")
    clicked_at = first.evaluate(CLICK)
    queued = _when(second, ["queued", "pulling", "creating", "starting", "ready"])
    _when(second, ["ready"])
    container = next(each for each in place.docker.list_ours() if each.state == "running")
    died_at = time.time() * 1000
    place.docker.signal(container.id, "SIGKILL")
    failed = _when(second, ["failed"])
    told = queued - clicked_at, failed - died_at
    progress(f"click {told[0]:.0f} ms, death {told[1]:.0f} ms")
    return told


def _ready_to_click(page: Page) -> None:
    card = page.locator(f'article[data-name="{SLUG}"]')
    card.get_by_role("button", name="Start", exact=True).wait_for()


def _when(page: Page, states: list[str]) -> float:
    """The moment at which the card was first in one of these states."""
    return cast(float, page.evaluate(WHEN, states))


def _ctrl_c(place: Installation) -> BenchResult:
    """With two browsers that hold their sockets open."""
    began = time.monotonic()
    place.up.press_ctrl_c()
    place.up.ends()
    return BenchResult(
        name="Ctrl-C with two browsers open, until everything has ended",
        value=time.monotonic() - began,
        unit="s",
        limit=CTRL_C_LIMIT,
    )
