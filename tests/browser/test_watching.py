"""Somebody else's engine is found on the page of its box, watched by one click, and talked to."""

import re
import signal
from collections.abc import Iterator

import docker
import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.base_images import ENGINE
from tests.browser.axe import faults
from tests.browser.chat.talk import ask
from tests.browser.chat.test_pictures import png
from tests.browser.chromium import PATIENCE
from tests.browser.steps import allow_mounts, card, eventually, key
from tests.browser.vllm_pictures import attach
from tests.browser.vllm_talk import ANSWERED, ask_for_long, go_on, slowed
from tests.installation import Installation
from tests.vllm import build, image

pytestmark = [pytest.mark.browser, pytest.mark.docker]

WITHIN = 2 * PATIENCE  # a round of the watcher is part of it
KILLED = 128 + signal.SIGKILL
VLLM_WITHIN = 15 * 60_000  # ms; about 65 s on two idle cores


@pytest.fixture
def stranger(place: Installation) -> Iterator[str]:
    """The name of an engine that somebody has started by `docker run`."""
    client = docker.APIClient(place.docker.host, version="auto", timeout=60)
    name = f"coder-{place.docker.install[:8]}"
    words = ["vllm", "serve", "Qwen/Qwen3-8B", "--host", "0.0.0.0"]
    made = client.create_container(
        ENGINE, words, name=name, environment={"ENGINE_SECONDS": "0.1"}, ports=[8000]
    )
    client.start(made["Id"])
    before = client.inspect_container(made["Id"])
    yield name
    assert client.inspect_container(made["Id"]) == before, "nobody has touched it"
    client.remove_container(made["Id"], force=True)
    client.close()


@pytest.mark.takes(60)
def test_an_engine_is_found_watched_and_talked_to(
    page: Page, place: Installation, stranger: str
) -> None:
    page.goto(f"{place.url}/boxes/rtx8/")
    row = page.locator(".others [data-container]").filter(has_text=stranger)
    expect(row).to_contain_text("vLLM 0.33.0-test", timeout=WITHIN)
    expect(row).to_contain_text("docker run, by hand or by a script")
    assert faults(page) == []

    row.get_by_role("button", name=f"Monitor {stranger}").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Its container is not touched")
    dialog.get_by_role("button", name="Monitor it").click()
    expect(row).to_contain_text(f"monitored as {stranger}", timeout=WITHIN)

    page.goto(f"{place.url}/")
    found = card(page, stranger)
    expect(found).to_have_attribute("data-state", "ready", timeout=WITHIN)
    expect(found.locator(".badge.watched")).to_contain_text(re.compile("monitored, up"))
    for verb in ("Stop", "Restart", "Remove"):
        expect(found.get_by_role("button", name=verb, exact=True)).to_have_count(0)

    page.goto(f"{place.url}/servers/{stranger}/")
    expect(page.locator(".watched-by")).to_contain_text("started by docker run")
    page.get_by_text("What its profile would start").click()
    expect(page.locator(".watched-by")).to_contain_text("does not publish the engine's port")
    assert faults(page) == []
    page.get_by_role("link", name="Log", exact=True).click()
    expect(page.locator("#log")).to_contain_text("engine pid", timeout=WITHIN)
    assert faults(page) == []

    page.get_by_role("link", name="Chat", exact=True).first.click()
    expect(page.get_by_label("Message", exact=True)).to_be_visible()
    page.get_by_label("Message", exact=True).fill("hello there")
    page.keyboard.press("Enter")
    expect(page.locator(".answer").last).to_contain_text("You said: hello there", timeout=WITHIN)

    headers = {"Authorization": f"Bearer {key(page, place)}"}
    with httpx.Client(base_url=place.url, headers=headers, timeout=60) as program:
        listed = program.get("/v1/models").json()["data"]
        hello = [{"role": "user", "content": "hello from a program"}]
        question = {"model": "Qwen/Qwen3-8B", "messages": hello}
        answer = program.post("/v1/chat/completions", json=question)
    assert [(each["id"], each["ready"]) for each in listed if each["id"] == question["model"]] == [
        ("Qwen/Qwen3-8B", True)
    ]
    said = answer.json()["choices"][0]["message"]["content"]
    assert "You said: hello from a program" in said, answer.text

    page.goto(f"{place.url}/servers/{stranger}/")
    page.once("dialog", lambda question: question.accept())
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("button", name="Stop monitoring").click()
    expect(page.locator("main")).to_contain_text("Not monitored any more", timeout=WITHIN)
    page.goto(f"{place.url}/")
    expect(card(page, stranger)).to_have_count(0)


