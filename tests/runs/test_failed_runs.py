"""A failed run is diagnosed once, explained on its page, compared with its last good one, and
mended by one click."""

from dataclasses import replace
from typing import Any

import pytest
from django.test import Client

from servers.lifecycle.logs import diagnoses
from servers.models import AuditEntry, LogChunk, Role, Run, Server
from servers.models.runs.run import RunState
from tests import factories

pytestmark = pytest.mark.django_db

OOM = """\
(EngineCore pid=64) INFO 11-21 08:00:03 [kv_cache_utils.py:1087] GPU KV cache size: 60,224 tokens
(EngineCore pid=64) ERROR 11-21 08:00:03 [core.py:936] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"""


def failed(log: str = OOM, *, flags: tuple[str, ...] = (), **values: Any) -> Run:
    on = factories.box()
    server = factories.server(on, engine="vllm", image="vllm/vllm-openai:v0.20.2", flags=flags)
    return failing(server, log, **values)


def failing(server: Server, log: str = OOM, **values: Any) -> Run:
    said = {"exit_code": 1, "container_id": "c" * 64, "is_complete": True}
    said["failure"] = "The engine ended by itself before it was ready, with exit code 1."
    run = factories.run(server, RunState.FAILED, **{**said, **values})
    if log:
        stamp = b"2026-11-21T08:00:00.000000000Z e "
        LogChunk.objects.append(run.pk, 0, [stamp + line.encode() for line in log.split("\n")])
    return run


def looked(run: Run) -> Run:
    diagnoses.look(run.server.box)
    return Run.objects.select_related("server__box", "server__profile__current").get(pk=run.pk)


def test_a_failed_run_is_diagnosed_with_the_lines_that_prove_it() -> None:
    run = looked(failed())

    assert run.log.cause == "cuda-oom"
    assert run.log.diagnosis["evidence"][0][0] == 2
    assert "2.00 GiB" in run.why


def test_a_log_that_is_still_being_read_is_not_judged() -> None:
    assert looked(failed(is_complete=False)).log.diagnosis == {}


def test_a_run_is_diagnosed_once() -> None:
    run = looked(failed())
    Run.objects.filter(pk=run.pk).write(log__diagnosis={"cause": None, "summary": "seen"})

    assert looked(run).log.diagnosis["summary"] == "seen"


def test_what_docker_says_is_diagnosed_without_a_log() -> None:
    said = "Bind for 0.0.0.0:18000 failed: port is already allocated"
    run = looked(failed("", container_id="", failure="No container.", failure_detail=said))

    assert run.log.cause == "docker-port-allocated"


def test_the_page_says_the_cause_first_with_links_into_the_log(client: Client) -> None:
    run = looked(failed())
    client.force_login(factories.person())

    page = client.get(f"/servers/{run.server.slug}/").content.decode()

    assert "GPU memory ran out" in page
    assert f'href="/servers/{run.server.slug}/log/#L2"' in page
    assert "Apply fix and start: --gpu-memory-utilization 0.87" in page
    card = client.get("/").content.decode()
    assert "GPU memory ran out" in card


def test_an_unknown_failure_is_told_as_such_with_its_most_telling_lines(client: Client) -> None:
    run = looked(failed("Starting\nIndexError: plum\nbye"))
    client.force_login(factories.person())

    page = client.get(f"/servers/{run.server.slug}/").content.decode()

    assert run.log.cause == ""
    assert "not recognised" in page
    assert "No known failure fits." in page
    assert "#L2" in page


def test_one_click_saves_the_fix_as_a_new_version_and_starts_it(client: Client) -> None:
    run = looked(failed(flags=("--gpu-memory-utilization", "0.95")))
    client.force_login(factories.person("olga", Role.OPERATOR))
    steps = diagnoses.explain_failure(run, factories.person()).steps
    number = next(step.number for step in steps if step.change)

    answer = client.post(f"/servers/{run.server.slug}/runs/{run.pk}/fix/{number}/")

    assert answer.status_code == 204, answer.content
    server = Server.objects.get(pk=run.server_id)
    assert server.run is not None
    assert server.run.version.number == 2
    assert server.run.version.launch.flags == ("--gpu-memory-utilization", "0.9")
    assert server.run.state == RunState.QUEUED
    assert AuditEntry.objects.filter(action="apply fix").exists()


def test_a_fix_that_the_profile_has_already_is_not_offered(client: Client) -> None:
    run = looked(failed("x\nValueError: VLLM_PORT 'tcp://10.0.0.1:8000' appears to be a URI. This"))
    client.force_login(factories.person())

    assert run.log.cause == "vllm-port-env-uri"
    assert diagnoses.explain_failure(run, factories.person()).steps == ()
    assert client.post(f"/servers/{run.server.slug}/runs/{run.pk}/fix/0/").status_code == 404


