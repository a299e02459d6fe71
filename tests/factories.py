"""Rows and samples as real boxes make them: for tests of pages, and for the screenshots."""

import json
import math
from datetime import timedelta
from typing import Any, cast

import redis
from django.conf import settings
from django.test import Client
from django.utils import timezone
from django.utils.text import slugify

from servers import events
from servers.judge.memory import holders
from servers.judge.memory.hardware.judge import HardwareJudge
from servers.judge.memory.verdicts import Judge
from servers.launch.engines.flaglist import FlagList
from servers.launch.engines.launch import Launch
from servers.lifecycle.runs.ownership import require_external, require_managed
from servers.models import (
    Alert,
    AuditEntry,
    Box,
    BoxObservation,
    Capture,
    CapturedCall,
    Claim,
    Download,
    EnvironmentGroup,
    ImageFacts,
    NotificationChannel,
    Profile,
    ProfileVersion,
    Reboot,
    Request,
    Role,
    Run,
    Server,
    StoredCheckpoint,
    User,
)
from servers.models.jobs import key_of
from servers.models.profiles import only_variables
from servers.models.runs.run import (
    ENDED,
    PARTS,
    DesiredState,
    ExternalRun,
    ManagedRun,
    ManagedServer,
    RunState,
)
from servers.watcher.memory import monitor
from tests import shelves
from tests.awkward import LEFT
from tests.samples import GIB, RTX, card, process, sample, unified

ASKED = "registry.example/team/vllm:nightly"  # its tag says nothing of its version

MODELS = {
    "qwen3-8b": ("sglang", "lmsysorg/sglang:v0.5.12-cu130", "Qwen/Qwen3-8B"),
    "minimax-m2.7": ("vllm", "vllm/vllm-openai:v0.20.2", "lukealonso/MiniMax-M2.7-NVFP4"),
    "glm-5": ("sglang", "lmsysorg/sglang:latest-cu130", "zai-org/GLM-5-FP8"),
    "gpt-oss-120b": ("vllm", "vllm/vllm-openai:v0.20.2", "openai/gpt-oss-120b"),
    "gemma-tiny": (
        "llamacpp",
        "ghcr.io/ggml-org/llama.cpp:server-cuda",
        "unsloth/gemma-3-4b-it-GGUF",
    ),
}


def clear() -> None:
    """Nothing but people: as after the first start, before any watcher has run."""
    Server.objects.update(run=None)
    Profile.objects.update(current=None)
    for model in (Run, Server, ProfileVersion, Profile, AuditEntry, NotificationChannel, Box):
        model._default_manager.all().delete()
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        for key in client.scan_iter("inferdash:*"):
            client.delete(key)


def person(name: str = "ada", role: Role = Role.ADMIN) -> User:
    found = User.objects.filter(username=name).first()
    return found or User.objects.create_user(name, password="correct horse", role=role)


def log_in(who: User) -> Client:
    """A browser in which they are logged in."""
    made = Client()
    made.force_login(who)
    return made


def box(
    slug: str = "rtx8", *, gpus: int = 0, kind: str = "discrete", driver: str = "", **values: Any
) -> Box:
    """`gpus`: so many RTX PRO 6000; 0: nothing is known of its GPUs."""
    now = timezone.now()
    facts: dict[str, Any] = {
        "docker": {"version": "28.5.1", "root": "/var/lib/docker"},
        "limits": {
            "mount_roots": ["/home/ada", "/mnt", "/data"],
            "privileged": False,
            "host_network": True,
            "devices": ["/dev/infiniband"],
            "cap_add": ["SYS_NICE", "IPC_LOCK"],
        },
        "problems": [],
    }
    if gpus:
        card = {"name": RTX, "compute_capability": "12.0", "total": 95 * GIB, "kind": kind}
        facts["gpus"] = [{"index": index, **card} for index in range(gpus)]
    if driver:
        facts["driver"] = driver
    defaults = {"home": "/home/ada", "seen_at": now, "facts": facts}
    return Box.objects.create(slug=slug, **{**defaults, **values})


def stored(on: Box, name: str = "Qwen/Qwen3-8B", **values: Any) -> StoredCheckpoint:
    usual = {
        "path": f"/mnt/models/{name}", "format": "safetensors", "weights": 16 * GIB,
        "size": 16 * GIB, "files": 5, "state": "complete", "changed_at": timezone.now(),
    }  # fmt: skip
    return StoredCheckpoint.objects.create(box=on, name=name, **usual | values)


def download(on: Box, name: str = "Qwen/Qwen3-8B", **values: Any) -> Download:
    """That waits for its turn, unless they say otherwise."""
    key = key_of(name, "main", [], values.get("into", ""))
    return Download.objects.create(box=on, what=name, target=key, **values)


