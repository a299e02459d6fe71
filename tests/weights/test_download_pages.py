"""The pages by which people download models, on rows and on a Hub that stands here."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client
from django.utils import timezone

from servers import tasks
from servers.contexts import pages
from servers.host.weights.fetch.listing import choose_files, group_files
from servers.host.weights.fetch.places import FetchError, RepositoryFile
from servers.lifecycle.weights import downloads
from servers.models import Box, CheckpointFacts, Download, Role, User
from servers.models.jobs.job import JobState
from tests import factories
from tests.model_hub import ModelHub, model_hub

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]

GGUF = {
    "README.md": b"# gemma",
    "gemma-Q4_K_M.gguf": b"4" * 5000,
    "gemma-Q4_K_S.gguf": b"4" * 4500,
    "Q8_0/gemma-Q8_0-00001-of-00002.gguf": b"8" * 5000,
    "Q8_0/gemma-Q8_0-00002-of-00002.gguf": b"8" * 4000,
    "mmproj-F16.gguf": b"m" * 2000,
}


def listed(*named: tuple[str, int]) -> list[RepositoryFile]:
    return [RepositoryFile(name=name, size=size, blob="a" * 40) for name, size in named]


def usual(*named: tuple[str, int]) -> list[str]:
    return [file.name for file in choose_files(listed(*named), [])]


def test_what_engines_load_is_chosen_once() -> None:
    common = [("config.json", 9), ("tokenizer.json", 9), ("README.md", 9)]
    shards = [(f"model-0000{n}-of-00002.safetensors", 100) for n in (1, 2)]
    others = [("pytorch_model.bin", 200), ("original/consolidated.00.pth", 200),
              ("consolidated.safetensors", 200), ("tf_model.h5", 200), ("onnx/model.onnx", 9),
              ("training_args.bin", 1)]  # fmt: skip
    assert usual(*common, *shards, *others) == [name for name, _size in [*common, *shards]]
    assert usual(("config.json", 9), ("pytorch_model.bin", 9)) == [
        "config.json",
        "pytorch_model.bin",
    ]
    assert usual(("params.json", 9), ("consolidated.safetensors", 9)) == [
        "params.json", "consolidated.safetensors",
    ]  # fmt: skip
    assert usual(("README.md", 9), ("one.gguf", 9)) == ["README.md", "one.gguf"]
    # What a model brings in folders of its own, such as its speech part, is small or wanted.
    assert usual(("config.json", 1), ("model.safetensors", 9), ("assets/a.json", 1)) == [
        "config.json", "model.safetensors", "assets/a.json",
    ]  # fmt: skip


def test_one_of_several_quantizations_has_to_be_chosen() -> None:
    files = listed(*[(name, len(content)) for name, content in GGUF.items()])
    with pytest.raises(FetchError, match="holds 3 quantizations of one model"):
        choose_files(files, [])
    assert [file.name for file in choose_files(files, [":Q4_K_M"])] == [
        "README.md", "gemma-Q4_K_M.gguf", "mmproj-F16.gguf",
    ]  # fmt: skip
    assert len(choose_files(files, [":q8_0"])) == 4
    with pytest.raises(FetchError, match="No file of the repository"):
        choose_files(files, [":Q4"])
    assert [file.name for file in choose_files(files, ["Q8_0/*"])] == [
        name for name in GGUF if name.startswith("Q8")
    ]
    assert [(group.name, len(group.files)) for group in group_files(files)][:3] == [
        ("gemma-Q4_K_S", 1), ("gemma-Q4_K_M", 1), ("Q8_0/gemma-Q8_0", 2),
    ]  # fmt: skip


def test_a_name_with_brackets_is_its_own_pattern() -> None:
    files = listed(("a[1].json", 1), ("a1.json", 1))
    group = group_files(files)[0]
    assert choose_files(files, [group.patterns[0]]) == (group.files[0],)


@pytest.fixture
def box(root: Path) -> Box:
    (root / "home/ada/.cache").mkdir(parents=True)
    found = factories.box(hf_cache="~/.cache/huggingface")
    card = {"name": "RTX PRO 6000", "compute_capability": "12.0", "total": 95 << 30}
    found.facts["gpus"] = [{"index": n, "kind": "discrete", **card} for n in range(8)]
    found.save()
    return found


@pytest.fixture
def hub(settings: Any) -> Iterator[ModelHub]:
    with model_hub() as made:
        settings.HUB = made.url
        made.has("unsloth/gemma-GGUF", GGUF)
        yield made


def client_of(role: Role) -> Client:
    return factories.log_in(User.objects.create(username=f"a-{role.label}", role=role))


@pytest.fixture
def operator() -> Client:
    return client_of(Role.OPERATOR)


def look(client: Client, page: str) -> str:
    """What the page asks for as soon as it is shown, with the box's worker at hand."""
    address = page.partition('hx-get="/models/download/look/')[2].partition('"')[0]
    query = {k: v[0] for k, v in parse_qs(urlsplit(address.replace("&amp;", "&")).query).items()}
    asked = downloads.question(Box.objects.get(slug=query["box"]), query["asked"])
    tasks.look_at_hub(asked, query["box"], query["of"], query["revision"])
    return client.get("/models/download/look/", query | {"looks": "1"}).content.decode()