@pytest.fixture
def vllm(place: Installation) -> Iterator[str]:
    """The name of vLLM itself, as somebody has just started it by `docker run`."""
    image.provide(place.docker.host)
    allow_mounts(place, build.MODEL.parent)  # for what its config.json says
    client = docker.APIClient(place.docker.host, version="auto", timeout=60)
    name = f"tiny-{place.docker.install[:8]}"
    flags = ["--served-model-name", "tiny", "--max-model-len", "4096", "--enforce-eager"]
    made = client.create_container(
        build.TAG,
        ["/models/tiny", *flags, "--max-num-seqs", "4"],
        name=name,
        environment={"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"},
        ports=[8000],
        host_config=client.create_host_config(
            binds=[f"{build.MODEL}:/models/tiny:ro"], shm_size=2**30
        ),
    )
    client.start(made["Id"])
    yield name
    assert client.inspect_container(made["Id"])["State"]["ExitCode"] == KILLED, "by the test alone"
    client.remove_container(made["Id"], force=True)
    client.close()


@pytest.mark.vllm
@pytest.mark.takes(330)
def test_vllm_itself_is_watched_from_its_start_to_its_death(
    page: Page, place: Installation, vllm: str
) -> None:
    watch_vllm(page, place, vllm)
    refuse_a_picture(page)
    kill_in_an_answer(page, place, vllm)


def watch_vllm(page: Page, place: Installation, vllm: str) -> None:
    page.goto(f"{place.url}/boxes/rtx8/found/")
    row = page.locator(".found-table [data-container]").filter(has_text=vllm)
    row.get_by_role("button", name=f"Monitor {vllm}").click(timeout=WITHIN)
    page.get_by_role("dialog").get_by_role("button", name="Monitor it").click()
    expect(row).to_contain_text(f"monitored as {vllm}", timeout=WITHIN)

    page.goto(f"{place.url}/servers/{vllm}/log/")
    head = page.locator("main header [data-state]")
    expect(head).to_have_attribute("data-state", "starting", timeout=WITHIN)
    expect(head).to_have_attribute("data-state", "ready", timeout=VLLM_WITHIN)
    expect(page.locator("#log")).to_contain_text("Application startup complete", timeout=WITHIN)
    expect(page.locator(".server-what")).to_contain_text("vLLM 0.32")
    phases = f"starts.read_progress(Run.objects.get(server__slug='{vllm}')).coarse"
    eventually(page, lambda: place.ask(phases) == ["load_weights", "kv_cache", "ready"])

    page.goto(f"{place.url}/chat/?server={vllm}")
    page.get_by_label("Message", exact=True).fill("What is the capital of France?")
    page.keyboard.press("Enter")
    expect(page.locator(".answer").last).to_contain_text("first token", timeout=VLLM_WITHIN)
    # Random weights may go on to the limit; until then nothing else can be sent.
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible(timeout=VLLM_WITHIN)


def refuse_a_picture(page: Page) -> None:
    """Its model is for texts alone."""
    attach(page, "square.png", png(64, 64))
    expect(page.locator("#chat-pictures-note")).to_contain_text("By its config.json the model")
    ask(page, "What is it?")
    alert = page.locator(".answer").last.get_by_role("alert")
    said = (
        "The engine refused the request (400): tiny is not a multimodal model. Remove the pictures"
    )
    expect(alert).to_contain_text(said, timeout=ANSWERED)


def kill_in_an_answer(page: Page, place: Installation, vllm: str) -> None:
    page.get_by_role("button", name="New conversation").click()
    go_on(page)
    with slowed(place, vllm) as client:
        ask_for_long(page)
        shown = page.locator(".answer").last
        expect(shown.locator(".markdown")).not_to_be_empty(timeout=ANSWERED)
        client.kill(vllm, signal.SIGKILL)

    alert = shown.get_by_role("alert")
    expect(alert).to_contain_text("lost in the middle of the answer: it has died")
    expect(alert).to_contain_text("What had arrived is kept.")
    expect(alert.get_by_role("button", name="Retry")).to_be_visible()
    expect(shown.locator(".markdown")).not_to_be_empty()
    standing = page.locator("#chat-standings .standing:visible")
    expect(standing).to_contain_text("Started elsewhere", timeout=WITHIN)
    page.get_by_label("Message", exact=True).fill("Are you there?")
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_disabled()
