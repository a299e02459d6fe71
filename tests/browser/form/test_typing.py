import pytest
from playwright.sync_api import Page, expect

from tests.browser.form.opened import knows, write

"""Help and completion in the profile form's boxes of flags and variables, in a browser."""


pytestmark = pytest.mark.browser


def test_a_misspelled_flag_is_marked_and_mended_by_keyboard(page: Page) -> None:
    knows(page, "Help knows the 321 flags of vLLM 0.33.0")
    write(page, "#id_flags", "--max-modle-len")
    marks = page.locator("#id_flags_marks")
    expect(page.locator("#id_flags_options")).to_contain_text("--max-model-len")
    # It is not finished yet, so nothing is said against it.
    expect(marks.get_by_role("listitem")).to_have_count(0)

    page.keyboard.type(" 4096")

    expect(marks).to_contain_text(
        "Error: vLLM 0.33.0 has no --max-modle-len. Did you mean --max-model-len?"
    )
    page.keyboard.press("Tab")
    expect(marks.get_by_role("button", name="Use --max-model-len")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#id_flags")).to_have_value("--max-model-len 4096")
    expect(page.locator("#id_flags")).to_be_focused()
    expect(marks.get_by_role("listitem")).to_have_count(0)
    page.keyboard.press("Control+z")
    expect(page.locator("#id_flags")).to_have_value("--max-modle-len 4096")


def test_name_and_value_are_completed_by_keyboard(page: Page) -> None:
    knows(page, "Help knows the 321 flags of vLLM 0.33.0")
    box, options = page.locator("#id_flags"), page.locator("#id_flags_options")
    write(page, "#id_flags", "--enforce-eager\n--kv-cache-d")
    expect(options.get_by_role("option", selected=True)).to_contain_text("--kv-cache-dtype")
    page.keyboard.press("ArrowDown")
    expect(options.get_by_role("option", selected=True)).to_contain_text("--kv-cache-dtype-skip")
    chosen = options.get_by_role("option", selected=True).get_attribute("id")
    assert chosen
    expect(box).to_have_attribute("aria-activedescendant", chosen)
    page.keyboard.press("ArrowUp")

    page.keyboard.press("Enter")

    expect(box).to_have_value("--enforce-eager\n--kv-cache-dtype ")
    expect(options.get_by_role("option", name="fp8_e4m3")).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    expect(box).to_have_value("--enforce-eager\n--kv-cache-dtype float16")
    expect(options).to_be_hidden()
    expect(box).to_be_focused()
    expect(box).not_to_have_attribute("aria-activedescendant", chosen)
    # What is complete is left to the box: Enter is a line end again.
    page.keyboard.press("Enter")
    expect(box).to_have_value("--enforce-eager\n--kv-cache-dtype float16\n")


def test_a_suggestion_is_taken_by_click_and_refused_by_escape(page: Page) -> None:
    knows(page, "Help knows the 321 flags of vLLM 0.33.0")
    box, options = page.locator("#id_flags"), page.locator("#id_flags_options")
    write(page, "#id_flags", "--gpu-mem")
    options.get_by_role("option", name="--gpu-memory-utilization").click()
    expect(box).to_have_value("--gpu-memory-utilization ")
    expect(box).to_be_focused()

    page.keyboard.type("0.9\n--made-by-m")
    page.keyboard.press("Control+Space")
    page.keyboard.press("Escape")
    expect(options).to_be_hidden()
    page.keyboard.type("e\n")
    expect(box).to_have_value("--gpu-memory-utilization 0.9\n--made-by-me\n")

    page.keyboard.press("Control+Space")
    expect(options.get_by_role("option").first).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    expect(box).not_to_be_focused()


def test_the_help_of_the_flag_at_the_caret_says_what_it_takes(page: Page) -> None:
    knows(page, "Help knows the 321 flags of vLLM 0.33.0")
    about = page.locator("#id_flags_about")
    write(page, "#id_flags", "--tensor-parallel-size 2\n--disable-prefix-caching")
    expect(about).to_contain_text("--enable-prefix-caching")
    expect(about).to_contain_text("switches it off")

    page.keyboard.press("ArrowUp")

    expect(about).to_contain_text("--tensor-parallel-size -tp")
    expect(about).to_contain_text("whole number")
    expect(about).to_contain_text("From vLLM 0.33.0.")
    described = page.locator("#id_flags").get_attribute("aria-describedby") or ""
    assert {"id_flags_helptext", "id_flags_about", "id_flags_marks"} <= set(described.split())


def test_a_flag_that_inferdash_writes_itself_says_so(page: Page) -> None:
    knows(page, "Help knows the 321 flags of vLLM 0.33.0")
    write(page, "#id_flags", "--port")
    expect(page.get_by_role("option", name="--port").first).to_contain_text("written by inferdash")

    page.keyboard.type(" 8000")

    expect(page.locator("#id_flags_about")).to_contain_text("unless it stands here")


def test_a_paste_of_nonsense_is_not_compared_for_ever(page: Page) -> None:
    knows(page, "Help knows the 321 flags of vLLM 0.33.0")
    page.locator("#id_flags").fill(" ".join(f"--{at}-nonsense" for at in range(500)))

    marks = page.locator("#id_flags_marks").get_by_role("listitem")
    expect(marks).to_have_count(7)
    expect(marks.last).to_contain_text("and 44 more, or even more than that")


def test_variables_are_completed_and_marked(page: Page) -> None:
    knows(page, "Help knows the 321 flags of vLLM 0.33.0")
    box, options = page.locator("#id_env"), page.locator("#id_env_options")
    write(page, "#id_env", "NCCL_P2P_LEVEL=SYS\nvllm_logging_l")
    expect(options.get_by_role("option", selected=True)).to_have_text("VLLM_LOGGING_LEVEL")
    page.keyboard.press("Tab")
    expect(box).to_have_value("NCCL_P2P_LEVEL=SYS\nVLLM_LOGGING_LEVEL=")

    page.keyboard.type("DEBUG\nVLLM_LOGGING_LEVLE=DEBUG\n")

    marks = page.locator("#id_env_marks").get_by_role("listitem")
    expect(marks).to_have_count(1)
    expect(marks).to_contain_text("vLLM 0.33.0 does not read VLLM_LOGGING_LEVLE")
    expect(marks.get_by_role("button")).to_have_text("Use VLLM_LOGGING_LEVEL")
