"""The page of a report: shows the whole file, and saves the very file that it has shown."""

import re
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from servers.judge.reports import document
from servers.lifecycle.logs import diagnoses
from servers.models import AuditEntry, LogChunk, Role, Run, Secret
from servers.models.runs.run import RunState
from servers.state import samples
from servers.watcher.memory.monitor import MemoryMonitor
from tests import factories
from tests.cases import table
from tests.memory.scenes import MemoryScene, crashed

TOKEN = "hf_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0hLxR"


@pytest.fixture
def ada(client: Client, db: None) -> Client:
    client.force_login(factories.person("barbara", Role.EDITOR))
    return client


def failed_run(*lines: str, box: str = "rtx-basement", **launch: Any) -> Run:
    there = factories.box(box)
    server = factories.server(there, f"{box}-server", "minimax-m2.7", **launch)
    run = factories.run(
        server, RunState.FAILED, container_id="c" * 64, is_complete=True, exit_code=1,
        failure="The engine ended by itself.",
    )  # fmt: skip
    LogChunk.objects.append(
        run.pk, 0, [f"2026-11-21T08:00:00.000000000Z e {line}".encode() for line in lines]
    )
    diagnoses.look(there)
    run.log.refresh_from_db()
    return run


def shown(page: str) -> str:
    found = re.search(r'(?s)<pre[^>]*id="report-text"[^>]*>(.*?)</pre>', page)
    assert found, page
    return unescape(found[1])


def hidden(page: str, name: str) -> str:
    found = re.search(rf'<input type="hidden" name="{name}" value="([^"]*)"', page)
    assert found, name
    return unescape(found[1])


def test_a_failure_is_shown_whole_and_saved_as_it_was_shown(ada: Client) -> None:
    secret = Secret.seal("OPENAI_API_KEY", "open-sesame", None)
    run = failed_run(
        "RuntimeError: the gremlin of rtx-basement ate /home/barbara/models",
        f"401 for {TOKEN}, open-sesame of barbara at 10.9.8.7",
        secret_env={"OPENAI_API_KEY": secret.pk},
    )
    address = reverse("run_report", args=[run.pk])

    page = ada.get(address).content.decode()

    text = shown(page)
    assert "| RuntimeError: the gremlin of host1 ate /home/user1/models" in text
    assert "| 401 for hf_••••••••, •••••••• of user1 at 10.0.0.1" in text
    assert "checkpoint: lukealonso/MiniMax-M2.7-NVFP4" in text
    assert re.search(r"\ninferdash: \d+\.\d+\.\d+", text)
    wishes = {"truth": "A gremlin of barbara", "hides_model": "on", "words": "gremlin\n\n"}
    first = ada.post(address, {**wishes, "save": "", "shown": hidden(page, "shown")})
    assert "the file has changed" in first.content.decode()
    assert not AuditEntry.objects.filter(action="save report").exists()

    page = first.content.decode()
    saved = ada.post(address, {**wishes, "save": "", "shown": hidden(page, "shown")})

    assert saved["Content-Disposition"].startswith('attachment; filename="inferdash-failure-20')
    text = saved.content.decode()
    assert text == shown(page)
    assert "truth: A hidden1 of user1" in text
    assert "gremlin" not in text
    assert "minimax-m2" not in text.lower()
    assert document.read(text).kind == "failure"
    entry = AuditEntry.objects.get(action="save report")
    assert (entry.by, entry.subject) == (factories.person("barbara"), run.server.slug)


def test_a_log_that_still_grows_can_be_saved_as_it_was_shown(ada: Client) -> None:
    run = failed_run("RuntimeError: the gremlin", box="growing")
    address = reverse("run_report", args=[run.pk])
    page = ada.get(address).content.decode()
    LogChunk.objects.append(run.pk, 1, [b"2026-11-21T08:00:01.000000000Z e one more"])
    run.log.lines += 1
    run.log.save(update_fields=["lines"])

    frozen = {name: hidden(page, name) for name in ("last", "shown")}
    saved = ada.post(address, {**frozen, "save": ""})

    assert saved.content.decode() == shown(page)
    assert "one more" in shown(ada.get(address).content.decode())
    assert ada.post(address, {"last": "9" * 99, "save": ""}).status_code == 200


@table(
    ("line", "link"),
    [
        ("RuntimeError: the gremlin", '<a class="button" href="{}">Report</a>'),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
            '<a class="button faint" href="{}">Wrong cause?</a>',
        ),
    ],
    shared=("ada",),
)
def test_report_stands_out_where_no_cause_is_named(line: str, link: str, ada: Client) -> None:
    run = failed_run(line, box=f"box-{len(line)}")

    page = ada.get(reverse("server", args=[run.server.slug])).content.decode()

    assert link.format(reverse("run_report", args=[run.pk])) in page


@pytest.mark.django_db
def test_who_may_only_chat_may_not_report(client: Client) -> None:
    run = failed_run("RuntimeError: the gremlin")
    client.force_login(factories.person("chatty", Role.CHAT))

    assert client.get(reverse("run_report", args=[run.pk])).status_code == 403


def test_a_paste_that_was_read_wrongly_comes_along_from_either_form(ada: Client) -> None:
    pasted = "docker run -v /home/ada/m:/m vllm/vllm-openai:v0.20.2 --model a/b"
    for text in (f"{pasted}\n{pasted.replace('a/b', 'c/d')}", pasted):
        page = ada.post(reverse("profile_paste"), {"text": text}).content.decode()
        assert "Read wrongly?" in page

    page = ada.post(reverse("paste_report"), {"text": pasted, "engine": ""}).content.decode()

    assert hidden(page, "text") == pasted
    assert "| docker run -v /home/user1/m:/m vllm/vllm-openai:v0.20.2 --model a/b" in shown(page)
    assert '"image": "vllm/vllm-openai:v0.20.2"' in shown(page)
    saved = ada.post(
        reverse("paste_report"), {"text": pasted, "save": "", "shown": hidden(page, "shown")}
    )
    assert document.read(saved.content.decode()).kind == "paste"


def test_a_doubted_verdict_brings_the_recording_that_the_watcher_has_made(
    ada: Client, own_redis: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = factories.box("spark-7")
    address = reverse("box_report", args=[box.slug])
    assert "There is no recording of spark-7 yet" in ada.get(address).content.decode()
    monitor = MemoryMonitor(box)
    scene = crashed(MemoryScene(), lost=33.0).for_(400)
    clock = iter(range(0, 10**6, 20))
    monkeypatch.setattr("servers.watcher.memory.monitor.time.monotonic", lambda: float(next(clock)))
    for sample in list(scene)[::4]:
        monitor.judge(dict(sample))

    page = ada.get(f"{address}?gpu=GPU-1").content.decode()

    text = shown(page)
    assert "spark-7" not in text
    assert "\nsaid: " in text
    report = document.read(text)
    assert report.facts["card"] == "GPU-1 NVIDIA GB10"
    # Snapshots that are recorded meanwhile change nothing of what was shown.
    samples.record(box.slug, {"t": timezone.now().timestamp() + 9e9, "gpus": []})
    frozen = {name: hidden(page, name) for name in ("since", "until", "shown")}
    saved = ada.post(f"{address}?gpu=GPU-1", {**frozen, "save": ""})
    assert saved.content.decode() == text
    assert AuditEntry.objects.get(action="save report").subject == "spark-7"