# Engine, what its log says, the profile's flags, and what the first fix makes of them.
MISSPELT = (
    ("vllm", "vllm: error: unrecognized arguments: --enable-prefix-cachingg",
     ("--enable-prefix-cachingg",), ("--enable-prefix-caching",)),
    ("sglang", "launch_server.py: error: unrecognized arguments: --mem-fraction-statc 0.8",
     ("--tp-size", "1", "--mem-fraction-statc", "0.8"),
     ("--tp-size", "1", "--mem-fraction-static", "0.8")),
    ("llamacpp", "error: invalid argument: --ctx-sizee",
     ("--ctx-sizee", "4096", "-ngl", "99"), ("-ngl", "99", "--ctx-size", "4096")),
    ("llamacpp", "error: invalid argument: -nglx", ("-nglx", "99"), ("-ngl", "99")),
)  # fmt: skip


def test_a_misspelt_flag_is_first_offered_the_right_spelling(client: Client) -> None:
    on = factories.box()
    client.force_login(factories.person("ed", Role.EDITOR))
    images = {engine: image for engine, image, _model in factories.MODELS.values()}
    for number, (engine, log, flags, right) in enumerate(MISSPELT):
        made = factories.server(
            on, f"m{number}", "glm-5", engine=engine, image=images[engine], flags=flags
        )
        run = looked(failing(made, log))

        page = client.get(f"/servers/{made.slug}/").content.decode()

        assert run.log.cause in ("argparse-unrecognized", "llama-invalid-arg")
        assert 0 < page.index("It is spelled otherwise") < page.index("Remove -"), log
        assert "Source: Reproduced by the inferdash project" in page
        answer = client.post(f"/servers/{made.slug}/runs/{run.pk}/fix/0/")
        run.server.profile.refresh_from_db()
        assert run.server.profile.launch.flags == right, answer.content.decode()


def test_a_short_flag_that_resembles_two_is_not_guessed(client: Client) -> None:
    on = factories.box()
    made = factories.server(on, "gemma-tiny", flags=("-ct", "q8_0"))
    looked(failing(made, "error: invalid argument: -ct"))
    client.force_login(factories.person("ed", Role.EDITOR))

    page = client.get("/servers/gemma-tiny/").content.decode()

    assert "It is spelled otherwise" not in page
    assert "Remove -ct" in page


def test_a_flag_that_resembles_none_is_only_offered_to_be_left_out(client: Client) -> None:
    log = "vllm: error: unrecognized arguments: --zzqqxx"
    run = looked(failed(log, flags=("--zzqqxx",)))
    client.force_login(factories.person("ed", Role.EDITOR))

    page = client.get(f"/servers/{run.server.slug}/").content.decode()

    assert "It is spelled otherwise" not in page
    assert "Remove --zzqqxx" in page


def test_what_changed_since_it_last_worked_comes_first() -> None:
    on = factories.box()
    server = factories.server(on, engine="vllm", flags=("--max-model-len", "4096"))
    good = factories.run(
        server, RunState.STOPPED, image_id="sha256:old", around={"driver": "580.1", "others": []}
    )
    launch = server.profile.launch

    flags = ("--max-model-len", "65536")
    server.profile.save_version(replace(launch, flags=flags), by=factories.person())
    around = {"driver": "590.2", "others": ["other"]}
    run = looked(failing(server, image_id="sha256:new", around=around))

    why = diagnoses.explain_failure(run, factories.person())

    assert why.last_good == good
    assert [(each.what, each.after) for each in why.changed] == [
        ("image id", "sha256:new"),
        ("driver", "590.2"),
        ("other servers on the box", "other"),
    ]
    assert [(each.name, each.before, each.after) for each in why.differences] == [
        ("--max-model-len", "4096", "65536")
    ]


def test_a_million_lines_cost_no_more_than_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnoses, "HEAD", 2)
    monkeypatch.setattr(diagnoses, "TAIL", 2)
    middle = "\n".join(f"Decode batch {n}" for n in range(50))
    run = looked(failed(f"start\n{middle}\n{OOM}"))

    assert run.log.cause == "cuda-oom"
    assert run.log.diagnosis["evidence"][0][0] == 53


def test_what_needs_attention_says_the_cause() -> None:
    looked(failed())

    assert [run.why for _slug, run in Server.objects.failures()] == [
        "GPU memory ran out: 2.00 GiB more did not fit beside the weights, the KV cache and the "
        "graphs."
    ]
