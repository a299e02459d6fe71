"""The doors to a new profile: a paste, a recipe, and overlays on what is there."""

from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from servers.models import Box, Profile, Role, Secret
from tests import factories

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]

DOCKER = (
    "docker run -d --gpus all --ipc=host -p 8000:8000 -e HF_TOKEN=hf_abcdefgh12 -v $MODELS:/m:ro "
    "vllm/vllm-openai:v0.20.2 /m/qwen --max-model-len 8192"
)


@pytest.fixture
def eva(box: Box) -> Client:
    return factories.log_in(factories.person("eva", Role.EDITOR))


def send(client: Client, answer: Any, **changes: str) -> Any:
    """Press the button of the profile form that an answer shows."""
    form = answer.context["form"]
    values = {field.html_name: field.value() for field in form} | changes
    kept = {k: v for k, v in values.items() if v is not None and v is not False}
    return client.post("/profiles/new/", kept)


def test_a_pasted_command_becomes_a_profile_in_three_steps(eva: Client, box: Box) -> None:
    asked = eva.post("/profiles/paste/", {"text": DOCKER})
    assert "$MODELS" in asked.content.decode()

    shown = eva.post(
        "/profiles/paste/", {"text": DOCKER, "asked": "yes", "value-MODELS": "/data/models"}
    )
    text = shown.content.decode()
    assert "containers always run in the background here" in text
    assert "open to the network without a key" in text
    assert "The image vllm/vllm-openai:v0.20.2, which has never served anything here." in text

    made = send(eva, shown, name="Qwen of the guide", box=str(box.pk))

    assert made.status_code == 302, made.context["form"].errors
    launch = Profile.objects.get().launch
    assert launch.volumes == ("/data/models:/m:ro",)
    assert launch.flags == ("--max-model-len", "8192")
    assert launch.env == {}
    assert Secret.objects.get(pk=launch.secret_env["HF_TOKEN"]).reveal() == "hf_abcdefgh12"


def test_what_differs_from_the_paste_is_one_list(eva: Client) -> None:
    text = "docker run -d --gpus all --memory 64g vllm/vllm-openai a/b"

    shown = eva.post("/profiles/paste/", {"text": text}).content.decode()

    _before, _head, behind = shown.partition("<h2>Import notes</h2>")
    notes = behind.partition("</section>")[0]
    assert "--memory 64g: a profile has no place for it." in notes
    assert "does not publish the engine&#x27;s port 8000" in notes
    assert "What was left out" not in shown


def test_a_script_that_starts_a_cluster_is_refused_and_stays(eva: Client) -> None:
    text = "./launch-cluster.sh -n 10.0.0.1,10.0.0.2 --launch-script run_vllm.sh"

    answer = eva.post("/profiles/paste/", {"text": text}).content.decode()

    assert "one engine on several boxes (10.0.0.1, 10.0.0.2)" in answer
    assert f">{text}</textarea>" in answer


def test_of_several_commands_one_is_chosen(eva: Client) -> None:
    text = "vllm serve a/one\n\nvllm serve b/two"

    asked = eva.post("/profiles/paste/", {"text": text}).content.decode()
    shown = eva.post("/profiles/paste/", {"text": text, "choice": "1"})

    assert "2 launches are in it" in asked
    assert shown.context["form"].initial["checkpoint"] == "b/two"


def test_who_knows_which_engine_an_image_holds_may_say_it(eva: Client) -> None:
    text = "docker run --gpus all our/own:1 Qwen/Qwen3-8B --max-model-len 8192"

    asked = eva.post("/profiles/paste/", {"text": text}).content.decode()
    shown = eva.post("/profiles/paste/", {"text": text, "engine": "vllm"})

    assert "Which engine is in it?" in asked
    first = shown.context["form"].initial
    assert (first["engine"], first["checkpoint"]) == ("vllm", "Qwen/Qwen3-8B")
    assert first["flags"] == "--max-model-len 8192"


SPEECH = """
services:
  chat:
    image: vllm/vllm-openai
    command: Qwen/Qwen3-8B
  speech:
    image: acme/speech:2
    environment: [SPEECH_KEY]
    volumes: ["$VOICES:/voices:ro"]
    ports: ["9100:9100"]
"""


def test_what_was_answered_is_not_asked_again(eva: Client) -> None:
    """Which of two, its open variables, and then which engine: three pages, one after the other."""
    asked = eva.post("/profiles/paste/", {"text": SPEECH, "choice": "1"}).content.decode()
    answered = {"choice": "1", "asked": "yes", "value-VOICES": "/data/voices"}
    unknown = eva.post("/profiles/paste/", {"text": SPEECH, **answered}).content.decode()
    shown = eva.post("/profiles/paste/", {"text": SPEECH, **answered, "engine": "other"})

    assert "$VOICES" in asked
    assert "Which engine is in it?" in unknown
    assert 'name="choice" value="1" required checked' in unknown
    assert 'name="asked" value="yes"' in unknown
    assert 'name="value-VOICES" value="/data/voices"' in unknown
    first = shown.context["form"].initial
    assert (first["engine"], first["image"]) == ("other", "acme/speech:2")
    assert first["volumes"] == "/data/voices:/voices:ro"


def test_an_engine_that_was_named_before_a_variable_is_kept(eva: Client) -> None:
    text = "docker run -v $DATA:/data -p 11434:11434 ollama/ollama"

    asked = eva.post("/profiles/paste/", {"text": text, "engine": "other"}).content.decode()

    assert '<input type="hidden" name="engine" value="other">' in asked


