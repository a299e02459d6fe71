"""Each operation of the API, on rows as real boxes make them."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
import yaml
from django.test import Client
from django.utils import timezone

from servers import events
from servers.judge.memory.release import Release
from servers.judge.memory.verdicts import MemoryVerdict
from servers.judge.messages import say
from servers.models import (
    Benchmark,
    BenchmarkJob,
    Box,
    Job,
    LogChunk,
    Profile,
    Request,
    Role,
    Run,
    RunHealth,
    Server,
)
from servers.models.runs.run import RunState, Sleep
from servers.views.api import api
from tests import factories, samples
from tests.api.conftest import ClientOf
from tests.api.rows import DOCUMENT
from tests.cases import table

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]

JSON = "application/json"


def test_every_operation_is_described() -> None:
    for path, methods in api.get_openapi_schema()["paths"].items():
        for method, operation in methods.items():
            assert operation["responses"], (method, path)
            assert operation["summary"], (method, path)


def test_the_description_is_there_for_everybody() -> None:
    said = Client().get("/api/v1/openapi.json")
    assert said.json()["info"]["title"] == "inferdash"


def test_boxes_say_who_holds_their_memory(client_of: ClientOf, box: Box, server: Server) -> None:
    run = factories.run(server)
    process = {"pid": 40, "start": 1, "ppid": 1, "name": "python", "container": run.container_id}
    events.publish_sample(
        box.slug, box.pk, samples.sample([samples.card(0, [(40, 61)])], [process])
    )

    said = client_of(Role.VIEWER).get("/api/v1/boxes/rtx8").json()

    assert (said["slug"], said["health"]) == ("rtx8", "ok")
    gpu = said["gpus"][0]
    assert sum(part["size"] for part in gpu["memory"]) == gpu["total"]
    assert "qwen3-8b" in {part["name"] for part in gpu["memory"]}


def test_servers_say_where_they_are(client_of: ClientOf, server: Server) -> None:
    viewer = client_of(Role.VIEWER)
    assert viewer.get("/api/v1/servers").json()[0]["state"] == "never started"
    run = factories.run(server)
    said = viewer.get("/api/v1/servers/qwen3-8b").json()
    assert (said["state"], said["run"]["id"], said["profile"]) == ("ready", run.pk, "qwen3-8b")
    assert said["base_url"] == f"http://127.0.0.1:{run.port}/v1"
    assert [each["id"] for each in viewer.get("/api/v1/servers/qwen3-8b/runs").json()] == [run.pk]
    missing = viewer.get("/api/v1/servers/none")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "not_found")


def test_what_is_said_in_words_has_a_code_beside_it(client_of: ClientOf, box: Box) -> None:
    card = samples.card(0, [])
    said = say("memory.leaked-card", size=40 << 30)
    verdict = MemoryVerdict.from_sentence(said, "leaked", t=0.0, gpu=card["uuid"])
    events.publish_sample(
        box.slug, box.pk, samples.sample([card], [], verdicts=[verdict.to_json()])
    )
    server = factories.server(box, "sleeper", checkpoint="a/b")
    factories.run(server, sleep=Sleep.ASLEEP, sleep_info={"before": 75 << 30, "after": 4 << 30})
    after = Release(outcome="missing", to_come=20 << 30).to_json()
    over = factories.run(factories.server(box, "over", checkpoint="a/b"), RunState.STOPPED)
    RunHealth.objects.filter(run=over).update(memory_after=after)

    viewer = client_of(Role.VIEWER)
    gpu = viewer.get("/api/v1/boxes/rtx8").json()["gpus"][0]
    asleep = viewer.get("/api/v1/servers/sleeper").json()["run"]
    ended = viewer.get("/api/v1/servers/over").json()["run"]

    assert (gpu["reason_code"], gpu["reason"]) == ("memory.leaked-card", said.text)
    assert (asleep["sleep_code"], asleep["sleep"]) == ("runs.asleep", "asleep: 71 GiB released")
    assert ended["memory_code"] == "memory.release-missing"
    assert ended["memory"].startswith("20.0 GiB have not come back")
    assert (asleep["memory_code"], ended["sleep_code"]) == ("", "")


@table(
    ("path", "message", "advice"),
    [
        ("servers/qwen-8b", "There is no server called qwen-8b.", "Did you mean qwen3-8b?"),
        ("servers/none", "There is no server called none.", "There is: qwen3-8b."),
        ("profiles/qwen3", "There is no profile called qwen3.", "Did you mean qwen3-8b?"),
        ("boxes/rtx", "There is no box called rtx.", "Did you mean rtx8?"),
        ("boxes/none/images", "There is no box called none.", "There is: rtx8."),
    ],
    shared=("client_of", "server"),
)
def test_an_unknown_name_is_told_with_the_nearest(
    client_of: ClientOf, server: Server, path: str, message: str, advice: str
) -> None:
    said = client_of(Role.VIEWER).get(f"/api/v1/{path}")
    fault = said.json()["error"]
    assert (said.status_code, fault["message"], fault["advice"]) == (404, message, advice)


def test_a_start_is_queued_once_and_a_stop_is_heard(client_of: ClientOf, server: Server) -> None:
    operator = client_of(Role.OPERATOR)
    for _ in range(2):
        said = operator.generic("POST", "/api/v1/servers/qwen3-8b/start")
        assert said.status_code == 200, said.json()
        assert said.json()["state"] == "queued"
    run = Run.objects.get()
    assert run.started_by is not None
    assert run.started_by.username == "a-operator"

    said = operator.generic("POST", "/api/v1/servers/qwen3-8b/stop")
    assert said.json()["state"] == "stopping"


def test_a_start_that_would_fail_is_refused_with_its_reasons(client_of: ClientOf, box: Box) -> None:
    box.facts["gpus"] = [{"index": 0, "kind": "discrete", "total": 95 << 30, "name": "RTX",
                          "compute_capability": "12.0"}]  # fmt: skip
    box.save()
    factories.server(box, "qwen3-8b", gpus="7")
    start = "/api/v1/servers/qwen3-8b/start"
    answer = client_of(Role.OPERATOR).post(start, {"despite": "because"}, content_type=JSON)
    assert answer.status_code == 409
    said = answer.json()["error"]
    assert (said["code"], said["details"]["may_start"]) == ("would_fail", False)
    assert not Run.objects.exists()

    answer = client_of(Role.EDITOR).post(start, {"despite": "because"}, content_type=JSON)
    assert answer.status_code == 200
    assert Run.objects.get().plan.overridden_errors == "because"

    answer = client_of(Role.EDITOR).post(start, {"when_taken": "push"}, content_type=JSON)
    assert answer.status_code == 422
    assert "when_taken" in answer.json()["error"]["message"]


def test_a_failed_run_says_why(client_of: ClientOf, server: Server) -> None:
    run = factories.run(
        server, RunState.FAILED, failure="exit code 1",
        diagnosis={"outcome": "failed", "cause": "kv-cache-too-small", "summary": "No room.",
                   "evidence": [[88, "ValueError: no room"]], "groups": [], "is_partial": True},
    )  # fmt: skip
    said = client_of(Role.VIEWER).get(f"/api/v1/runs/{run.pk}/why").json()
    assert said["summary"] == "No room."
    assert said["evidence"] == [[88, "ValueError: no room"]]
    assert said["is_partial"]
    assert said["run"]["failure"] == "No room."
    assert said["fixes"] == []


def test_a_failed_run_says_what_to_do(client_of: ClientOf, server: Server) -> None:
    run = factories.run(
        server, RunState.FAILED, diagnosis={"cause": "gpu-ecc-error", "summary": "x", "groups": {}}
    )
    said = client_of(Role.VIEWER).get(f"/api/v1/runs/{run.pk}/why").json()
    assert said["fixes"][0] == "Reset the GPU or reboot the box, so that the bad rows are replaced."


def test_a_log_is_read_by_number_and_from_its_end(client_of: ClientOf, server: Server) -> None:
    run = factories.run(server, RunState.FAILED)
    stamped = [f"2026-11-21T20:00:00.{n:09}Z o line {n}".encode() for n in range(1, 31)]
    LogChunk.objects.append(run.pk, 0, stamped)
    Run.objects.filter(pk=run.pk).write(log__is_complete=True)
    viewer, path = client_of(Role.VIEWER), f"/api/v1/runs/{run.pk}/log"

    said = viewer.get(path, {"limit": 10}).json()
    assert (said["lines"][0]["text"], said["next"], said["is_complete"]) == ("line 1", 11, False)
    assert [each["number"] for each in viewer.get(path, {"start": -2}).json()["lines"]] == [29, 30]
    over = viewer.get(path, {"start": 31, "wait": 5}).json()
    assert (over["lines"], over["next"], over["is_complete"]) == ([], 31, True)
    assert viewer.get("/api/v1/runs/999/log").json()["error"]["message"] == "There is no run 999."


def test_a_profile_goes_out_and_comes_back(client_of: ClientOf, box: Box) -> None:
    editor = client_of(Role.EDITOR)
    made = editor.post("/api/v1/profiles", {"document": DOCUMENT}, content_type=JSON)
    assert made.status_code == 201, made.json()
    assert made.json()["slug"] == "coder"
    assert made.json()["servers"] == ["coder"]

    out = editor.get("/api/v1/profiles/coder/export/yaml").content.decode()
    assert yaml.safe_load(out)["checkpoint"] == "Qwen/Qwen3-8B"
    same = editor.put("/api/v1/profiles/coder", {"document": out}, content_type=JSON)
    assert (same.status_code, same.json()["version"]) == (200, 1)
    longer = out.replace("8192", "16384")
    other = editor.put("/api/v1/profiles/coder", {"document": longer}, content_type=JSON)
    assert other.json()["version"] == 2
    assert Profile.objects.get().launch.flags == ("--max-model-len", "16384")
    assert editor.get("/api/v1/profiles", {"q": "coder"}).json()[0]["version"] == 2
    assert editor.get("/api/v1/profiles/coder/export/toml").status_code == 404


def test_documents_that_cannot_be_read_change_nothing(client_of: ClientOf, box: Box) -> None:
    editor = client_of(Role.EDITOR)
    for document, words in {
        "engine: [": "The document",
        "name: x\nengine: vllm": "image",
        DOCUMENT.replace("vllm\n", "tgi\n", 1): "tgi",
        DOCUMENT + "privileged: true\n": "admin",
    }.items():
        said = editor.post("/api/v1/profiles", {"document": document}, content_type=JSON)
        assert said.status_code == 422, document
        assert words in str(said.json()), said.json()
    said = editor.post(
        "/api/v1/profiles", {"document": DOCUMENT, "box": "none"}, content_type=JSON
    ).json()
    assert said["error"]["advice"] == "Name one in “box”: rtx8."
    assert not Profile.objects.exists()


def test_an_imported_version_keeps_the_secrets_that_were_not_written_out(
    client_of: ClientOf, box: Box
) -> None:
    server = factories.server(
        box, "keyed", secret_env={"HF_TOKEN": 7}, flags=("--api-key", "sesame", "--enable-x")
    )
    editor = client_of(Role.EDITOR)
    out = editor.get("/api/v1/profiles/keyed/export/yaml").content.decode()
    assert "sesame" not in out
    changed = out.replace("--enable-x", "--enable-y")
    assert (
        editor.put("/api/v1/profiles/keyed", {"document": changed}, content_type=JSON).json()[
            "version"
        ]
        == 2
    )
    server.profile.refresh_from_db()
    launch = server.profile.launch
    assert launch.secret_env == {"HF_TOKEN": 7}
    assert launch.flags == ("--enable-y", "--api-key", "sesame")


RUN = """
$ docker run -d --gpus '"device=0,1"' -p 8001:8000 -v ~/.cache/huggingface:/root/.cache/huggingface \\
    --memory 64g vllm/vllm-openai:v0.20.2 --model Qwen/Qwen3-8B --max-model-len 32768
