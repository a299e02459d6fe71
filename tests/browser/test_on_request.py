"""Servers that nobody starts by hand: a request does, and another one takes their place."""

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.base_images import ENGINE
from tests.browser.axe import faults
from tests.browser.chromium import PATIENCE
from tests.browser.steps import eventually, fill_profile, key, unfold
from tests.installation import Installation
from tests.nvml import profiles

pytestmark = [pytest.mark.browser, pytest.mark.docker]

GIB = 2**30
WITHIN = 2 * PATIENCE


def made(page: Page, place: Installation, name: str) -> None:
    page.goto(f"{place.url}/profiles/new/")
    values = {"name": name, "checkpoint": "a/b", "image": ENGINE, "env": "ENGINE_SECONDS=0"}
    fill_profile(page, {**values, "gpus": "0", "aliases": f"{name}-alias"})
    unfold(page, "start_on_request")
    page.get_by_label("Start on demand", exact=True).check()
    page.get_by_label("Idle timeout", exact=True).fill("30m")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()


def fills_the_card(page: Page, place: Installation) -> None:
    """The engine that runs does."""
    (engine,) = [each for each in place.docker.list_ours() if each.state == "running"]
    assert engine.pid is not None
    machine = profiles.rtx_pro_6000()
    machine.cards[0].run(engine.pid, 61 * GIB)
    place.gpus.show(machine)
    expect(page.get_by_role("row", name="GPU 0 ")).to_contain_text("61.0", timeout=WITHIN)


@pytest.mark.takes(30)
def test_a_request_starts_its_server_and_takes_the_place_of_an_idle_one(
    page: Page, place: Installation
) -> None:
    made(page, place, "alpha")
    made(page, place, "beta")
    headers = {"Authorization": f"Bearer {key(page, place)}"}
    hello = {"messages": [{"role": "user", "content": "hello"}]}
    page.goto(f"{place.url}/")
    alpha, beta = (page.locator(f"article[data-name={name}]") for name in ("alpha", "beta"))
    expect(alpha).to_have_attribute("data-state", "idle")

    with (
        ThreadPoolExecutor() as asking,
        httpx.Client(base_url=place.url, headers=headers, timeout=120) as program,
    ):
        first = asking.submit(
            program.post, "/v1/chat/completions", json={"model": "alpha-alias", **hello}
        )
        assert first.result(120).status_code == 200
        expect(alpha).to_have_attribute("data-state", "ready", timeout=WITHIN)
        fills_the_card(page, place)

        second = asking.submit(
            program.post, "/v1/chat/completions", json={"model": "beta", **hello}
        )
        stopped = page.locator("[data-name=alpha][data-state=stopped]")
        expect(stopped).to_be_visible(timeout=WITHIN)
        place.gpus.show(profiles.rtx_pro_6000())
        assert second.result(120).status_code == 200

    expect(beta).to_have_attribute("data-state", "ready", timeout=WITHIN)
    fills_the_card(page, place)
    page.goto(f"{place.url}/servers/alpha/")
    expect(page.get_by_text("Stopped to make room for beta, which a request")).to_be_visible()
    page.goto(f"{place.url}/servers/beta/")
    expect(page.get_by_text("A request of ana has started it. It stops after 30m")).to_be_visible()
    assert faults(page) == []
    page.get_by_role("button", name="Keep running").click()
    expect(page.get_by_text("has started it")).not_to_be_visible()

    refused = httpx.post(
        f"{place.url}/v1/chat/completions", json={"model": "alpha", **hello}, headers=headers
    )
    assert refused.status_code == 503
    assert "held by beta (ana)" in refused.json()["error"]["message"]
    page.goto(f"{place.url}/gateway/")
    expect(page.get_by_role("region", name="In the order in which")).to_contain_text("alpha")


DOZER = """
from servers.launch.engines.launch import Launch
person = User.objects.get()
launch = Launch(
    engine="vllm", image="{image}", checkpoint="a/dozer", gpus="none", start_on_request=True,
    stop_idle=3, when_idle="sleep-1", flags=("--enable-sleep-mode",),
    env={{"VLLM_SERVER_DEV_MODE": "1", "ENGINE_SECONDS": "0"}},
)
profile = Profile.objects.create(slug="dozer", name="dozer", owner=person)
profile.save_version(launch, by=person)
Server.objects.create(slug="dozer", profile=profile, box=Box.objects.get())
"""
CONTAINER = "Run.objects.filter(server__slug='dozer').latest('pk').container_id"


@pytest.mark.takes(60)
def test_an_idle_one_goes_to_sleep_and_a_request_wakes_it(page: Page, place: Installation) -> None:
    headers = {"Authorization": f"Bearer {key(page, place)}"}
    place.run(DOZER.format(image=ENGINE))
    # The page of the new key has asked for the names, which are remembered for a second.
    eventually(page, lambda: "dozer" in httpx.get(f"{place.url}/v1/models", headers=headers).text)
    page.goto(f"{place.url}/")
    dozer = page.locator("article[data-name=dozer]")
    hello = {"model": "dozer", "messages": [{"role": "user", "content": "hello"}]}

    with httpx.Client(base_url=place.url, headers=headers, timeout=120) as program:
        assert program.post("/v1/chat/completions", json=hello).status_code == 200
        expect(dozer).to_have_attribute("data-state", "asleep", timeout=WITHIN)
        expect(dozer).to_contain_text("Asleep: ", timeout=WITHIN)
        assert faults(page) == []
        engine = place.ask(CONTAINER)

        assert program.post("/v1/chat/completions", json=hello).status_code == 200
        expect(dozer).to_contain_text("wakes in about", timeout=WITHIN)
    assert place.ask(CONTAINER) == engine, "it was not started anew"