def test_who_named_the_wrong_engine_may_name_another(eva: Client) -> None:
    text = "docker run -p 11434:11434 ollama/ollama"

    refused = eva.post("/profiles/paste/", {"text": text, "engine": "vllm"}).content.decode()

    assert "starts none of the engines" in refused
    assert 'name="engine" value="vllm" required checked' in refused
    assert 'name="engine" value="other" required>' in refused


@pytest.mark.parametrize(("key", "kept"), [("sesame-open", "sesame-open"), ("<your key>", "")])
def test_a_key_among_the_flags_becomes_a_secret(eva: Client, box: Box, key: str, kept: str) -> None:
    text = f"# who may ask\nvllm serve a/b --api-key '{key}' --dtype auto"

    shown = eva.post("/profiles/paste/", {"text": text, "asked": "yes"})

    assert "--api-key is kept as the secret VLLM_API_KEY." in shown.content.decode()
    first = shown.context["form"].initial
    assert first["flags"] == "--dtype auto"
    sent = send(eva, shown, name="With a key", box=str(box.pk))
    if kept:
        launch = Profile.objects.get().launch
        assert Secret.objects.get(pk=launch.secret_env["VLLM_API_KEY"]).reveal() == kept
    else:
        assert "VLLM_API_KEY" in sent.content.decode(), "has no value yet"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("vllm serve 'a/b", "Line 1"),
        ("export A=1", "only variables are set"),
        ("docker run -it vllm/vllm-openai bash", "This starts a shell; paste what is typed inside"),
        ("docker run nginx", "says which engine is in it"),
        ("docker run x/y z", "says which engine is in it"),
        ("", "no command"),
    ],
)
def test_what_cannot_be_read_is_told_and_stays(eva: Client, text: str, says: str) -> None:
    answer = eva.post("/profiles/paste/", {"text": text}).content.decode()

    assert says in answer
    assert text.replace("'", "&#x27;") in answer


def test_a_paste_cannot_bring_markup_into_the_page(eva: Client) -> None:
    text = "vllm serve '</textarea><script>alert(1)</script>' --x \"<img hx-get=/logout/>\""

    answer = eva.post("/profiles/paste/", {"text": text}).content.decode()

    assert "<script>alert" not in answer
    assert "<img hx-get" not in answer


VLLM_RECIPE = """
meta:
  title: Heron-90B
model:
  model_id: heron/Heron-90B
  base_args: ["--max-model-len", "32768"]
variants:
  default:
    precision: bf16
  fp8:
    precision: fp8
    model_id: heron/Heron-90B-FP8
"""


def test_a_model_file_of_vllms_recipes_is_read_too(eva: Client) -> None:
    asked = eva.post("/profiles/paste/", {"text": VLLM_RECIPE}).content.decode()
    shown = eva.post("/profiles/paste/", {"text": VLLM_RECIPE, "choice": "1"})

    assert "2 launches are in it" in asked
    first = shown.context["form"].initial
    assert first["checkpoint"] == "heron/Heron-90B-FP8"
    assert "--max-model-len 32768" in first["flags"]


def test_recipes_say_what_fits_this_box(eva: Client, box: Box) -> None:
    card = {"name": "NVIDIA GB300", "compute_capability": "10.3"}
    Box.objects.update(facts={**box.facts, "gpus": [card]})

    some = eva.get("/recipes/").content.decode()
    every = eva.get("/recipes/?all=on").content.decode()

    assert "fits this box" in some
    assert "needs two boxes" not in some
    assert "needs two boxes: not startable yet" in every


def test_a_recipe_becomes_a_profile(eva: Client, box: Box) -> None:
    made = send(eva, eva.get("/profiles/new/?recipe=station-qwen3-8b-sglang"), box=str(box.pk))

    assert made.status_code == 302, made.context["form"].errors
    profile = Profile.objects.get()
    assert profile.launch.hardware == "1x GB300"
    assert profile.launch.reasons["--attention-backend"].startswith("trtllm_mha")
    assert profile.source.startswith("https://")
    assert "dgx-station" in profile.tag_list


def test_a_broken_recipe_of_ones_own_is_told(eva: Client, settings: Any, tmp_path: Path) -> None:
    settings.RECIPES = tmp_path
    (tmp_path / "mine.yaml").write_text("name: Mine\nengin: vllm\n")

    text = eva.get("/recipes/").content.decode()

    assert f"{tmp_path}/mine.yaml was not read" in text


def test_an_overlay_shows_what_it_changes_before_it_does(eva: Client, box: Box) -> None:
    profile = factories.server(box, "glm-5").profile
    shown = eva.get(f"/profiles/{profile.slug}/overlays/metrics/").content.decode()
    assert "--enable-metrics" in shown
    assert profile.versions.count() == 1

    eva.post(f"/profiles/{profile.slug}/overlays/metrics/")

    profile.refresh_from_db()
    assert "--enable-metrics" in profile.launch.flags
    assert profile.current is not None
    assert profile.current.message == "Laid over: Metrics"
    eva.post(f"/profiles/{profile.slug}/overlays/metrics/")
    assert profile.versions.count() == 2


def test_an_overlay_of_another_engine_is_not_offered(eva: Client, box: Box) -> None:
    profile = factories.server(box, "gpt-oss-120b").profile

    assert eva.get(f"/profiles/{profile.slug}/overlays/metrics/").status_code == 404