"""
COMPOSE = """
services:
  coder:
    image: vllm/vllm-openai:v0.20.2
    command: [Qwen/Qwen3-8B, --max-model-len, "32768"]
    ports: ["8001:8000"]
"""


def test_docker_run_and_compose_are_imported_as_in_the_browser(
    client_of: ClientOf, box: Box
) -> None:
    editor = client_of(Role.EDITOR)
    for name, text in (("by-run", RUN), ("by-compose", COMPOSE)):
        body = {"document": text, "name": name}
        said = editor.post("/api/v1/profiles", body, content_type=JSON)
        assert said.status_code == 201, said.json()
        launch = Profile.objects.get(slug=name).launch
        assert (launch.checkpoint, launch.host_port) == ("Qwen/Qwen3-8B", 8001)
        assert launch.flags == ("--max-model-len", "32768")
        is_told = any("--memory 64g" in each for each in said.json()["remarks"])
        assert is_told is (text is RUN), said.json()
    for text, words, advice in (
        (COMPOSE.replace("coder:", "by-run:"), "already", "--into PROFILE"),
        (RUN.replace("docker run", "docker run --privileged"), "admin", "Change"),
        (RUN + RUN, "It starts 2: vllm/vllm-openai", "/profiles/paste/"),
        (RUN.replace("-p 8001", "-p '8001"), "Line ", "as YAML"),
        (RUN.replace("vllm/vllm-openai", "registry.example/team"), "which engine", "/profiles/pas"),
        (RUN.replace("-d", "-e API_TOKEN"), "API_TOKEN", "Change"),
    ):
        said = editor.post("/api/v1/profiles", {"document": text}, content_type=JSON)
        error = said.json()["error"]
        assert said.status_code == 422, text
        assert words in error["message"], error
        assert advice in error["advice"], error


def test_an_export_in_dockers_forms_comes_back_as_it_was(client_of: ClientOf, box: Box) -> None:
    editor = client_of(Role.ADMIN)
    for engine in ("gpt-oss-120b", "qwen3-8b", "gemma-tiny"):
        made = factories.server(
            box, f"of-{engine}", engine, flags=("--api-key", "sesame"), secret_env={"MY_TOKEN": 7},
            env={"NCCL_P2P_LEVEL": "SYS"}, reasons={"NCCL_P2P_LEVEL": "two sockets"},
            gpus="2x RTX PRO 6000", revision="abc", served_name="{{name}}",
            parameters={"name": "mine"}, restart="on-failure", start_with_box=True, grace=300,
            ready_path="/h", ask_every=600, log_must=("x",), expected={"tokens per second": "30"},
            volumes=("~/m:/m:ro",), host_port=8001,
        )  # fmt: skip
        path = f"/api/v1/profiles/{made.slug}"
        for form in ("docker", "compose"):
            out = editor.get(f"{path}/export/{form}").content.decode()
            said = editor.put(path, {"document": out}, content_type=JSON).json()
            assert (said["version"], said["remarks"]) == (1, []), (engine, form)
        changed = out.replace("127.0.0.1:8001", "127.0.0.1:8002")
        assert editor.put(path, {"document": changed}, content_type=JSON).json()["version"] == 2
        kept = made.profile.launch
        made.profile.refresh_from_db()
        assert made.profile.launch == replace(kept, host_port=8002)
        lacking = changed.replace("MY_TOKEN", "YOUR_TOKEN")
        refused = editor.put(path, {"document": lacking}, content_type=JSON)
        assert refused.json()["error"]["message"] == f"{made.slug} has no secret YOUR_TOKEN."


def test_numbers_that_no_database_holds_are_not_there(client_of: ClientOf, server: Server) -> None:
    viewer, run = client_of(Role.VIEWER), factories.run(server)
    assert viewer.get(f"/api/v1/runs/{10**30}").status_code == 404
    for start in (10**30, -(10**30), 0):
        said = viewer.get(f"/api/v1/runs/{run.pk}/log", {"start": start, "limit": 10**30})
        assert (said.status_code, said.json()["lines"]) == (200, []), start
    assert (
        viewer.get(f"/api/v1/servers/{server.slug}/runs", {"limit": -(10**30)}).status_code == 200
    )


def test_a_check_up_may_have_points_of_its_own_or_an_hours_requests(
    client_of: ClientOf, server: Server
) -> None:
    factories.run(server)
    editor = client_of(Role.EDITOR)

    def ask(**body: object) -> tuple[int, str]:
        said = editor.post("/api/v1/benchmarks", {"server": "qwen3-8b", **body}, JSON)
        told = said.json()
        return said.status_code, told["title"] if "title" in told else told["error"]["message"]

    wide = {"prompts": [500] * 9, "people": list(range(9))}
    assert ask(custom=wide)[1].startswith("people: Write")
    both = ask(custom={"prompts": [500], "people": [1]}, replay={"hour": "2026-01-02T15:20:00Z"})
    assert both == (422, "Give custom or replay, not both.")
    asked = timezone.now().replace(minute=30, second=0) - timedelta(hours=2)
    Request.objects.create(
        server="qwen3-8b", at=asked, status=200, path="/v1/chat/completions", model="qwen3-8b",
        prompt_tokens=200, completion_tokens=20, duration=1.0,
    )  # fmt: skip
    [hour] = editor.get("/api/v1/benchmarks/hours/qwen3-8b").json()
    assert hour["requests"] == 1
    assert ask(replay={"hour": hour["hour"], "pace": 2}) == (201, ask_title(asked))
    Benchmark.objects.all().delete()
    Job.objects.all().delete()
    assert ask(custom={"prompts": [500, 4000], "rates": [0.5]}) == (201, "Custom")
    job = BenchmarkJob.objects.get()
    assert (job.custom["rates"], job.custom["rounds"]) == ([0.5], 3)


def ask_title(at: datetime) -> str:
    return f"Replay of {timezone.localtime(at.replace(minute=0)):%-d %b %H:%M}"