def test_a_models_files_are_shown_with_what_they_need(
    hub: ModelHub, box: Box, operator: Client
) -> None:
    page = operator.get("/models/download/", {"of": f"{hub.url}/unsloth/gemma-GGUF"})
    shown = look(operator, page.content.decode())
    assert "gemma-Q4_K_M" in shown
    assert "It has the same model in several formats. Choose one." in shown
    assert "fits on one of 8 GPUs" in shown
    assert "/home/ada/.cache/huggingface" in shown
    assert "free" in shown
    named = operator.get("/models/download/", {"of": "unsloth/gemma-GGUF:Q4_K_M"})
    shown = look(operator, named.content.decode())
    assert "several formats" not in shown
    assert shown.count(" checked") == 4  # three groups, and the cache


def test_what_the_hub_refuses_is_told_in_the_page(
    hub: ModelHub, box: Box, operator: Client
) -> None:
    hub.repositories["unsloth/gemma-GGUF"].is_gated = True
    page = operator.get("/models/download/", {"of": "unsloth/gemma-GGUF"}).content.decode()
    shown = look(operator, page)
    assert "is gated" in shown
    assert f'href="{hub.url}/unsloth/gemma-GGUF"' in shown
    page = operator.get("/models/download/", {"of": "no such name"}).content.decode()
    assert "is not the id of a model" in page


