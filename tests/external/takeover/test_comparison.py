"""What a container or process was is set beside what its profile would start, secrets hidden."""

import re
from dataclasses import replace
from typing import Any

import pytest

from servers.judge.runs.limits import drop_rights
from servers.launch.commandline.comparison import MASK, ComparedField, of_container, of_process
from servers.launch.commandline.inspect import draft_of, draft_of_process
from servers.launch.engines import placement
from servers.launch.engines.placement import Site
from servers.lifecycle import preview
from servers.lifecycle.profiles.knowledge import LaunchContext
from tests import factories

ENTRYPOINT = ("vllm", "serve")
IMAGE: dict[str, Any] = {
    "Config": {
        "Entrypoint": list(ENTRYPOINT),
        "Env": ["PATH=/usr/bin", "VLLM_USAGE_SOURCE=production-docker-image"],
        "WorkingDir": "/vllm-workspace",
        "Volumes": {"/scratch": {}},
    }
}
CONTAINER: dict[str, Any] = {
    "Id": "c" * 64,
    "Name": "/coder",
    "Image": "sha256:1",
    "Config": {
        "Image": "vllm/vllm-openai:v0.20.2",
        "Entrypoint": list(ENTRYPOINT),
        "Cmd": ["Qwen/Qwen3-8B", "--max-model-len", "32768", "--api-key", "sk-hush-hush-hush"],
        "Env": [*IMAGE["Config"]["Env"], "HF_TOKEN=hf_" + "q" * 34, "OMP_NUM_THREADS=8"],
        "WorkingDir": "/vllm-workspace",
        "Labels": {},
    },
    "HostConfig": {
        "Binds": ["/mnt/models:/models:ro"],
        "PortBindings": {"8000/tcp": [{"HostIp": "", "HostPort": "8000"}]},
        "NetworkMode": "bridge",
        "ShmSize": 16 * 2**30,
        "Memory": 64 * 2**30,
        "RestartPolicy": {"Name": "always"},
        "DeviceRequests": [{"Count": -1}],
    },
}


LLAMA_CPP: dict[str, Any] = {
    "Config": {"Entrypoint": ["/app/llama-server"], "Env": ["LLAMA_ARG_HOST=0.0.0.0"]}
}
BY_VARIABLES: dict[str, Any] = {
    **CONTAINER,
    "Config": {
        "Image": "ghcr.io/ggml-org/llama.cpp:server-cuda",
        "Entrypoint": ["/app/llama-server"],
        "Cmd": None,
        "Env": [
            "LLAMA_ARG_HOST=0.0.0.0", "LLAMA_ARG_MODEL=/models/tiny.gguf", "LLAMA_ARG_ALIAS=tiny",
            "LLAMA_ARG_PORT=9000", "LLAMA_ARG_CTX_SIZE=4096",
        ],
        "Labels": {},
    },
    "HostConfig": {
        "Binds": ["/mnt/models:/models:ro"],
        "PortBindings": {"9000/tcp": [{"HostIp": "", "HostPort": "9000"}]},
        "NetworkMode": "bridge",
    },
}  # fmt: skip


def compared(
    container: dict[str, Any] = CONTAINER,
    image: dict[str, Any] = IMAGE,
    entrypoint: tuple[str, ...] = ENTRYPOINT,
) -> dict[str, ComparedField]:
    made = draft_of(container, image)
    spec = placement.spec(
        made.launch,
        Site(secrets=made.secrets),
        name="",
        labels={},
        host_port=made.launch.host_port,
        entrypoint=entrypoint,
        kernels_volume="inferdash-kernels",
    )
    return {row.what: row for row in of_container(container, image, spec, entrypoint)}


def test_what_variables_tell_a_llama_cpp_is_the_same_as_what_flags_do() -> None:
    rows = compared(BY_VARIABLES, LLAMA_CPP, ("/app/llama-server",))

    for what, theirs in [
        ("model", "/models/tiny.gguf"), ("served name", "tiny"), ("engine's port", "9000"),
        ("port 9000", "0.0.0.0:9000"), ("$LLAMA_ARG_CTX_SIZE", "4096"),
    ]:  # fmt: skip
        assert (rows[what].theirs, rows[what].verdict) == (theirs, "same"), rows[what]
    assert not rows.keys() & {"$LLAMA_ARG_MODEL", "$LLAMA_ARG_ALIAS", "$LLAMA_ARG_PORT"}


