"""Images, in a browser: pulled, cancelled, pulled again, moved to a newer build, built, removed."""

from collections.abc import Iterator
from contextlib import closing, suppress

import pytest
from docker import APIClient
from docker.errors import APIError, ImageNotFound
from playwright.sync_api import Page, expect

from tests.base_images import BASE
from tests.browser.axe import faults
from tests.installation import Installation
from tests.registry import Registry, registry

pytestmark = [pytest.mark.docker, pytest.mark.browser]

PROFILE = """
from servers.launch.engines.launch import Launch
profile = Profile.objects.create(slug="patched", name="patched", owner=User.objects.get())
profile.save_version(Launch(engine="vllm", image={image!r}, checkpoint="Qwen/Qwen3-8B",
    dockerfile="FROM {base}\\nRUN echo it is patched > /patched && cat /patched # {unique}\\n"), by=None)
Server.objects.create(slug="patched", profile=profile, box=Box.objects.get())
"""


@pytest.fixture
def store(place: Installation) -> Iterator[Registry]:
    with registry(place.docker.facts().architecture, layers=3) as made:
        made.name = f"vllm-{made.name}"  # so that it is taken for an engine
        yield made
    with closing(APIClient(place.docker.host, version="auto")) as client:
        for each in client.images():
            names = [*(each["RepoTags"] or ()), *(each["RepoDigests"] or ())]
            if any(f"/{made.name}" in name or "inferdash/patched" in name for name in names):
                for name in names:
                    with suppress(ImageNotFound, APIError):
                        client.remove_image(name)


def _check_tags(page: Page) -> None:
    page.get_by_role("button", name="More for rtx8").click()
    page.get_by_role("button", name="Check for newer builds on rtx8").click()


@pytest.mark.takes(90)
def test_images_are_pulled_moved_built_and_removed(
    page: Page, place: Installation, store: Registry
) -> None:
    jobs = page.locator("#jobs li")
    page.get_by_role("link", name="Images", exact=True).click()
    expect(page.get_by_role("heading", name="rtx8")).to_be_visible()
    assert faults(page) == []

    # A pull is told by its layers, survives a reload, is cancelled and begun again.
    store.hold, store.whole = True, 1
    page.get_by_label("Image to pull").fill(store.image)
    page.get_by_role("button", name="Pull", exact=True).click()
    expect(jobs.first.get_by_role("progressbar")).to_be_visible()
    expect(jobs.first).to_contain_text("%")
    page.reload()
    jobs.first.get_by_text("3 layers").click()
    expect(page.locator("[data-layer=done]")).to_have_count(1)
    expect(page.locator("[data-layer=downloading]").first).to_be_visible()
    assert faults(page) == []
    page.get_by_role("button", name=f"Cancel {store.image}").click()
    expect(jobs.first).to_contain_text("pulling again begins anew")
    store.go_on.set()
    page.get_by_role("button", name=f"Pull again: {store.image}").click()
    expect(jobs.first).to_contain_text("is there now")
    row = page.get_by_role("row").filter(has_text=store.image)
    expect(row).to_contain_text("vLLM")
    expect(row.locator(".names")).to_have_text("–")

    # A newer build behind the tag is noticed, comes beside it, and can be left again.
    place.run(PROFILE.format(image=store.image, base=BASE, unique=store.name))
    _check_tags(page)
    expect(page.get_by_text("newer builds: none, checked")).to_be_visible()
    with registry(place.docker.facts().architecture, layers=1) as newer:
        store.blobs, store.manifest = newer.blobs, newer.manifest
    _check_tags(page)
    page.get_by_role("button", name=f"Pull newer build: {store.image}").click()
    told = page.locator(f'[data-tag="{store.image}"]')
    expect(told).to_contain_text("newer build pulled")
    told.locator("summary").click()
    expect(told).to_contain_text("flags could not be read")
    page.get_by_role("button", name=f"Move tag: {store.image}").click()
    expect(page.locator("#dialog")).to_contain_text("1 unknown")
    assert faults(page) == []
    page.get_by_role("button", name="Move the tag", exact=True).click()
    expect(jobs.first).to_contain_text("the next start takes this one")
    page.get_by_role("button", name=f"Move tag back: {store.image}").click()
    page.locator("#dialog").get_by_role("button", name="Move the tag back").click()
    expect(jobs.first).to_contain_text("as before")
    expect(told).to_contain_text("newer build pulled")

    # The image of the profile's own Dockerfile, its log followed, and then used.
    page.goto(f"{place.url}/profiles/patched/")
    page.get_by_role("button", name="Build it on rtx8").click()
    expect(page.locator(".build-log")).to_contain_text("it is patched")
    expect(page.locator(".build-log")).to_contain_text("Successfully tagged inferdash/patched:")
    assert faults(page) == []
    page.get_by_role("button", name="Let patched start from it").click()
    expect(page.locator("#build")).to_contain_text("The profile starts from it.")

    # Nobody names the first image any more: it may go, and the built one stays.
    page.goto(f"{place.url}/images/")
    expect(page.get_by_text("built for patched")).to_be_visible()
    page.get_by_role("button", name="More for rtx8").click()
    page.get_by_role("link", name="Clean up images on rtx8").click()
    # Because patched would start it next; while it is asked for its flags, because of that container.
    staying = page.get_by_role("region", name="What stays").get_by_role("listitem")
    expect(staying.filter(has_text="inferdash/patched:")).to_be_visible()
    assert faults(page) == []
    for tick in page.get_by_role("checkbox").all():
        tick.uncheck()
    page.get_by_role("checkbox", name=f"Remove {store.image}").check()
    page.get_by_role("button", name="Remove ticked images").click()
    expect(jobs.first).to_contain_text("Removed 1 image")
    expect(row).to_have_count(0)

    page.set_viewport_size({"width": 390, "height": 844})
    page.reload()
    expect(page.locator('[data-image] a[href^="/images/"]').first).to_be_visible()
    assert faults(page) == []
