"""What is written out is read back as the same, whatever its words are made of."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servers.launch.commandline.docker_run import check_complete
from servers.launch.commandline.export import engine_line, render_compose, render_docker_run
from servers.launch.commandline.paste import read
from servers.launch.commandline.tokens import LaunchCommand, ShellError
from servers.launch.commandline.variables import Argument

# What the reader takes for the traces of web pages and word processors is not tested here: it
# changes such a paste on purpose.
_CHARACTERS = st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Zs", "Zl", "Zp", "Cs"])
_PLAIN = st.text(_CHARACTERS | st.sampled_from(" \n\t$'\"\\`~#!{}[]()<>|&;*?^%="), max_size=20)
_VARIABLES = st.sampled_from(["${HF_TOKEN}", "${MODEL}", "$HOME", "${PWD}", "$(pwd)", "$(id -u)"])


def _is_kept(text: str) -> bool:
    """Whether the reader leaves a text as it is."""
    try:
        check_complete(Argument(text=text, offset=0))
    except ShellError:
        return False
    is_entity = any(each in text for each in ("&amp", "&quot", "&lt", "&gt", "&#39", "&#x27"))
    return not is_entity and "</" not in text and not text.lstrip().startswith(("{", "["))


_TEXTS = st.lists(_PLAIN | _VARIABLES, max_size=3).map("".join).filter(_is_kept)
_WORDS = _TEXTS.filter(lambda text: not text.startswith("-"))
_NAMES = st.from_regex(r"[A-Z_][A-Z0-9_]{0,8}", fullmatch=True)
_SIMPLE = st.from_regex(r"[a-z0-9][a-z0-9./:-]{0,12}[a-z0-9]", fullmatch=True)
_IMAGES = st.sampled_from(["vllm/vllm-openai:v0.11.0", "lmsysorg/sglang", "acme/box@sha256:0a1b"])
_COMMANDS = st.lists(_TEXTS, max_size=6).map(tuple)
_ENV = st.dictionaries(_NAMES, _TEXTS | st.none(), max_size=4)
_LIMITS = st.from_regex(r"-?[0-9]{1,9}(:-?[0-9]{1,9})?", fullmatch=True)


def _unresolved(command: LaunchCommand) -> tuple[str, ...]:
    """The blanks that these texts have, as the strategies above make them."""
    texts = [*command.command, *(value or "" for value in command.env.values())]
    texts += [*command.volumes, command.user or ""]
    names = {"HF_TOKEN": "${HF_TOKEN}", "MODEL": "${MODEL}", "$(id -u)": "$(id -u)"}
    found = [name for name, raw in names.items() if any(raw in text for text in texts)]
    return tuple(found + [name for name, value in command.env.items() if value is None])


@st.composite
def commands(draw: st.DrawFn) -> LaunchCommand:
    def maybe(strategy: st.SearchStrategy[str]) -> str | None:
        return draw(st.none() | strategy)

    def some(strategy: st.SearchStrategy[str]) -> tuple[str, ...]:
        return tuple(draw(st.lists(strategy, max_size=3)))

    gpus = draw(st.none() | st.just("all") | st.integers(0, 16) | st.just(("0", "GPU-1f")))
    command = LaunchCommand(
        kind="docker_run",
        image=draw(_IMAGES),
        entrypoint=maybe(_WORDS),
        command=draw(_COMMANDS),
        env=draw(_ENV),
        env_file=some(_SIMPLE),
        volumes=some(_WORDS.filter(bool)),
        ports=some(_SIMPLE),
        ipc=maybe(_SIMPLE),
        shm_size=maybe(_SIMPLE),
        ulimits=draw(
            st.dictionaries(_SIMPLE.map(lambda s: s.replace(":", "")), _LIMITS, max_size=2)
        ),
        gpus=gpus,
        runtime=maybe(_SIMPLE),
        network=maybe(st.sampled_from(["host", "none", "backend", "container:other"])),
        cap_add=some(_SIMPLE),
        privileged=draw(st.booleans()),
        name=maybe(_SIMPLE),
        restart=maybe(_SIMPLE),
        devices=some(_SIMPLE),
        cpuset=maybe(_SIMPLE),
        user=maybe(_WORDS),
        workdir=maybe(_SIMPLE),
        security_opt=some(_SIMPLE),
        init=draw(st.booleans()),
        ignored=tuple(draw(st.lists(st.sampled_from(["-it", "--rm", "--memory=8g", "-l a=b"])))),
    )
    return replace(command, unresolved=_unresolved(command))


def _comparable(command: LaunchCommand) -> LaunchCommand:
    """Without what the texts only imply: the engine, names, and the order of the blanks."""
    unresolved = tuple(sorted(set(command.unresolved)))
    return replace(command, engine=None, unresolved=unresolved, real_names=())


@given(commands())
def test_a_docker_run_and_a_compose_file_say_what_was_read(command: LaunchCommand) -> None:
    (again,) = read(render_docker_run(command))
    assert _comparable(again) == _comparable(command)

    (again,) = read(render_compose(command))
    as_service = replace(
        command,
        kind="compose",
        service=command.name or "server",
        ignored=(),
        unresolved=tuple(name for name in command.unresolved if not name.startswith("$(")),
    )
    assert _comparable(again) == _comparable(as_service)


@given(command=_COMMANDS, env=st.dictionaries(_NAMES, _TEXTS, max_size=4))
def test_an_engine_line_says_what_was_read(command: tuple[str, ...], env: dict[str, str]) -> None:
    words = ("vllm", "serve", "acme/Plum-8B", *command)
    known = LaunchCommand(kind="engine_command", engine="vllm", command=words, env=dict(env))
    known = replace(known, unresolved=_unresolved(known))
    (again,) = read(engine_line(known))
    assert _comparable(again) == _comparable(known)


def test_a_variable_of_the_container_is_no_variable_of_the_host() -> None:
    (command,) = read("docker run acme/box bash -c 'vllm serve $MODEL --port $PORT'")
    assert "'vllm serve $MODEL --port $PORT'" in render_docker_run(command)
    assert "$$MODEL" in render_compose(command)


def test_a_home_directory_stays_outside_of_quotes() -> None:
    (command,) = read("docker run -v '~/my models:/m' acme/box")
    assert "-v ~/'my models:/m'" in render_docker_run(command)


def test_podmans_own_options_are_no_options_of_docker() -> None:
    (command,) = read("podman run --replace --rm acme/box")
    assert "--replace" not in render_docker_run(command)
    assert "--rm" in render_docker_run(command)


def test_an_entrypoint_of_several_words_goes_before_the_command() -> None:
    paste = "image: acme/box\nentrypoint: [python3, -m, vllm.entrypoints.openai.api_server]\n"
    (command,) = read(paste + "command: --model acme/Plum-8B\n")
    (again,) = read(render_docker_run(command))
    assert again.entrypoint == "python3"
    assert again.command[:2] == ("-m", "vllm.entrypoints.openai.api_server")


def test_an_engine_without_image_is_no_docker_run() -> None:
    (command,) = read("vllm serve acme/Plum-8B")
    with pytest.raises(ValueError, match="without an image"):
        render_docker_run(command)
