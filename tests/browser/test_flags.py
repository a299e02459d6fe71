"""Help and completion in the profile form's boxes of flags and variables, in a browser."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from servers.commandline import explained
from servers.engines import ENGINES
from servers.engines.change import split_flags
from servers.engines.flaglist import all_shipped, shipped
from servers.engines.launch import Launch
from servers.judge.check import Hit
from servers.judge.facts import Facts
from servers.judge.subject import Subject
from servers.judge.vocabulary import CHECKS
from tests.browser.axe import faults
from tests.browser.chromium import chromium, new_page
from tests.factories import ASKED
from tests.web_stack import WebStack, web_stack

pytestmark = pytest.mark.browser

DESK = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}
VLLM = "vllm/vllm-openai:v0.33.0"


@pytest.fixture(scope="module")
def stack() -> Iterator[WebStack]:
    with web_stack() as stack:
        stack.run("factories.busy_team()")
        yield stack


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def eva(stack: WebStack) -> Any:
    return stack.cookie("eva", "EDITOR")


@pytest.fixture
def context(browser: Browser, eva: Any) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport=DESK)  # type: ignore[arg-type]
    context.add_cookies([eva])
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext, stack: WebStack) -> Iterator[Page]:
    complaints: list[str] = []
    page = new_page(context, complaints)
    yield opened(page, stack)
    assert complaints == []


def opened(page: Page, stack: WebStack, image: str = VLLM) -> Page:
    page.goto(f"{stack.url}/profiles/new/")
    page.locator("#id_engine").select_option("vllm")
    page.locator("#id_image").fill(image)
    return page


def knows(page: Page, said: str) -> None:
    """Wait until the list of this version is there."""
    expect(page.locator("#id_flags_source")).to_contain_text(said)


def write(page: Page, box: str, text: str) -> None:
    page.locator(box).focus()
    page.keyboard.press("Control+End")
    page.keyboard.type(text)


def test_a_misspelled_flag_is_marked_and_mended_by_keyboard(page: Page) -> None:
    knows(page, "Help knows the 321 flags of vLLM 0.33.0")
    write(page, "#id_flags", "--max-modle-len")
    marks = page.locator("#id_flags_marks")
    expect(page.locator("#id_flags_options")).to_contain_text("--max-model-len")
    # It is not finished yet, so nothing is said against it.
    expect(marks.get_by_role("listitem")).to_have_count(0)

    page.keyboard.type(" 4096")

    expect(marks).to_contain_text(
        "Unknown --max-modle-len is not known to vLLM 0.33.0. Did you mean --max-model-len?"
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


def test_values_that_the_engine_refuses_are_marked(page: Page) -> None:
    knows(page, "Help knows the 321 flags of vLLM 0.33.0")
    write(
        page,
        "#id_flags",
        "a/b --tensor-parallel-size two  # a word\n--kv-cache-dtype fp8_e5m3\n--enforce-eager on\n"
        "--max-num-seqs\n--attention-config '{\"backend\": FLASH}'\n",
    )

    marks = page.locator("#id_flags_marks").get_by_role("listitem")
    expect(marks).to_have_text(
        [
            "Stray a/b stands before the first flag, where the engine expects none. line 1",
            "Value --tensor-parallel-size takes a whole number, not “two”. line 1",
            "Value --kv-cache-dtype does not know “fp8_e5m3”. Did you mean fp8_e5m2? line 2"
            " Use fp8_e5m2",
            "Value --enforce-eager takes no value; “on” behind it is refused. line 3",
            "Value --max-num-seqs needs a value. line 4",
            "Value --attention-config says no valid JSON: check quotes and braces. line 5",
        ]
    )


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
    expect(marks).to_contain_text("VLLM_LOGGING_LEVLE is not read by vLLM 0.33.0")
    expect(marks.get_by_role("button")).to_have_text("Use VLLM_LOGGING_LEVEL")


def test_another_engine_or_image_brings_its_own_flags(page: Page) -> None:
    knows(page, "Help knows the 321 flags of vLLM 0.33.0")
    write(page, "#id_flags", "--attention-config.backend=FLASHINFER --tp 2 ")
    marks = page.locator("#id_flags_marks")
    expect(marks).not_to_contain_text("--attention-config.backend")

    page.locator("#id_engine").select_option("sglang")
    page.locator("#id_image").fill("lmsysorg/sglang:v0.5.23")

    knows(page, "Help knows the 532 flags of SGLang 0.5.23")
    expect(marks).to_contain_text("--attention-config.backend is not known to SGLang 0.5.23")
    page.locator("#id_image").fill("lmsysorg/sglang:nightly")
    knows(page, "This image has not been asked yet")
    expect(marks).to_contain_text("--attention-config.backend is not in the newest list")


def test_an_unknown_flag_is_saved_as_it_stands(page: Page, stack: WebStack) -> None:
    knows(page, "Help knows the 321 flags of vLLM 0.33.0")
    write(page, "#id_flags", "--zzz-of-our-fork 3\n")
    expect(page.locator("#id_flags_marks")).to_contain_text("It is passed on as it stands.")
    page.locator("#id_name").fill("Our fork")
    page.locator("#id_checkpoint").fill("Qwen/Qwen3-8B")
    # Marks and the check of the whole form stand side by side.
    expect(page.locator("#check .finding").first).to_contain_text("--zzz-of-our-fork")

    page.get_by_role("button", name="Create profile").click()

    expect(page.get_by_role("heading", name="Our fork", level=1)).to_be_visible()
    said = stack.run("print(Profile.objects.get(slug='our-fork').launch.flags)")
    assert said.strip() == "('--zzz-of-our-fork', '3')"


def test_without_the_list_the_form_says_so_and_asks_again(page: Page) -> None:
    knows(page, "Help knows the 321 flags of vLLM 0.33.0")
    page.route("**/flags.json?*", lambda route: route.fulfill(status=200, body="<p>Log in</p>"))
    page.locator("#id_image").fill("vllm/vllm-openai:v0.20.2")
    knows(page, "no help and completion here")
    write(page, "#id_flags", "--nonsense 1\n")
    expect(page.locator("#id_flags_marks").get_by_role("listitem")).to_have_count(0)

    page.unroute("**/flags.json?*")
    page.locator("#id_env").focus()
    page.locator("#id_flags").focus()

    knows(page, "240 flags of vLLM 0.20.2")
    expect(page.locator("#id_flags_marks")).to_contain_text("--nonsense is not known")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_help_marks_and_suggestions_fit_and_can_be_read(
    stack: WebStack, browser: Browser, eva: Any, scheme: Any, size: Any
) -> None:
    context = browser.new_context(viewport=size, color_scheme=scheme)
    context.add_cookies([eva])
    complaints: list[str] = []
    page = opened(new_page(context, complaints), stack)
    knows(page, "Help knows the 321 flags of vLLM 0.33.0")
    write(page, "#id_env", "VLLM_LOGING_LEVEL=DEBUG\n")
    write(page, "#id_flags", "--max-modle-len 4096\n--kv-cache-dtype fp9\n--kv-cache-d")

    expect(page.locator("#id_flags_marks").get_by_role("listitem")).to_have_count(2)
    expect(page.locator("#id_env_marks").get_by_role("listitem")).to_have_count(1)
    expect(page.locator("#id_flags_options").get_by_role("option").first).to_be_visible()
    assert faults(page) == []
    edges = page.locator("#id_flags_options").bounding_box()
    assert edges
    assert edges["x"] >= 0
    assert edges["x"] + edges["width"] <= size["width"]
    page.keyboard.press("Enter")
    expect(page.locator("#id_flags_about")).to_contain_text("Default")
    assert faults(page) == []
    context.close()
    assert complaints == []


# The page and the lint must say the same of one word.

VERSIONS = [(each.engine, each.version) for engine in ENGINES for each in all_shipped(engine)]
IMAGES = {
    "vllm": "vllm/vllm-openai:v{}",
    "sglang": "lmsysorg/sglang:v{}",
    "llamacpp": "ghcr.io/ggml-org/llama.cpp:server-{}",
}
ODD_WORDS = (
    "-O", "-O3", "-O.x", "-tp", "--", "-", "---", "--tp", "--max", "--max_model_len", "--max-modle-len",
    "--compilation-config.mode", "--compilation_config.mode", "--no-such", "-x_y", "--enable", "--ENABLE",
    "--temp", "-c", "-ngl", "--n_gpu_layers", "--ctx_size", "--é", "--__proto__", "--constructor",
)  # fmt: skip
TEXTS = (
    "--a 1 --b=2 -c",
    '--a 1 \\\n  --b \'two words\'  # why\n# above\n--c "x \\" y" \\',
    '--json \'{"a": [1, 2],\n "b": "#no comment"}\' --after',
    "--a=x=y --b= --c -1 --d -1.5e3 --e -inf - --f",
    "stray words --a#b 'c'd\"e\" \\\\ --g \\#x",
    "--t\tab   --n\\ ame v\r\n--w 1",
    "",
    "# only a comment",
)
ENVIRONMENTS = (
    "A=1\nexport B=two words\n-e C=3\n--env D=4\n--env=E=5  # why\n  F='x # y'",
    "# A=1\n\nB_2==\n",
)
MARKED = {
    "vllm": "--max-modle-len 1 --max_model_len 2 --tensor-parallel-size two -tp 2 -O3 --enforce-eager on\n"
    "--no-enable-prefix-caching --kv-cache-dtype fp9 --kv-cache-dtype FP8 --max-num-seqs --quantization gguf\n"
    "--compilation-config.mode x --compilation-config '{\"a\": 1}' --compilation-config '{a}' --qu a b\n"
    "--gpu-memory-utilization .9 --gpu-memory-utilization 90% --gpu-memory-utilization $GPU --seed <seed>",
    "sglang": "--tp 2 --tp two --attention-backend fa --attention_backend fa3 --mem-fraction-static 0.8x\n"
    "--enable-nothing --disable-cuda-graph 1 --context-len 4 --context-length --ep 2 --speculative-algo NEXTN\n"
    "--enable-flashinfer-mla --quantization FP8 --chunked-prefill-size -1",
    "llamacpp": "-c 4096 --ctx_size 1 --ctx-siz 2 --flash-attn on --flash-attn yes --split-mode rows -ngl 99\n"
    "--cont-batching 1 --no-mmap --override-kv a b",
}
MARKED_ENV = {
    "vllm": "VLLM_LOGING_LEVEL=1\nVLLM_LOGGING_LEVEL=1\nVLLM_NO=1\nNCCL_DEBUG=1",
    "sglang": "SGL_ENABLE_JIT_DEEPGEMM=1\nSGLANG_ENABLE_SPEC_V3=1\nSGLANG_X=2\nCUDA_X=1",
    "llamacpp": "LLAMA_ARG_NO_MMAP=1\nLLAMA_ARG_CTX_SIZ=1\nLLAMA_ARG_CTX_SIZE=1\nLLAMA_CACHE=1",
}


@pytest.fixture
def modules(page: Page) -> Page:
    page.evaluate(
        """async () => {
          for (const name of ["list", "text", "marks"]) {
            Object.assign((window.flags ??= {}), await import(`/static/js/flag-${name}.js`));
          }
          window.flags.of = (engine, image) =>
            window.flags.fetchList(`/profiles/flags.json?${new URLSearchParams({ engine, image })}`);
        }"""
    )
    return page


def misspelled(names: list[str]) -> list[str]:
    """Some of the names, with a letter less, two exchanged, and underscores for dashes."""
    some = names[::9]
    return [
        *(name[:5] + name[6:] for name in some),
        *(name[:6] + name[7:8] + name[6:7] + name[8:] for name in some),
        *(name.replace("-", "_").replace("__", "--", 1) for name in some),
        *(name[:-3] for name in some),
    ]


def proposed(hit: Hit) -> str | None:
    """What the lint says to write instead."""
    if several := re.search(r"refuses it: (.*?)\. Write the one", hit.says):
        return min(several[1].split(", "), key=len)
    found = re.search(r"(?:Did you mean|Write) (\S+?)[?.]?(?:$|\s)", hit.says)
    return found[1] if found else None


@pytest.mark.parametrize(("engine", "version"), VERSIONS)
def test_the_page_understands_names_as_the_lint_does(
    modules: Page, engine: str, version: str
) -> None:
    known = shipped(engine, version)
    assert known is not None
    others = [name for each in all_shipped(engine) for name in each.names]
    words = [*ODD_WORDS, *others[::7], *misspelled(list(known.names))]

    said = modules.evaluate(
        """async ([engine, image, words]) => {
          const list = await window.flags.of(engine, image);
          return words.map((word) => [list.matches(word), list.nearest(word), list.wasRemoved(word)]);
        }""",
        [engine, IMAGES[engine].format(version), words],
    )

    expected = [
        [
            list(known.matches(word)),
            known.nearest(word),
            (word.replace("_", "-") if word.startswith("--") else word) in known.removed,
        ]
        for word in words
    ]
    differing = [
        (word, mine, theirs)
        for word, mine, theirs in zip(words, said, expected, strict=True)
        if mine != theirs
    ]
    assert differing == []


def test_the_page_cuts_texts_into_the_words_that_will_run(modules: Page) -> None:
    cut = modules.evaluate(
        """(texts) => texts.map((text) => [
          window.flags.cut(text).words.map((word) => word.text),
          window.flags.flags(text).map((flag) => [flag.name, flag.values.map((value) => value.text)]),
        ])""",
        list(TEXTS),
    )
    named = modules.evaluate(
        "(texts) => texts.map((text) => window.flags.variables(text).map(({ name }) => name))",
        list(ENVIRONMENTS),
    )

    words = [explained.flags(text).words for text in TEXTS]
    assert [said[0] for said in cut] == [list(each) for each in words]
    assert [said[1] for said in cut] == [
        [[name, list(values)] for name, values in split_flags(each) if name] for each in words
    ]
    assert named == [list(explained.environment(text).values) for text in ENVIRONMENTS]


@pytest.mark.parametrize(("engine", "version"), VERSIONS)
def test_the_page_marks_what_the_lint_finds(modules: Page, engine: str, version: str) -> None:
    image = IMAGES[engine].format(version)
    said = modules.evaluate(
        """async ([engine, image, flags, env]) => {
          const list = await window.flags.of(engine, image);
          list.is_exact = true; // as if the image had been asked
          return [...window.flags.flagMarks(list, flags), ...window.flags.variableMarks(list, env)]
            .map(({ about, fix }) => [about, fix?.text ?? null]);
        }""",
        [engine, image, MARKED[engine], MARKED_ENV[engine]],
    )

    launch = Launch(
        engine=engine,
        image=image,
        checkpoint="a/b",
        flags=explained.flags(MARKED[engine]).words,
        env=explained.environment(MARKED_ENV[engine]).values,
    )
    facts = Facts(Subject(launch=launch, engine_version=version))
    found = [
        [hit.about, proposed(hit)]
        for check in CHECKS
        if check.id in {"unknown-flag", "flag-value", "unknown-variable"}
        for hit in check.hits(facts)
    ]
    assert sorted(said, key=str) == sorted(found, key=str)


def test_help_knows_what_the_image_itself_has_listed(page: Page, stack: WebStack) -> None:
    stack.run(
        "from servers.engines.flaglist import Flag, FlagList; "
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
    expect(marks).to_contain_text("--max-model-len is not known to vLLM 0.99.0")
    expect(marks).not_to_contain_text("--brand-new")
    page.locator("#id_image").fill("team/vllm:broken")
    knows(page, "This image could not be asked, so help goes by the newest list")