def test_what_the_profile_took_over_is_the_same() -> None:
    rows = compared()

    for what in (
        "image", "model", "--max-model-len", "mount /models", "shared memory", "GPUs", "$HF_TOKEN",
        "port 8000", "$OMP_NUM_THREADS",
    ):  # fmt: skip
        assert rows[what].verdict == "same", rows[what]
    assert (rows["model"].theirs, rows["port 8000"].theirs) == ("Qwen/Qwen3-8B", "0.0.0.0:8000")


def test_what_a_profile_has_no_place_for_differs() -> None:
    rows = compared()

    assert (rows["--memory"].theirs, rows["--memory"].ours) == (str(64 * 2**30), "")
    policy = rows["Docker's restart policy"]
    assert (policy.theirs, policy.ours, policy.verdict) == ("always", "no", "differs")
    assert rows["mount /inferdash-kernels"].theirs == ""
    assert rows["$TQDM_MININTERVAL"].verdict == "differs"


@pytest.mark.django_db
def test_the_command_of_the_profile_shows_what_was_compared() -> None:
    box, made = factories.box(home="/home/ada"), draft_of(CONTAINER, IMAGE)
    hidden = dict.fromkeys(made.secrets, 1)

    command = preview(LaunchContext(replace(made.launch, secret_env=hidden), box)).command

    for row in compared().values():
        kind, _space, name = row.what.partition(" ")
        if row.ours and kind == "mount":
            source = row.ours.removesuffix(", read only")
            assert f"source={source},target={name}" in command, row
        elif row.ours and kind.startswith("$"):
            assert re.search(rf"-e \$?'?{re.escape(kind[1:])}\b", command), row


def test_what_came_from_the_image_is_told_apart() -> None:
    rows = compared()

    mine = {what for what, row in rows.items() if row.verdict == "image"}
    assert mine == {
        "entrypoint", "$PATH", "$VLLM_USAGE_SOURCE", "working folder", "volume /scratch"
    }  # fmt: skip


def test_secrets_are_compared_and_not_shown() -> None:
    rows = compared()

    assert (rows["$HF_TOKEN"].theirs, rows["$HF_TOKEN"].ours) == (MASK, MASK)
    assert (rows["--api-key"].theirs, rows["--api-key"].ours) == (MASK, "")
    assert rows["$VLLM_API_KEY"].ours == MASK
    assert not any(
        "hush" in text or "qqq" in text for row in rows.values() for text in row.to_json()
    )
    assert ComparedField.from_json(rows["--api-key"].to_json()) == rows["--api-key"]


def test_another_token_differs_without_being_shown() -> None:
    made = draft_of(CONTAINER, IMAGE)
    other = replace(made, secrets={**made.secrets, "HF_TOKEN": "hf_" + "z" * 34})
    spec = placement.spec(
        other.launch, Site(secrets=other.secrets), name="", labels={}, host_port=8000,
        entrypoint=ENTRYPOINT, kernels_volume="",
    )  # fmt: skip
    row = next(r for r in of_container(CONTAINER, IMAGE, spec, ENTRYPOINT) if r.what == "$HF_TOKEN")

    assert (row.theirs, row.ours, row.verdict) == (MASK, MASK, "differs")


def test_an_image_that_is_gone_leaves_nothing_out() -> None:
    made = draft_of(CONTAINER, None)
    spec = placement.spec(
        made.launch, Site(secrets=made.secrets), name="", labels={}, host_port=8000,
        entrypoint=(), kernels_volume="",
    )  # fmt: skip
    assert all(row.verdict != "image" for row in of_container(CONTAINER, None, spec, ()))


ARGV = (
    "/opt/venv/bin/python3", "/opt/venv/bin/vllm", "serve", "./models/Qwen3-8B",
    "--port", "8123", "--max-num-seqs", "16", "--api-key", "sk-hush-hush-hush",
)  # fmt: skip
ENV = {
    "PATH": "/usr/bin",
    "LS_COLORS": "x",
    "MY_DATABASE_PASSWORD": "open sesame",
    "HF_HOME": "/home/ada/.cache/huggingface",
    "HF_TOKEN": "hf_" + "q" * 34,
    "VLLM_LOGGING_LEVEL": "DEBUG",
    "CUDA_VISIBLE_DEVICES": "2,3",
}


