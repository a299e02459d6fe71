from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.axe import faults_in_both_colours
from tests.browser.chromium import new_page
from tests.browser.form.opened import DESK, knows, opened, write
from tests.browser.layout import until
from tests.factories import ASKED
from tests.web_stack import WebStack

"""Help and completion in the profile form's boxes of flags and variables, in a browser."""


pytestmark = pytest.mark.browser


PHONE = {"width": 390, "height": 844}


def test_another_engine_or_image_brings_its_own_flags(page: Page) -> None:
    knows(page, "Help knows the 321 flags of vLLM 0.33.0")
    write(page, "#id_flags", "--attention-config.backend=FLASHINFER --tp 2 ")
    marks = page.locator("#id_flags_marks")
    expect(marks).not_to_contain_text("--attention-config.backend")

    page.locator("#id_engine").select_option("sglang")
    page.locator("#id_image").fill("lmsysorg/sglang:v0.5.23")

    knows(page, "Help knows the 532 flags of SGLang 0.5.23")
    expect(marks).to_contain_text("SGLang 0.5.23 has no --attention-config.backend")
    page.locator("#id_image").fill("lmsysorg/sglang:nightly")
    knows(page, "This image has not been asked yet")
    expect(marks).to_contain_text("Which flags this image has is not known until it is inspected.")


def test_an_unknown_flag_is_saved_as_it_stands(page: Page, stack: WebStack) -> None:
    knows(page, "Help knows the 321 flags of vLLM 0.33.0")
    write(page, "#id_flags", "--zzz-of-our-fork 3\n")
    expect(page.locator("#id_flags_marks")).to_contain_text("has no --zzz-of-our-fork")
    page.locator("#id_name").fill("Our fork")
    page.locator("#id_checkpoint").fill("Qwen/Qwen3-8B")
    # Marks and the check of the whole form stand side by side.
    expect(page.locator("#check .check-item").first).to_contain_text("--zzz-of-our-fork")

    page.get_by_role("button", name="Save", exact=True).click()

    expect(page.get_by_role("heading", name="Our fork", level=1)).to_be_visible()
    said = stack.run("print(Profile.objects.get(slug='our-fork').launch.flags)")
    assert said.strip() == "('--zzz-of-our-fork', '3')"


def test_without_the_list_the_form_says_so_and_asks_again(page: Page) -> None:
    knows(page, "Help knows the 321 flags of vLLM 0.33.0")
    page.route("**/flags.json?*", lambda route: route.fulfill(status=200, body="<p>Log in</p>"))
    page.locator("#id_image").fill("vllm/vllm-openai:v0.20.2")
    knows(page, "no help and completion here")
    write(page, "#id_flags", "--nonsense 1\n")
    # What the check says needs no list.
    expect(page.locator("#id_flags_marks")).to_contain_text("vLLM 0.20.2 has no --nonsense")

    page.unroute("**/flags.json?*")
    page.locator("#id_env").focus()
    page.locator("#id_flags").focus()

    knows(page, "240 flags of vLLM 0.20.2")


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_help_marks_and_suggestions_fit_and_can_be_read(
    stack: WebStack, browser: Browser, eva: Any, size: Any
) -> None:
    context = browser.new_context(viewport=size)
    context.add_cookies([eva])
    complaints: list[str] = []
    page = opened(new_page(context, complaints), stack)
    knows(page, "Help knows the 321 flags of vLLM 0.33.0")
    write(page, "#id_env", "VLLM_LOGING_LEVEL=DEBUG\n")
    write(page, "#id_flags", "--max-modle-len 4096\n--kv-cache-dtype fp9\n--kv-cache-d")

    expect(page.locator("#id_flags_marks").get_by_role("listitem")).to_have_count(2)
    expect(page.locator("#id_env_marks").get_by_role("listitem")).to_have_count(1)
    expect(page.locator("#id_flags_options").get_by_role("option").first).to_be_visible()
    assert faults_in_both_colours(page) == []
    until(
        page,
        """() => {
            const { left, right } = document.querySelector("#id_flags_options").getBoundingClientRect();
            return left >= 0 && right <= innerWidth;
        }""",
    )
    page.keyboard.press("Enter")
    expect(page.locator("#id_flags_about")).to_contain_text("Default")
    assert faults_in_both_colours(page) == []
    context.close()
    assert complaints == []


def test_help_knows_what_the_image_itself_has_listed(page: Page, stack: WebStack) -> None:
    stack.run(
        "from servers.launch.engines.flaglist import Flag, FlagList; "
        "flags = tuple(Flag(names=(name,)) for name in ('--model', '--brand-new', '--port')); "
        "known = FlagList(engine='vllm', version='0.99.0', flags=flags); "
        "[factories.image_facts(box, known) for box in Box.objects.all()]; "
        "[factories.image_facts(box, reference='team/vllm:broken', error='It ended.')"
        " for box in Box.objects.all()]"
    )
    page.locator("#id_image").fill(ASKED)

    knows(page, "Help knows the 3 flags of vLLM 0.99.0, as this image lists them.")
    write(page, "#id_flags", "--brand-new 1 --max-model-len 1 ")

    marks = page.locator("#id_flags_marks")
    expect(marks).to_contain_text("vLLM 0.99.0 has no --max-model-len")
    expect(marks).not_to_contain_text("--brand-new")
    page.locator("#id_image").fill("team/vllm:broken")
    knows(page, "This image could not be asked, so help goes by the newest list")