def server(on: Box, name: str = "qwen3-8b", model: str = "", **launch: Any) -> ManagedServer:
    engine, image, checkpoint = MODELS[model or (name if name in MODELS else "qwen3-8b")]
    values = {"engine": engine, "image": image, "checkpoint": checkpoint, **launch}
    slug = slugify(name)
    profile = Profile.objects.create(slug=slug, name=name, owner=person())
    profile.save_version(Launch(**values), by=person(), message="First version")
    return require_managed(Server.objects.create(slug=slug, profile=profile, box=on))


def latest_run(of: Server) -> Run:
    """As the database has it now."""
    found = Server.objects.get(pk=of.pk).run
    assert found is not None
    return found


def _name_by_table(values: dict[str, Any]) -> dict[str, Any]:
    """Columns of a run's other tables as "start__pull"."""
    tables = {
        field.name: f"{part}__{field.name}"
        for part, table in PARTS.items()
        for field in table._meta.concrete_fields
        if not field.primary_key
    }
    return {tables.get(name, name): value for name, value in values.items()}


def run(
    of: Server, state: RunState = RunState.READY, *, age: float = 7200, **values: Any
) -> ManagedRun:
    """A run that was asked for `age` seconds ago and is in this state now."""
    return require_managed(_make_run(of, state, age, **values))


def external_run(
    of: Server, state: RunState = RunState.READY, *, age: float = 7200, **values: Any
) -> ExternalRun:
    """The same of an engine that somebody else has started."""
    return require_external(
        _make_run(of, state, age, is_watched=True, **{"started_by": None, **values})
    )


def _make_run(of: Server, state: RunState, age: float, **values: Any) -> Run:
    clicked = timezone.now() - timedelta(seconds=age)
    at = [clicked + timedelta(seconds=age * part) for part in (0.02, 0.05, 0.07, 0.2)]
    version = of.profile.current
    assert version is not None
    defaults: dict[str, Any] = {"started_by": person(), "created_at": clicked, "moved_at": at[3]}
    order = list(RunState)
    if state not in (RunState.QUEUED, RunState.PULLING):
        defaults |= {"creating_at": at[1]}
    if state in (RunState.STARTING, RunState.READY, RunState.STOPPING, RunState.STOPPED):
        defaults |= {
            "started_at": at[2],
            "container_id": f"{of.pk:064x}",
            "image_id": "sha256:426d8ba9c1f0" + "0" * 52,
            "image_digest": f"{version.launch.image.split(':')[0]}@sha256:9c1b" + "4" * 60,
            "address": "127.0.0.1",
            "port": 18000 + of.pk % 100,
            "served_name": of.slug,
            "command": ["--model", version.launch.checkpoint, "--host", "0.0.0.0"],
        }
    if order.index(RunState.READY) <= order.index(state) <= order.index(RunState.STOPPED):
        defaults |= {"ready_at": at[3], "engine_version": "0.5.12", "requests_running": 0}
    if state in ENDED:
        defaults |= {"ended_at": timezone.now() - timedelta(seconds=60)}
    made = Run.objects.create(
        server=of, version=version, state=state, **_name_by_table({**defaults, **values})
    )
    Server.objects.filter(pk=of.pk).update(run=made)
    of.run = made
    return made


def observation[T: BoxObservation](kind: type[T], on: Box, **values: Any) -> T:
    made, _is_new = kind._default_manager.update_or_create(box=on, defaults=values)
    return cast(T, made)


def image_facts(of: Box, flags: FlagList | None = None, **values: Any) -> ImageFacts:
    """What an image on the box has said of its flags."""
    defaults: dict[str, Any] = {
        "reference": ASKED,
        "engine": flags.engine if flags else "vllm",
        "image_id": "sha256:one",
        "version": flags.version if flags else "",
        "flags": flags.to_json() if flags else None,
        "count": len(flags.flags) if flags else 0,
        "asked_at": timezone.now(),
    }
    return ImageFacts.objects.create(box=of, **{**defaults, **values})


def alert(on: Box, **values: Any) -> Alert:
    """Of an engine that died, unless they say otherwise."""
    defaults: dict[str, Any] = {
        "kind": "died",
        "subject": "glm-5",
        "server_name": "glm-5",
        "severity": "critical",
        "title": f"glm-5 on {on} died after 3 h",
        "detail": "The engine was ended by SIGSEGV (exit code 139) while it was serving.",
        "memory": "Released 61.2 GiB in 9 s.",
        "advice": "Its page shows the log's last lines.",
    }
    return Alert.objects.create(box=on, **{**defaults, **values})


def boot(of: Box, **values: Any) -> Reboot:
    return Reboot.objects.create(
        box=of, **{"boot_id": "after", "booted_at": timezone.now(), **values}
    )


