"""From what a guide says to a running server and back: pasted, mended, saved, compared, started,
rolled back. Against Docker, in a browser."""

import pytest
from playwright.sync_api import Page, expect

from tests.base_images import ENGINE
from tests.browser.steps import card, fill_profile
from tests.installation import Installation

pytestmark = [pytest.mark.docker, pytest.mark.browser]

PASTE = f"""
# The guide's command
$ docker run -d --rm --gpus 2 \\
    -e ENGINE_SECONDS=0.2 -e NCCL_P2P_LEVEL=SYS \\
    {ENGINE} vllm serve Qwen/Qwen3-8B --served-model-name coder \\
    --tensor-parallel-size 2  # two cards
"""


def test_a_guides_command_becomes_a_server_and_every_version_can_come_back(
    page: Page, place: Installation
) -> None:
    page.goto(f"{place.url}/profiles/")
    page.get_by_role("link", name="Paste a command").click()
    page.get_by_label("Command or compose file").fill(PASTE)
    page.get_by_role("button", name="Import", exact=True).click()

    expect(page.locator("#imported")).to_contain_text("Imported docker run … " + ENGINE)
    page.locator("#imported summary").click()
    expect(page.get_by_role("heading", name="Import notes")).to_be_visible()
    expect(page.locator("#id_flags")).to_have_value("--tensor-parallel-size 2  # two cards")
    check = page.locator("#check")
    expect(check).to_contain_text("docker run")
    finding = check.locator(".check-item").filter(has_text="shared memory").first
    finding.get_by_role("button", name="Apply fix: --shm-size").click()
    expect(page.locator("#id_shm_size")).not_to_have_value("")
    expect(page.locator("#check")).to_contain_text("--shm-size")
    expect(page.locator("#check .check-item").filter(has_text="shared memory")).to_have_count(0)
    page.locator("#id_name").fill("Coder")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("heading", name="Coder", level=1)).to_be_visible()

    page.get_by_role("link", name="Edit").click()
    flags = "--tensor-parallel-size 2\n--max-model-len 8192  # longer"
    fill_profile(page, {"flags": flags, "message": "Longer context"})
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("link", name="Version 2", exact=True).click()
    row = page.get_by_role("row").filter(has_text="--max-model-len")
    expect(row).to_contain_text("8192")
    expect(row).to_contain_text("longer")

    page.goto(f"{place.url}/")
    card(page, "coder").get_by_role("button", name="Start").click()
    expect(card(page, "coder")).to_have_attribute("data-state", "ready")
    command = place.ask("Run.objects.get().start.command")
    assert isinstance(command, list)
    assert "--max-model-len" in command

    page.goto(f"{place.url}/profiles/coder/versions/1/")
    page.get_by_role("button", name="Go back to this version").click()
    expect(page.get_by_text("Version 3 says what version 1 said")).to_be_visible()
    assert place.ask("Profile.objects.get().launch.flags") == ["--tensor-parallel-size", "2"]
    # What runs goes on as it was started.
    assert place.ask("Run.objects.get().version.number") == 2


def test_a_start_that_is_known_to_fail_asks_first(page: Page, place: Installation) -> None:
    place.run(
        "from servers.launch.engines.launch import Launch\n"
        "profile = Profile.objects.create(slug='wide', name='wide', owner=User.objects.get())\n"
        f"launch = Launch(engine='vllm', image='{ENGINE}', checkpoint='a/b', gpus='0,1',\n"
        "    flags=('--tensor-parallel-size', '64'))\n"
        "profile.save_version(launch, by=User.objects.get(), message='First version')\n"
        "Server.objects.create(slug='wide', profile=profile, box=Box.objects.get())\n"
    )
    page.goto(f"{place.url}/")

    card(page, "wide").get_by_role("button", name="Start").click()

    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("is known to fail")
    dialog.get_by_label("Why start it anyway?").fill("the stand-in does not mind")
    dialog.get_by_role("button", name="Start anyway").click()
    expect(card(page, "wide")).to_have_attribute("data-state", "ready")
    assert (
        place.ask("Run.objects.latest('pk').plan.overridden_errors") == "the stand-in does not mind"
    )


def test_a_watcher_s_asking_is_seen_on_the_page(page: Page, place: Installation) -> None:
    page.goto(f"{place.url}/profiles/new/")
    fill_profile(page, {"name": "Asked", "checkpoint": "a/b", "image": ENGINE})
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("heading", name="Asked", level=1)).to_be_visible()

    expect(page.locator(".image-says")).to_contain_text(
        "exit code 1: This is the tests' engine: it has no flags to list."
    )
