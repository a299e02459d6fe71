"""The page reads flags and variables as the lint does: both are asked the same."""

import json
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from inferdash.up import install
from servers.launch.commandline import lines
from servers.launch.engines import ENGINES
from servers.launch.engines.change import split_flags
from servers.launch.engines.flaglist import all_shipped, load_shipped
from servers.models import Role
from tests import factories

pytestmark = pytest.mark.django_db

Listed = Callable[[str, str], dict[str, Any]]


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


def told(**asked: Any) -> dict[str, Any]:
    """What the page's own modules say, without a page."""
    environment = install.environment()
    node = shutil.which("node", path=environment["PATH"])
    assert node, "make test installs Node.js; there is none here"
    done = subprocess.run(
        [node, install.ROOT / "tests/js/flags.js"],
        env=environment,
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


@pytest.fixture
def listed(client: Client) -> Listed:
    """The list of an image, as the form asks for it."""
    client.force_login(factories.person("eva", Role.EDITOR))

    def of(engine: str, version: str) -> dict[str, Any]:
        query = {"engine": engine, "image": IMAGES[engine].format(version)}
        response = client.get("/profiles/flags.json", query)
        assert response.status_code == 200
        found: dict[str, Any] = response.json()
        assert found["version"] == version
        return found

    return of


def misspelled(names: list[str]) -> list[str]:
    """Some of the names, with a letter less, two exchanged, and underscores for dashes."""
    some = names[::9]
    return [
        *(name[:5] + name[6:] for name in some),
        *(name[:6] + name[7:8] + name[6:7] + name[8:] for name in some),
        *(name.replace("-", "_").replace("__", "--", 1) for name in some),
        *(name[:-3] for name in some),
    ]


@pytest.mark.parametrize(("engine", "version"), VERSIONS)
def test_the_page_understands_names_as_the_lint_does(
    listed: Listed, engine: str, version: str
) -> None:
    known = load_shipped(engine, version)
    assert known is not None
    others = [name for each in all_shipped(engine) for name in each.names]
    words = [*ODD_WORDS, *others[::7], *misspelled(list(known.names))]

    said = told(list=listed(engine, version), words=words)["words"]

    expected = [list(known.matches(word)) for word in words]
    differing = [
        (word, mine, theirs)
        for word, mine, theirs in zip(words, said, expected, strict=True)
        if mine != theirs
    ]
    assert differing == []


def test_the_page_cuts_texts_into_the_words_that_will_run() -> None:
    said = told(texts=TEXTS, environments=ENVIRONMENTS)
    cut, named = said["texts"], said["environments"]

    words = [lines.comment_flags(text).words for text in TEXTS]
    assert [each[0] for each in cut] == [list(each) for each in words]
    assert [each[1] for each in cut] == [
        [[name, list(values)] for name, values in split_flags(each) if name] for each in words
    ]
    assert named == [list(lines.comment_environment(text).values) for text in ENVIRONMENTS]