def capture(by: User | None, **values: Any) -> Capture:
    now = timezone.now()
    usual = {"reason": "wrong answers", "until": now + timedelta(hours=1), "began_at": now}
    return Capture.objects.create(by=by, **{**usual, **values})


def claim(on: Box, by: User, *gpus: int, server: Server | None = None) -> Claim:
    until = timezone.now() + timedelta(hours=2)
    return Claim.objects.create(box=on, by=by, gpus=list(gpus), server=server, until=until)


def exchange(by: User | None, of: Capture | None = None, **values: Any) -> CapturedCall:
    request = Request.objects.create(
        at=values.pop("at", timezone.now()), path="/v1/chat/completions", status=200,
        duration=1.5, model="coder", server="coder-1", person=by,
    )  # fmt: skip
    asked = '{"messages": [{"role": "user", "content": "How far is the moon?"}]}'
    usual = {"asked": asked, "answered": "Some 384,000 km."}
    return CapturedCall.objects.create(
        request=request, capture=of or capture(by), **{**usual, **values}
    )


def outlet(
    name: str = "Team chat", address: str = "http://127.0.0.1:9/hook", **values: Any
) -> NotificationChannel:
    key = values.pop("key", "")
    made = NotificationChannel(name=name, **{"kind": "json", **values})
    made.keep(address, key, "127.0.0.1:9")
    made.save()
    return made


NCCL = {"NCCL_P2P_LEVEL": "SYS", "NCCL_IB_DISABLE": "1"}
NCCL_REASONS = {"NCCL_P2P_LEVEL": "The cards hang on two sockets."}


def group(name: str = "Blackwell NCCL", **values: Any) -> EnvironmentGroup:
    """Of the environment, in its first version."""
    made = EnvironmentGroup.objects.create(slug=slugify(name)[:63], name=name, **values)
    launch = only_variables(env=NCCL, secret_env={}, reasons=NCCL_REASONS)
    made.save_version(launch, by=person(), message="First version")
    return made


def tell(on: Box, newest: dict[str, Any]) -> None:
    """Put a sample where the watcher puts it, judged as there."""
    judged = Judge().step(newest | {"containers": monitor.snapshot_containers(on)})
    verdicts = [each.to_json() for each in judged]
    findings = [each.to_json() for each in HardwareJudge().step(newest)]
    events.publish_sample(on.slug, on.pk, {"verdicts": verdicts, "findings": findings, **newest})


def past(on: Box, newest: dict[str, Any], seconds: int = 900) -> None:
    """Fill the charts with a quarter of an hour that ends at this sample."""
    points = []
    for ago in range(seconds, 0, -1):
        point = holders.point({**newest, "t": newest["t"] - ago})
        for place, figures in enumerate(point["gpus"].values()):
            if figures[0]:
                wave = math.sin(ago / 37 + place) * 18 + math.sin(ago / 5.3 + place * 2) * 9
                figures[0] = max(0, min(100, round(figures[0] + wave)))
            if figures[1] and ago > 640 - place * 20:
                figures[1] = int(figures[1] * 0.28)
        points.append(json.dumps(point))
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        client.delete(f"inferdash:history:{on.slug}")
        client.rpush(f"inferdash:history:{on.slug}", *points)


def busy_team() -> tuple[Box, Box]:
    """Two boxes on an ordinary afternoon: most things run, two do not."""
    grace = person("grace", Role.OPERATOR)
    rtx8, spark = box("rtx8"), box("spark-1")

    chat = server(rtx8, "minimax-m2.7", gpus="0,1", flags=("--tensor-parallel-size", "2"))
    run(chat, requests_running=3, tokens_per_second=142.6, last_request_at=timezone.now())
    oss = server(rtx8, "gpt-oss-120b", gpus="2,3", network="host", flags=("--host", "0.0.0.0"))
    run(oss, RunState.STARTING, age=190, started_by=grace)
    glm = server(rtx8, "glm-5", gpus="4,5,6,7")
    run(
        glm,
        RunState.FAILED,
        age=700,
        exit_code=1,
        failure="The engine ended by itself before it was ready, with exit code 1.",
        last_lines=GLM_TAIL,
        container_id="f" * 64,
        started_at=timezone.now() - timedelta(seconds=660),
    )
    embed = server(rtx8, "qwen3-embedding", model="qwen3-8b", gpus="4")
    pull = shelves.image_job(
        rtx8, reference=embed.launch.image, state="doing", ended_at=None, said="",
        done=int(3.4 * GIB), total=int(11.8 * GIB),
    )  # fmt: skip
    run(embed, RunState.PULLING, age=48, pull=pull)
    server(rtx8, "llama-scout-test", model="gemma-tiny", gpus="5")

    small = server(spark, "qwen3-8b")
    run(small, age=9100, requests_running=1, tokens_per_second=36.1, started_by=grace)
    run(server(spark, "gemma-tiny"), RunState.STOPPED, age=4000, stopped_by=grace)
    past_and_present(rtx8, _rtx8(chat, oss))
    past_and_present(spark, _spark(small))
    return rtx8, spark


