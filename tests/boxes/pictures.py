"""Makes the pictures of docs/boxes.md anew: `python -m tests.boxes.pictures`, as root.

A hub and another machine, in a network namespace of its own, walk the way of a token.
"""

import io
import re
import tempfile
from contextlib import ExitStack
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, expect

from tests import docker_engine
from tests.boxes.cable import cabled_network
from tests.boxes.lan import BoxLan, lan_hub, make_environment
from tests.boxes.rig import JOIN, PATIENT
from tests.browser.chromium import chromium
from tests.browser.steps import PASSWORD
from tests.pictures import IMAGES
from tests.terminal import TerminalProgram

WIDTH = 1280


def main() -> None:
    with docker_engine.lease() as host, ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="idb-")))
        lan = stack.enter_context(lan_hub(host, folder))
        network = stack.enter_context(cabled_network())
        # To the address that the hub has for other machines.
        network.namespace.run("ip", "route", "add", "default", "dev", network.device)
        browser = stack.enter_context(chromium())
        page = browser.new_page(viewport={"width": WIDTH, "height": 620}, device_scale_factor=1.25)
        become_admin(page, lan)
        page.goto(f"{lan.url}/settings/links/add/")
        page.get_by_role("button", name="Make a token").click()
        command = page.locator("#join")
        expect(command).to_contain_text("make join TOKEN=")
        keep(page, "boxes-token")
        token = command.inner_text().partition("TOKEN=")[2].strip()
        environment = make_environment(folder, "milo", host)
        joining = TerminalProgram(
            [*network.namespace.prefix, *JOIN],
            environment | {"TOKEN": token, "NAME": "milo"},
            patience=PATIENT,
        )
        stack.callback(joining.ends)
        stack.callback(joining.press_ctrl_c)
        words = joining.waits_for(r"inferdash:\s+((?:[a-z]+ ){5}[a-z]+)")[1]
        page.goto(f"{lan.url}/settings/boxes/")
        expect(page.locator("#box-requests")).to_contain_text(words)
        keep(page, "boxes-words")
        page.get_by_role("link", name="Let in…").click()
        page.get_by_role("dialog").get_by_role("button", name="let it in").click()
        joining.waits_for("Watching milo")
        page.goto(f"{lan.url}/settings/boxes/")
        expect(page.get_by_text("joined", exact=True)).to_be_visible()
        keep(page, "boxes-joined")


def become_admin(page: Page, lan: BoxLan) -> None:
    link = lan.hub.up.waits_for(r"opens this link, which works once: (\S+)")[1]
    page.goto(link)
    page.get_by_label("Name").fill("ana")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_label("Password again").fill(PASSWORD)
    page.locator("main form button").click()
    page.wait_for_url(lambda url: not re.search("/join/", url))


def keep(page: Page, name: str) -> None:
    shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    shot.quantize(256, dither=Image.Dither.NONE).save(IMAGES / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