def test_a_box_that_does_not_answer_is_asked_again_and_then_told(
    hub: ModelHub, box: Box, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("servers.views.weights.downloads.ANSWERS_WITHIN", 1)
    asked = {"of": "a/b", "box": box.slug, "asked": str(uuid.uuid4()), "looks": "1"}
    shown = operator.get("/models/download/look/", asked).content.decode()
    assert "looks=2" in shown
    shown = operator.get("/models/download/look/", asked | {"looks": "8"}).content.decode()
    assert "does not answer" in shown
    assert operator.get("/models/download/look/", asked | {"asked": "x"}).status_code == 404


def test_what_is_chosen_is_wanted(hub: ModelHub, box: Box, operator: Client) -> None:
    chosen = {
        "of": "unsloth/gemma-GGUF", "box": box.slug, "revision": "main", "choosing": "1",
        "files": ["gemma-Q4_K_M.gguf", "README.md\nmmproj-F16.gguf"], "into": "/mnt", "limit": "10",
    }  # fmt: skip
    answer = operator.post("/models/download/start/", chosen)
    assert answer.headers["Location"] == "/models/#downloads"
    made = Download.objects.get()
    assert made.patterns == ["gemma-Q4_K_M.gguf", "README.md", "mmproj-F16.gguf"]
    assert (made.into, made.limit, made.status) == ("/mnt", 10 << 20, "waiting")
    bad: list[dict[str, Any]] = [
        {"files": []}, {"limit": "7"}, {"of": "../etc"}, {"revision": "../x"},
    ]  # fmt: skip
    for wrong in bad:
        operator.post("/models/download/start/", chosen | wrong)
    assert Download.objects.count() == 1
    again = operator.post("/models/download/start/", chosen, follow=True)
    assert "is on its way to rtx8 already" in again.content.decode()


def test_the_list_says_how_far_each_is(box: Box, operator: Client) -> None:
    gib = 1 << 30
    factories.download(
        box,
        state=JobState.DOWNLOADING,
        total=40 * gib,
        done=10 * gib,
        rate=100 * 2**20,
        limit=2**27,
    )
    factories.download(box, "a/failed", state=JobState.FAILED, said="The disk is full.",
                       ended_at=timezone.now())  # fmt: skip
    factories.download(
        box, "a/looked", state=JobState.VERIFYING, total=gib, done=gib, looked=gib // 2
    )
    factories.download(
        box, "a/paused", state=JobState.PAUSED, wanted="paused", total=gib, done=gib // 4
    )
    shown = operator.get("/models/").content.decode()
    for words in [
        "10.0 of 40.0 GiB, 25 %", "100 MiB/s", "5 min 7 s left", "at most 128 MiB/s",
        "The disk is full.", "Try again", "0.5 of 1.0 GiB verified", "Resume",
    ]:  # fmt: skip
        assert words in shown, words
    person = User.objects.get()
    keys: set[tuple[str, int | None]] = {("downloads", None)}
    pushed = pages.render(keys, person, page="models")
    assert "10.0 of 40.0 GiB, 25 %" in pushed
    viewer = client_of(Role.VIEWER).get("/models/").content.decode()
    assert "25 %" in viewer
    assert ">Pause<" not in viewer
    assert "Download a model" not in viewer


def test_the_buttons_do_what_they_say(box: Box, operator: Client) -> None:
    row = factories.download(box, state=JobState.DOWNLOADING, total=1 << 30, done=1 << 29)

    def press(verb: str, **data: str) -> int:
        return operator.post(f"/models/downloads/{row.pk}/{verb}/", data).status_code

    def now() -> tuple[str, int, bool]:
        row.refresh_from_db()
        return row.wanted, row.limit, row.drops_parts

    assert press("pause") == 204
    assert now() == ("paused", 0, False)
    assert press("resume") == 204
    assert press("limit", limit="25") == 204
    assert press("limit", limit="26") == 409
    assert now() == ("go", 25 << 20, False)
    assert "0.5 GiB" in operator.get(f"/models/downloads/{row.pk}/cancel/ask/").content.decode()
    assert press("cancel", parts="drop") == 204
    assert now() == ("cancelled", 25 << 20, True)
    assert press("resume") == 204
    assert now()[0] == "cancelled", "who cancels has the last word"
    assert press("dance") == 404
    row.move(JobState.CANCELLED)
    assert press("pause") == 409
    assert press("resume") == 204
    row.refresh_from_db()
    assert (row.status, row.wanted) == ("waiting", "go")


def test_a_profile_offers_the_download_of_what_its_box_lacks(
    hub: ModelHub, box: Box, operator: Client
) -> None:
    server = factories.server(box, "gpt-oss-120b")
    page = f"/profiles/{server.profile.slug}/"
    assert "Download it to rtx8" not in operator.get(page).content.decode(), "nobody has looked"
    CheckpointFacts.objects.create(
        box=box, source="openai/gpt-oss-120b@main", weights=9, missing=9, remote="open",
        changed_at=timezone.now(),
    )  # fmt: skip
    shown = operator.get(page).content.decode()
    assert "Download it to rtx8" in shown
    sent = {"of": "openai/gpt-oss-120b", "revision": "main", "box": "rtx8"}
    operator.post("/models/download/start/", sent)
    made = Download.objects.get()
    assert (made.repository, made.patterns, made.into) == ("openai/gpt-oss-120b", [], "")
    assert "It is on its way to rtx8" in operator.get(page).content.decode()


def test_an_offline_inferdash_says_so(box: Box, operator: Client, settings: Any) -> None:
    settings.HUB = ""
    shown = operator.get("/models/download/", {"of": "a/b"}).content.decode()
    assert "INFERDASH_HUB is off" in shown
    operator.post("/models/download/start/", {"of": "a/b", "box": "rtx8"})
    assert not Download.objects.exists()