def past_and_present(on: Box, newest: dict[str, Any]) -> None:
    past(on, newest)
    tell(on, newest)


def _container(of: Server) -> str:
    assert of.run is not None
    return of.run.container_id


def _rtx8(chat: Server, oss: Server) -> dict[str, Any]:
    gpus = [
        card(0, [(4001, 84.1)]),
        card(1, [(4002, 84.1), (900, 0.3)]),
        card(2, [(4101, 31.7)]),
        card(3, [(4102, 30.9)]),
        card(4, [(5200, 9.1)]),
        card(5, []),
        card(6, []),
        card(7, []),
    ]
    processes = [
        *(process(pid, _container(chat), name="VLLM::Worker_TP") for pid in (4001, 4002)),
        *(process(pid, _container(oss)) for pid in (4101, 4102)),
        process(900, name="Xorg", title="/usr/lib/xorg/Xorg vt1"),
        process(5200, name="python3", title="python3 train_lora.py --rank 64", user="lin"),
    ]
    return sample(gpus, processes)


def _spark(small: Server) -> dict[str, Any]:
    gpu = unified(51.2, [(7001, 41.3), (7100, 9.1), (7200, 0.04)])
    processes = [
        process(7001, _container(small), name="sglang::scheduler", own=3 * GIB),
        process(7100, name="parakeet-asr", title="python3 serve_asr.py"),
        process(7200, name="gnome-shell", user="ada"),
    ]
    indexer = process(8100, name="java", title="java -jar indexer.jar", user="lin", own=4 * GIB)
    return sample([gpu], processes, programs=[indexer])


def many(count: int = 50) -> Box:
    """A box with this many servers, a third of them up."""
    on = box("rtx8")
    for number in range(count):
        made = server(on, f"model-{number:02d}", model=list(MODELS)[number % len(MODELS)])
        if number % 3 == 0:
            run(made, requests_running=number % 5, tokens_per_second=20.0 + number)
        elif number % 3 == 1:
            run(made, RunState.STOPPED, stopped_by=person())
    past_and_present(on, sample([card(index, []) for index in range(8)], []))
    return on


def awkward() -> Box:
    """Everything that breaks a layout: long names, missing figures, hostile text."""
    on = box("the-box-in-the-basement-behind-the-printer-room-2-left-shelf", left_behind=LEFT)
    long = server(on, "qwen3-235b-a22b-instruct-2507-fp8-with-a-very-long-name-indeed-tp8-ep8")
    run(
        long,
        RunState.FAILED,
        failure="The engine was ended by SIGKILL (exit code 137) before it was ready, not by "
        "inferdash. " + "/mnt/models/" + "a-very-long-folder-name/" * 12,
        failure_detail='<img src=x onerror="alert(1)"><b data-hx-post="/boom/" hx-trigger="load">',
    )
    running = server(on, "m", network="host", flags=("--host", "0.0.0.0"))
    run(running, requests_running=None, tokens_per_second=None, started_by=None)
    drained = server(on, "draining-one")
    run(drained, wanted=DesiredState.DRAINED, requests_running=12, stopped_by=person())
    stopping = server(on, "stopping-one")
    run(
        stopping,
        RunState.STOPPING,
        wanted=DesiredState.STOPPED,
        kill_at=timezone.now() + timedelta(seconds=90),
        stopped_by=person(),
    )
    run(server(on, "queued-one"), RunState.QUEUED, age=3)
    run(server(on, "asks-the-registry"), RunState.PULLING, age=9)
    lost = card(1, [], fault="This GPU no longer answers the driver: reboot the box.")
    lost |= dict.fromkeys(
        ("total", "free", "used", "util", "temperature_c", "power_w", "processes")
    )
    unknown = card(0, [(1, 12.0), (2, 71.0)], util=None, temperature_c=None, power_w=None)
    newest = sample([unknown, lost], [process(1, _container(running))])
    tell(on, {**newest, "collector_ok": False, "stale_s": 7.2, "error": STALE})
    return on


STALE = "NVML has not answered for 7 s. The values are the last ones it gave."

GLM_TAIL = [
    "[2026-11-21 16:40:02] server_args=ServerArgs(model_path='zai-org/GLM-5-FP8', tp_size=4)",
    "[2026-11-21 16:47:51 TP0] Capture cuda graph begin. This can take up to several minutes.",
    "usage: launch_server.py [-h] --model-path MODEL_PATH [--tokenizer-path TOKENIZER_PATH]",
    "launch_server.py: error: unrecognized arguments: --cuda-graph-max-bs 64",
]
