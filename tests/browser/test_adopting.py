"""A box that is already full: its first page names everything, and only what was asked for changes."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.errors import NotFound
from playwright.sync_api import Browser, Locator, Page, expect
from playwright.sync_api import Error as PlaywrightError

from tests.base_images import ENGINE
from tests.browser.axe import faults
from tests.browser.chromium import PATIENCE, new_page
from tests.browser.steps import PASSWORD, card, eventually
from tests.external.takeover.bare import engine
from tests.installation import Installation
from tests.ports import free_port
from tests.weights.test_inventory import folder, weights

pytestmark = [pytest.mark.browser, pytest.mark.docker]

WITHIN = 2 * PATIENCE  # rounds of the watcher are part of it
WORDS = ["vllm", "serve", "Qwen/Qwen3-8B", "--host", "0.0.0.0"]
KEPT = ("Id", "Name", "Created", "Config", "HostConfig", "Mounts", "RestartCount", "State", "Image")


@dataclass
class Full:
    """What somebody had on the box before inferdash came."""

    place: Installation
    client: docker.APIClient
    ids: dict[str, str]
    process: "subprocess.Popen[bytes]"  # of a venv, with a file for its log

    @property
    def pid(self) -> int:
        return self.process.pid

    def name(self, short: str) -> str:
        return f"{short}-{self.place.docker.install[:8]}"

    def inspected(self) -> dict[str, dict[str, Any]]:
        found = {short: self.client.inspect_container(key) for short, key in self.ids.items()}
        return {short: {part: said[part] for part in KEPT} for short, said in found.items()}


@pytest.fixture
def full(place: Installation, tmp_path: Path) -> Iterator[Full]:
    client = docker.APIClient(place.docker.host, version="auto", timeout=60)
    ids: dict[str, str] = {}

    def run(short: str, **options: Any) -> None:
        host = {"port_bindings": {8000: ("127.0.0.1", None)}} | options.pop("host", {})
        made = client.create_container(
            ENGINE,
            WORDS,
            name=f"{short}-{place.docker.install[:8]}",
            environment={"ENGINE_SECONDS": "0.1"},
            ports=[8000],
            host_config=client.create_host_config(**host),
            **options,
        )
        ids[short] = made["Id"]
        client.start(made["Id"])

    models = place.data.parent / "models"
    (place.data / "box.toml").write_text(f'mount_roots = ["{models}"]\n')
    weights(folder(models / "zai-org" / "GLM-5") / "model-00001.safetensors", 2**30)
    compose = "com.docker.compose"
    run("coder")
    run(
        "speech",
        labels={
            f"{compose}.project": "speech",
            f"{compose}.service": "llm",
            f"{compose}.project.working_dir": "/srv/speech",
        },
        host={"restart_policy": {"Name": "unless-stopped"}},
    )
    run("ended")
    client.stop(ids["ended"], timeout=1)
    log = tmp_path / "vllm.log"
    with log.open("wb") as file, engine(tmp_path, free_port(), log=file) as process:
        yield Full(place=place, client=client, ids=ids, process=process)
    for container in ids.values():
        with suppress(NotFound):
            client.remove_container(container, force=True, v=True)
    client.close()


@pytest.fixture
def newcomer(browser: Browser) -> Iterator[Page]:
    """The page of somebody who has not joined yet."""
    complaints: list[str] = []
    yield new_page(browser.new_context(), complaints)
    assert complaints == []


def opens(page: Page, button: Locator) -> None:
    """Press until its dialog is there: containers that start change the network under the browser,
    and a page that has missed a script loads itself again."""

    def is_open() -> bool:
        if not page.get_by_role("dialog").is_visible():
            with suppress(PlaywrightError):
                button.click(timeout=3_000)
        return page.get_by_role("dialog").is_visible()

    eventually(page, is_open)


def faults_of(page: Page) -> list[str]:
    """For the same reason a page may be loading itself again just now."""
    page.wait_for_load_state()
    try:
        return faults(page)
    except PlaywrightError:
        page.wait_for_load_state()
        return faults(page)


@pytest.mark.takes(60)
def test_the_first_page_names_all_and_only_what_was_asked_for_changes(
    newcomer: Page, full: Full
) -> None:
    page, place = newcomer, full.place
    before = full.inspected()

    def row(named: str) -> Locator:
        return page.locator(".found-table [data-container]").filter(has_text=named)

    page.goto(place.link)
    page.get_by_label("Name").fill("ana")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_label("Password again").fill(PASSWORD)
    page.locator("main form button").click()

    page.wait_for_url(f"{place.url}/boxes/rtx8/found/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Engines found on rtx8")
    coder, speech, ended = (row(full.name(each)) for each in ("coder", "speech", "ended"))
    expect(coder).to_contain_text("vLLM 0.33.0-test", timeout=WITHIN)
    expect(coder).to_contain_text("docker run, by hand or by a script")
    expect(speech).to_contain_text("compose project speech (service llm, in /srv/speech)")
    expect(ended).to_contain_text(re.compile(r"exited with \d+"), timeout=WITHIN)
    process = row(f"process {full.pid}")
    expect(process).to_contain_text("a process, in no container")
    expect(process).to_contain_text("vLLM 0.33.0-test", timeout=WITHIN)
    expect(coder).to_contain_text("0 running", timeout=WITHIN)
    expect(page.get_by_role("link", name=re.compile(r"^\d+ images?$"))).to_be_visible()
    assert faults_of(page) == []

    # Where models lie is said in the settings, and the page hears of them by itself.
    models = place.data.parent / "models"
    place.run(
        f"Box.objects.update(model_folders='{models}')\n"
        "from django.utils import timezone\nfrom servers import events\n"
        "ModelInventory.objects.update(wanted_at=timezone.now())\nevents.wake_watcher('rtx8', events.Topic.MODELS)"
    )
    expect(page.get_by_role("link", name="1 model", exact=True)).to_be_visible(timeout=WITHIN)
    assert full.inspected() == before

    opens(page, coder.get_by_role("button", name="Monitor"))
    page.get_by_role("dialog").get_by_role("button", name="Monitor it").click()
    expect(coder).to_contain_text(f"monitored as {full.name('coder')}", timeout=WITHIN)

    opens(page, process.get_by_role("button", name="Monitor"))
    expect(page.get_by_role("dialog")).to_contain_text("The process is not touched")
    page.get_by_role("dialog").get_by_role("button", name="Monitor it").click()
    expect(process).to_contain_text("monitored as qwen3-8b", timeout=WITHIN)

    ended.get_by_role("button", name="Make a profile").click()
    expect(ended).to_contain_text("compared with it", timeout=WITHIN)
    expect(page.locator(".page-head")).to_contain_text("nothing was started, stopped or changed")
    assert full.inspected() == before
    ended.get_by_role("link", name="compared with it").click()
    expect(page.get_by_role("heading", name=re.compile("^Differs"))).to_be_visible()
    expect(page.locator("tr[data-verdict=same]").filter(has_text="model")).to_contain_text(
        "Qwen/Qwen3-8B"
    )
    expect(page.get_by_role("heading", name=re.compile("comes from the image"))).to_be_visible()
    assert faults_of(page) == []
    page.get_by_role("link", name=full.name("ended")).click()
    page.get_by_role("button", name="More actions").click()
    expect(page.get_by_role("link", name="Compared")).to_be_visible()

    page.get_by_role("navigation", name="Boxes").get_by_role("link").first.click()
    page.get_by_role("link", name="Other engines").click()
    opens(page, speech.get_by_role("button", name="Take over"))
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"docker update --restart=no {full.name('speech')}")
    expect(dialog).to_contain_text("docker compose -p speech up -d")
    assert faults_of(page) == []
    dialog.get_by_role("textbox").fill(full.name("coder"))
    dialog.get_by_role("button", name="Stop it and take over").click()
    expect(dialog).to_be_visible()
    dialog.get_by_role("textbox").fill(full.name("speech"))
    dialog.get_by_role("button", name="Stop it and take over").click()
    told = page.locator("[data-action-state=done]").filter(has_text="takes over from")
    expect(told).to_contain_text("is stopped and stays on the box", timeout=WITHIN)
    expect(speech).to_contain_text("exited with", timeout=WITHIN)
    expect(page.locator(".page-head")).not_to_contain_text("nothing was started")

    page.goto(f"{place.url}/")
    ours = card(page, full.name("speech"))
    expect(ours).to_have_attribute("data-state", "ready", timeout=WITHIN)
    expect(ours.get_by_role("button", name="Stop", exact=True)).to_be_visible()
    ours.get_by_role("link", name=full.name("speech"), exact=True).click()
    expect(page.get_by_label("Taken over")).to_contain_text(f"docker start {full.name('speech')}")
    assert faults_of(page) == []

    # The one that was asked for has ended, and nothing else is different.
    after = full.inspected()
    assert not after["speech"].pop("State")["Running"]
    before["speech"].pop("State")
    assert after == before

    assert full.process.poll() is None, "nobody has touched the process"
    page.goto(f"{place.url}/servers/qwen3-8b/")
    told = page.locator(".watched-by")
    expect(told).to_contain_text(f"as process {full.pid} in no container", timeout=WITHIN)
    assert faults_of(page) == []
    page.get_by_role("link", name="Log", exact=True).click()
    expect(page.locator("#log")).to_contain_text("Application startup complete", timeout=WITHIN)
    assert faults_of(page) == []
    full.process.kill()
    head = page.locator("main header [data-state]")
    expect(head).to_have_attribute("data-state", "failed", timeout=WITHIN)
    page.get_by_role("link", name="Overview", exact=True).click()
    expect(page.locator("main")).to_contain_text("With which exit code is not known")

    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{place.url}/boxes/rtx8/found/")
    expect(coder).to_be_visible()
    assert faults_of(page) == []
