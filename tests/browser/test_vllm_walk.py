"""The main job with vLLM itself: a profile, a start, its log, a chat, a stop."""

import time
from pathlib import Path

import anthropic
import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import new_page
from tests.browser.steps import allow_mounts, card, fill_profile, join, stop
from tests.browser.vllm_pictures import keep, programs_show, show
from tests.browser.vllm_talk import FLAGS, NAME, talk
from tests.installation import Installation
from tests.vllm import build, image

pytestmark = [pytest.mark.vllm, pytest.mark.browser]

# ms; about 13 s on two idle cores. Everything else comes first, and it is given half an hour.
ASKED_WITHIN = 35 * 60_000
WRITTEN_WITHIN = 90.0  # s
QUIET = "--disable-access-log-for-endpoints"
START_WITHIN = 15 * 60_000  # ms; about 65 s on two idle cores


@pytest.fixture
def place(place: Installation, docker_host: str) -> Installation:
    """Whose box has the image, and lets profiles mount the model."""
    image.provide(docker_host)
    allow_mounts(place, build.MODEL.parent)
    return place


@pytest.mark.takes(510)
def test_vllm_is_started_watched_talked_to_and_stopped(
    place: Installation,
    browser: Browser,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    complaints: list[str] = []
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = new_page(context, complaints)
    join(page, place)
    fill_in(page, place)
    wait_until_asked(page, place)
    expect(page.locator("pre.command")).to_contain_text(f"{QUIET} /health,/metrics")

    page.goto(f"{place.url}/")
    tiny = card(page, NAME)
    tiny.get_by_role("button", name="Start").click()
    expect(tiny).to_have_attribute("data-state", "starting")
    page.goto(f"{place.url}/servers/{NAME}/log/")
    log = page.locator("run-log")
    expect(log).to_contain_text("vLLM", timeout=START_WITHIN)
    head = page.locator("main header [data-state]")
    expect(head).to_have_attribute("data-state", "ready", timeout=START_WITHIN)
    expect(log).to_contain_text("Application startup complete")
    page.get_by_role("link", name="Overview", exact=True).click()
    # Its weights are random: what it says is no language, which is told and harms nothing.
    facts = page.get_by_role("region", name="This run")
    # How fast is not said where a busy machine heard them all at once.
    expect(facts).to_contain_text("64 tokens, the first after", timeout=START_WITHIN)
    expect(head).to_have_attribute("data-state", "ready")

    began = time.monotonic()
    figures = talk(page, place)
    took = time.monotonic() - began

    programs_ask(place)
    lines_are_tested(page, place)

    began = time.monotonic()
    page.goto(f"{place.url}/chat/?server={NAME}")
    # Of the checkpoint it is known that it takes pictures.
    chosen = page.locator(f'#chat-servers [data-slug="{NAME}"]')
    expect(chosen).to_have_attribute("data-images", "true")
    jpeg = show(page)
    token = key_of(place, "pictures")
    keep(page, token, tmp_path)
    programs_show(place.url, token, jpeg)
    looked = time.monotonic() - began

    page.goto(f"{place.url}/servers/{NAME}/metrics/")
    work = page.get_by_role("region", name="Metrics", exact=True)
    for figure in ("first token", "between tokens", "Whole answer", "KV cache"):
        expect(work).to_contain_text(figure)
    expect(work.locator("engine-charts canvas").first).to_be_visible()
    told = ", ".join(work.locator(".metric-now, dl.figures div").all_inner_texts()).replace(
        "\n", " "
    )

    page.goto(f"{place.url}/")
    log_text = context.request.get(
        f"{place.url}/runs/{place.ask('Run.objects.get().pk')}/log/"
    ).text()
    stop(page, tiny, within=START_WITHIN)

    page.goto(f"{place.url}/chat/?server={NAME}")
    expect(page.locator("#chat-standing")).to_contain_text(f"{NAME} is stopped")
    expect(page.get_by_role("button", name=f"Start {NAME}")).to_be_visible()

    assert complaints == []
    assert "POST /v1/chat/completions" in log_text
    assert "GET /metrics" not in log_text
    assert "GET /health" not in log_text
    run = place.ask(
        "[(r.start.engine_version, r.exit_code, (r.ready_at - r.created_at).total_seconds(),"
        " (r.ended_at - r.stop_requested_at).total_seconds(), r.log.lines)"
        " for r in Run.objects.all()]"
    )
    seen = place.ask(
        "[(p.coarse, p.facts['version']) for p in map(starts.read_progress, Run.objects.all())]"
    )
    first = (
        "[[r.health.first_answer[key] for key in ('finish', 'tokens')] for r in Run.objects.all()]"
    )
    assert place.ask(first) == [["length", 64]]
    speed = place.ask(
        "[(r.health.first_answer['rate'], r.health.ready_but) for r in Run.objects.all()]"
    )
    # On the CPU and with --enforce-eager it compiles and captures nothing.
    assert seen == [[["load_weights", "kv_cache", "ready"], "0.32.0"]]
    with capsys.disabled():
        print(f"\nvLLM: version, exit code, s to ready, s to stop, log lines: {run}")
        print(f"vLLM: its first answer, tokens a second and “ready, but”: {speed}")
        print(f"vLLM: {took:.1f} s in the playground, of its first answer: {figures}")
        print(f"vLLM: {looked:.1f} s with pictures; at work: {told}")


def key_of(place: Installation, name: str) -> str:
    made = f"Key.make(User.objects.get(), {name!r}, Role.OPERATOR, expires_at=None)[1]"
    token = place.ask(made)
    assert isinstance(token, str)
    return token


def programs_ask(place: Installation) -> None:
    """Both APIs, by their makers' packages, through the one address."""
    token = key_of(place, "programs")
    question: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hello"}]
    with openai.OpenAI(base_url=f"{place.url}/v1", api_key=token, max_retries=0) as client:
        assert [model.id for model in client.models.list()] == [NAME]
        whole = client.chat.completions.create(model=NAME, messages=question, max_tokens=5)
        assert whole.usage is not None
        assert whole.usage.completion_tokens == 5
        stream = client.chat.completions.create(
            model=NAME, messages=question, max_tokens=5, stream=True
        )
        # Its counts, which it was not asked for, are ours.
        assert [chunk.choices[0].finish_reason for chunk in stream][-1] == "length"
        assert client.completions.create(model=NAME, prompt="Hello", max_tokens=3).choices
        with pytest.raises(openai.BadRequestError, match="max_tokens"):
            client.chat.completions.create(model=NAME, messages=question, max_tokens=-1)
    with anthropic.Anthropic(base_url=place.url, api_key=token, max_retries=0) as claude:
        said = claude.messages.create(
            model=NAME, max_tokens=5, messages=[{"role": "user", "content": "Hello"}]
        )
    assert said.usage.output_tokens == 5
    asked = "Request.objects.filter(key__name='programs')"  # the playground has asked, too
    columns = "'path', 'status', 'completion_tokens'"
    deadline = time.monotonic() + WRITTEN_WITHIN
    # An answer does not wait for being written down.
    while len(kept := listed(place, f"{asked}.values_list({columns})")) < 5:
        assert time.monotonic() < deadline, kept
    assert kept == [
        ["/v1/messages", 200, 5],
        ["/v1/chat/completions", 400, None],
        ["/v1/completions", 200, 3],
        ["/v1/chat/completions", 200, 5],
        ["/v1/chat/completions", 200, 5],
    ]


def lines_are_tested(page: Page, place: Installation) -> None:
    """By the browser, as the programs would ask: with tools, too."""
    page.goto(f"{place.url}/gateway/")
    page.locator("#use-key").fill(key_of(place, "lines"))
    for name, count in (("Claude Code", 2), ("Open WebUI", 3)):
        page.get_by_role("tab", name=name, exact=True).click()
        lines = page.get_by_role("tabpanel", name=name, exact=True)
        lines.get_by_role("button", name="Send test request").click()
        expect(lines.locator(".use-outcome")).to_contain_text("It works: the first token came")
        expect(lines.get_by_role("listitem")).to_have_count(count)


def listed(place: Installation, rows: str) -> list[object]:
    found = place.ask(f"list({rows})")
    assert isinstance(found, list)
    return found


def fill_in(page: Page, place: Installation) -> None:
    page.goto(f"{place.url}/profiles/new/")
    fill_profile(
        page,
        {
            "name": NAME,
            "checkpoint": f"/models/{NAME}",
            "served_name": NAME,
            "image": build.TAG,
            "flags": f"{FLAGS} --enforce-eager --max-num-seqs 4",
            # Its one function that is compiled, for logprobs, is so for half a minute.
            "env": "VLLM_CPU_KVCACHE_SPACE=1\nHF_HUB_OFFLINE=1\nVLLM_NO_USAGE_STATS=1\n"
            "TORCH_COMPILE_DISABLE=1",
            "volumes": f"{image.EYES}:/models/{NAME}:ro",
            "gpus": "none",
            "shm_size": "1g",
        },
    )
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("heading", name=NAME, level=1)).to_be_visible()


def wait_until_asked(page: Page, place: Installation) -> None:
    """The profile's page says what the image has, once the watcher has asked it."""
    said = page.locator(".image-says")
    expect(said).to_contain_text("flags, read", timeout=ASKED_WITHIN)
