"""What chats with a server go without, and the fix that the playground offers."""

import json
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse

from servers.judge.profiles.facts import LaunchFacts, Subject
from servers.judge.profiles.features import calls_tools, lacks, takes_pictures
from servers.judge.weights.fit.demand import read_context
from servers.launch.engines import parsers
from servers.launch.engines.flaglist import load_shipped
from servers.launch.engines.launch import Launch
from servers.models import AuditEntry, Role, Run, Server, User
from servers.models.runs.run import RunState
from servers.templatetags.talk import chat_abilities, chat_lacks
from tests import factories
from tests.cases import table

VERSIONS = {"vllm": "0.33.0", "sglang": "0.5.23"}


def subject(
    engine: str, *flags: str, model: str = "Qwen/Qwen3-8B", config: Any = None, **more: Any
) -> Subject:
    launch = Launch(engine=engine, image="i", checkpoint=model, flags=flags, **more)
    return Subject(launch=launch, checkpoint_config=config)


def missing(subject: Subject) -> dict[str, Any]:
    """What it lacks, by key, with the flags that the fix sets."""
    return {each.key: dict(each.fix.set_flags) if each.fix else None for each in lacks(subject)}


def test_vllm_lacks_what_its_flags_do_not_switch_on() -> None:
    assert missing(subject("vllm")) == {
        "tools": {"--enable-auto-tool-choice": None, "--tool-call-parser": "hermes"},
        "reasoning": {"--reasoning-parser": "qwen3"},
        "cached": {"--enable-prompt-tokens-details": None},
    }
    whole = (
        "--enable-auto-tool-choice",
        "--tool-call-parser",
        "hermes",
        "--reasoning-parser=qwen3",
    )
    assert missing(subject("vllm", *whole, "--enable-prompt-tokens-details")) == {}


def test_a_parser_that_the_profile_names_is_kept() -> None:
    said = missing(subject("vllm", "--tool-call-parser", "qwen3_xml"))

    assert said["tools"] == {"--enable-auto-tool-choice": None, "--tool-call-parser": "qwen3_xml"}


def test_sglang_lacks_its_own_flags() -> None:
    assert missing(subject("sglang", model="zai-org/GLM-5-FP8")) == {
        "tools": {"--tool-call-parser": "glm47"},
        "reasoning": {"--reasoning-parser": "glm45"},
        "cached": {"--enable-cache-report": None},
        "metrics": {"--enable-metrics": None},
    }


def test_a_model_of_an_unknown_family_is_nobodys_guess() -> None:
    said = missing(subject("vllm", model="lab/unheard-of"))

    assert said["tools"] is None
    assert said["reasoning"] is None


def test_llamacpp_lacks_only_what_is_switched_off() -> None:
    assert missing(subject("llamacpp")) == {}
    off = subject(
        "llamacpp",
        "--no-jinja",
        "--reasoning-format",
        "none",
        env={"LLAMA_ARG_ENDPOINT_METRICS": "0"},
    )
    assert missing(off) == {
        "tools": {"--jinja": None},
        "reasoning": {},
        "metrics": {"--metrics": None},
    }
    fixes = [each.fix for each in lacks(off)]
    launch = off.launch
    for fix in fixes:
        assert fix is not None
        launch = fix.apply(launch)
    assert missing(Subject(launch=launch)) == {}


@pytest.mark.parametrize("kind", parsers.FLAGS)
@pytest.mark.parametrize("engine", VERSIONS)
def test_every_parser_is_one_that_the_engine_has(engine: str, kind: parsers.Kind) -> None:
    flaglist = load_shipped(engine, VERSIONS[engine])
    assert flaglist is not None
    flag = flaglist.find(parsers.FLAGS[kind])
    assert flag is not None

    named = {
        family.get_names(kind)[engine]
        for family in parsers.FAMILIES
        if engine in family.get_names(kind)
    }

    assert named - {*flag.choices, *flag.known} == set()


@table(
    ("model", "tools"),
    [
        ("Qwen/Qwen3.5-397B-A17B-FP8", "qwen3_coder"),
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", "qwen3_coder"),
        ("/models/DeepSeek-V3.2", "deepseek_v32"),
        ("openai/gpt-oss-120b", "openai"),
        ("zai-org/GLM-4.6", "glm45"),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama3_json"),
        ("mistralai/Ministral-8B", "mistral"),
        ("lab/unheard-of", ""),
    ],
)
def test_models_are_told_apart_by_their_names(model: str, tools: str) -> None:
    assert parsers.parser("vllm", "tools", model) == tools


EYES = {"vision_config": {"depth": 2}}