def test_a_process_becomes_a_profile() -> None:
    made = draft_of_process(ARGV, ENV, folder="/home/ada")

    launch = made.launch
    assert (launch.engine, launch.checkpoint) == ("vllm", "/home/ada/models/Qwen3-8B")
    assert launch.volumes == ("/home/ada/models/Qwen3-8B:/home/ada/models/Qwen3-8B:ro",)
    assert (launch.port, launch.gpus) == (8123, "2,3")
    assert launch.flags == ("--max-num-seqs", "16")
    assert launch.env == {"VLLM_LOGGING_LEVEL": "DEBUG"}
    assert sorted(made.secrets) == ["HF_TOKEN", "VLLM_API_KEY"]
    said = " ".join(each.says for each in made.remarks)
    assert "here it runs in vllm/vllm-openai, the engine's official image" in said
    assert "LS_COLORS" in said
    assert "PASSWORD" not in said
    assert "sesame" not in said


def test_files_of_a_process_lie_where_it_runs() -> None:
    """As llama.cpp's guides write them, without ./ in front; names in the Hub stay names."""
    argv = ["./llama-server", "-m", "models/q-00001-of-00002.gguf", "--mmproj=eye.gguf"]
    made = draft_of_process([*argv, "-hffd", "small.gguf"], {}, folder="/srv/llama")

    launch = made.launch
    assert launch.checkpoint == "/srv/llama/models/q-00001-of-00002.gguf"
    assert launch.flags == ("--mmproj=/srv/llama/eye.gguf", "-hffd", "small.gguf")
    assert [volume.partition(":")[0] for volume in launch.volumes] == [
        "/srv/llama/models/q-00001-of-00002.gguf",
        "/srv/llama/models/q-00002-of-00002.gguf",
    ]
    unseen = [each.says for each in made.remarks if "is a path of the box" in each.says]
    assert [says.partition(" is ")[0] for says in unseen] == ["--mmproj /srv/llama/eye.gguf"]


def test_a_process_whose_variables_may_not_be_read_says_so() -> None:
    made = draft_of_process(ARGV, None)

    assert any("may not be read" in each.says for each in made.remarks)


def test_a_profile_of_a_process_is_asked_where_that_was() -> None:
    launch = draft_of_process(["vllm", "serve", "Qwen/Qwen3-8B", "--port", "8701"], {}).launch
    assert (launch.host_address, launch.host_port, launch.port) == ("127.0.0.1", 8701, 8701)

    usual = draft_of_process(["vllm", "serve", "Qwen/Qwen3-8B"], {})
    assert usual.launch.host_port == 8000
    assert any("on port 8000 of every address" in each.says for each in usual.remarks)


def test_a_process_is_compared_flag_by_flag() -> None:
    made = draft_of_process(ARGV, ENV, folder="/home/ada")
    spec = placement.spec(
        made.launch, Site(secrets=made.secrets), name="", labels={}, host_port=0,
        entrypoint=ENTRYPOINT, kernels_volume="",
    )  # fmt: skip
    rows = {
        row.what: row
        for row in of_process(ARGV[1:], {"HF_TOKEN": ENV["HF_TOKEN"]}, spec, ENTRYPOINT)
    }

    assert rows["--max-num-seqs"].verdict == "same"
    assert rows["$HF_TOKEN"].verdict == "same"
    assert rows["model"].theirs == "./models/Qwen3-8B"
    assert not any("hush" in text for row in rows.values() for text in row.to_json())


def test_rights_that_inferdash_takes_away_are_told_as_what_changes() -> None:
    """Of a container that was taken over: it has them until it is started again."""
    made = draft_of(CONTAINER, IMAGE)
    spec = placement.spec(
        made.launch,
        Site(secrets=made.secrets),
        name="",
        labels={},
        host_port=8000,
        entrypoint=ENTRYPOINT,
        kernels_volume="",
    )
    spec = drop_rights(spec, pids=100)
    theirs = CONTAINER["HostConfig"] | {"CapDrop": ["CAP_MKNOD", "NET_RAW"], "PidsLimit": 100}
    theirs |= {"SecurityOpt": ["no-new-privileges=true"]}

    before, after = (
        {row.what: row for row in of_container(each, IMAGE, spec, ENTRYPOINT)}
        for each in (CONTAINER, CONTAINER | {"HostConfig": theirs})
    )

    for what in ("without the capability NET_RAW", "without the capability MKNOD", "--pids-limit"):
        assert (before[what].theirs, before[what].verdict) == ("", "differs"), what
        assert after[what].verdict == "same", what
    assert before["security option no-new-privileges"].verdict == "differs"
    assert after["security option no-new-privileges"].verdict == "same"
    assert after["without the capability SYS_CHROOT"].verdict == "differs"
