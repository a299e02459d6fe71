import re

import pytest
from playwright.sync_api import Page

from servers.commandline import explained
from servers.engines import ENGINES
from servers.engines.change import split_flags
from servers.engines.flaglist import all_shipped, shipped
from servers.engines.launch import Launch
from servers.judge.check import Hit
from servers.judge.facts import Facts
from servers.judge.subject import Subject
from servers.judge.vocabulary import CHECKS

"""Help and completion in the profile form's boxes of flags and variables, in a browser."""


pytestmark = pytest.mark.browser


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