@table(
    ("asked", "takes"),
    [
        (subject("vllm"), None),
        (subject("vllm", config={"model_type": "qwen3"}), False),
        (subject("vllm", config={"vision_config": {"depth": 2}}), True),
        (subject("vllm", "--language-model-only", config={"vision_config": {"depth": 2}}), False),
        (
            subject("vllm", "--limit-mm-per-prompt", '{"image": 0}', config={"visual": {"d": 1}}),
            False,
        ),
        # As vLLM 0.32 reads them, too: with options, and by parts, of which pictures' is not the last.
        (subject("vllm", "--limit-mm-per-prompt", '{"image": {"count": 0}}', config=EYES), False),
        (subject("vllm", "--limit-mm-per-prompt", '{"image": {"count": 2}}', config=EYES), True),
        (
            subject(
                "vllm",
                "--limit-mm-per-prompt.image",
                "0",
                "--limit-mm-per-prompt.video",
                "1",
                config=EYES,
            ),
            False,
        ),
        (subject("vllm", "--limit-mm-per-prompt.image.count", "0", config=EYES), False),
        (subject("vllm", "--limit-mm-per-prompt", '{"video": 0}', config=EYES), True),
        (subject("llamacpp", "--mmproj", "/models/eyes.gguf"), True),
        (subject("llamacpp", model="/models/a.gguf"), False),
        (subject("llamacpp", model="unsloth/gemma-3-4b-it-GGUF"), None),
    ],
)
def test_whether_a_model_takes_pictures(asked: Subject, takes: bool | None) -> None:
    assert takes_pictures(asked) is takes


@pytest.fixture
def server(db: None) -> Server:
    made = factories.server(factories.box(settings.BOX), "qwen3-8b", "qwen3-8b")
    version = made.profile.current
    assert version is not None
    made.run = Run.objects.create(
        server=made, version=version, state=RunState.READY, served_name="q"
    )
    made.save()
    return Server.objects.with_details().get(pk=made.pk)


@pytest.fixture
def ada(db: None) -> Client:
    return factories.log_in(User.objects.create_user("grace", role=Role.OPERATOR))


def test_the_page_offers_the_fix_and_one_click_saves_it(server: Server, ada: Client) -> None:
    page = ada.get(reverse("chat")).content.decode()
    assert reverse("chat_fix", args=[server.slug, "cached"]) in page

    answer = ada.post(reverse("chat_fix", args=[server.slug, "cached"]), follow=True)

    assert "--enable-cache-report. It counts when qwen3-8b is restarted." in answer.content.decode()
    server.profile.refresh_from_db()
    assert "--enable-cache-report" in server.profile.launch.flags
    assert AuditEntry.objects.filter(action="apply fix").exists()


QWEN = {"max_position_embeddings": 40960}


@table(
    ("asked", "context", "tools"),
    [
        (subject("vllm", config=QWEN), 40960, False),
        (subject("vllm", "--max-model-len", "16k", config=QWEN), 16000, False),
        (subject("vllm", "--max-model-len", "auto", config=QWEN), None, False),
        (subject("sglang", "--context-length", "8192", "--tool-call-parser", "qwen25"), 8192, True),
        (subject("llamacpp", "--ctx-size", "4096"), 4096, True),
        (subject("llamacpp", "--no-jinja", config=QWEN), None, False),
        (subject("other"), None, False),
    ],
)
def test_how_much_a_model_reads_and_whether_it_calls_tools(
    asked: Subject, context: int | None, tools: bool
) -> None:
    assert read_context(LaunchFacts(asked)) == context
    assert calls_tools(asked, lacks(asked)) == tools


def test_what_the_profile_has_by_now_only_wants_a_restart(server: Server, ada: Client) -> None:
    url = reverse("chat_fix", args=[server.slug, "cached"])
    ada.post(url)
    versions = server.profile.versions.count()

    answer = ada.post(url, follow=True)

    assert "has it already. Restart qwen3-8b" in answer.content.decode()
    assert server.profile.versions.count() == versions
    again = Server.objects.with_details().get(pk=server.pk)
    said = {each["key"]: each for each in json.loads(chat_lacks(again, chat_abilities(again)))}
    assert said["cached"]["says"].endswith("The profile has it by now: restart qwen3-8b.")
    assert said["cached"]["url"] == ""


def test_a_fix_that_nobody_knows_leads_to_the_form(server: Server, ada: Client) -> None:
    launch = Launch(engine="vllm", image="i", checkpoint="lab/unheard-of")
    version = server.profile.save_version(launch, by=None)
    Run.objects.filter(server=server).update(version=version)
    again = Server.objects.with_details().get(pk=server.pk)

    said = {each["key"]: each for each in json.loads(chat_lacks(again, chat_abilities(again)))}

    assert said["tools"]["edit"] == reverse("profile_edit", args=[server.profile.slug])
    assert ada.post(reverse("chat_fix", args=[server.slug, "tools"])).status_code == 404


def test_a_server_that_does_not_run_is_not_asked_about(server: Server) -> None:
    Run.objects.filter(server=server).update(state=RunState.STOPPED)
    again = Server.objects.with_details().get(pk=server.pk)

    assert chat_abilities(again) is None
    assert chat_lacks(again, None) == "[]"
