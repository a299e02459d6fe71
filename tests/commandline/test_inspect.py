"""A container that runs, as `docker inspect` tells it, becomes the command that would make it."""

from typing import Any

import pytest

from servers.launch.commandline.draft import DraftError
from servers.launch.commandline.inspect import argv, command_of, draft_of

VLLM_IMAGE: dict[str, Any] = {
    "Config": {
        "Env": ["PATH=/usr/local/bin:/usr/bin", "CUDA_VERSION=13.0", "HF_HUB_ENABLE_XET=1"],
        "Entrypoint": ["vllm", "serve"],
        "Cmd": None,
        "WorkingDir": "/vllm-workspace",
        "Volumes": {"/data": {}},
    }
}
HOST: dict[str, Any] = {
    "Binds": None,
    "NetworkMode": "default",
    "PortBindings": {},
    "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
    "IpcMode": "private",
    "ShmSize": 67108864,
    "Runtime": "runc",
    "Privileged": False,
    "CapAdd": None,
    "DeviceRequests": None,
    "Devices": [],
    "Ulimits": None,
    "Init": None,
}


def inspected(
    *words: str, config: dict[str, Any] | None = None, name: str = "/coder", **host: Any
) -> dict[str, Any]:
    """As `docker run vllm/vllm-openai WORDS` looks, with these differences."""
    usual = {
        "Image": "vllm/vllm-openai:v0.20.2",
        "Env": [*VLLM_IMAGE["Config"]["Env"]],
        "Entrypoint": ["vllm", "serve"],
        "Cmd": list(words),
        "WorkingDir": "/vllm-workspace",
        "Labels": {},
        "User": "",
    }
    return {
        "Id": "a" * 64,
        "Name": name,
        "Image": "sha256:" + "1" * 64,
        "Config": usual | (config or {}),
        "HostConfig": HOST | host,
    }


def test_a_docker_run_is_read_with_what_was_typed_alone() -> None:
    env = [*VLLM_IMAGE["Config"]["Env"], "NCCL_P2P_LEVEL=SYS"]
    found = command_of(
        inspected(
            "Qwen/Qwen3-8B",
            "--tensor-parallel-size",
            "2",
            config={"Env": env},
            Binds=["/mnt/models:/models:ro", "kernels:/root/.cache/vllm"],
            PortBindings={"8000/tcp": [{"HostIp": "127.0.0.1", "HostPort": "9000"}]},
            DeviceRequests=[{"Driver": "", "Count": -1, "DeviceIDs": None}],
            IpcMode="host",
            ShmSize=34359738368,
            Ulimits=[
                {"Name": "memlock", "Soft": -1, "Hard": -1},
                {"Name": "nofile", "Soft": 1024, "Hard": 4096},
            ],
        ),
        VLLM_IMAGE,
    )

    assert (found.kind, found.engine, found.name) == ("docker_run", "vllm", "coder")
    assert found.image == "vllm/vllm-openai:v0.20.2"
    assert found.entrypoint is None
    assert found.command == ("Qwen/Qwen3-8B", "--tensor-parallel-size", "2")
    assert found.env == {"NCCL_P2P_LEVEL": "SYS"}
    assert found.volumes == ("/mnt/models:/models:ro", "kernels:/root/.cache/vllm")
    assert found.ports == ("127.0.0.1:9000:8000",)
    assert (found.gpus, found.ipc, found.shm_size) == ("all", "host", None)
    assert found.ulimits == {"memlock": "-1", "nofile": "1024:4096"}
    assert (found.workdir, found.user, found.runtime, found.network) == (None, None, None, None)
    assert (found.restart, found.ignored) == (None, ())


def test_what_a_compose_file_made_is_called_by_its_service() -> None:
    found = command_of(
        inspected(
            "Qwen/Qwen3-8B",
            config={
                "Labels": {
                    "com.docker.compose.project": "speech",
                    "com.docker.compose.service": "llm",
                }
            },
            name="/speech-llm-1",
            NetworkMode="speech_default",
            RestartPolicy={"Name": "unless-stopped", "MaximumRetryCount": 0},
            Mounts=[
                {"Type": "bind", "Source": "/srv/models", "Target": "/models", "ReadOnly": True},
                {"Type": "volume", "Source": "speech_cache", "Target": "/root/.cache"},
                {"Type": "tmpfs", "Target": "/tmp"},
            ],
            PortBindings={"8000/tcp": [{"HostIp": "", "HostPort": "8000"}]},
        ),
        VLLM_IMAGE,
    )

    assert (found.service, found.network) == ("llm", "speech_default")
    assert found.volumes == ("/srv/models:/models:ro", "speech_cache:/root/.cache")
    assert found.ports == ("8000:8000",)
    assert found.restart == "unless-stopped"


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ({"Name": "", "MaximumRetryCount": 0}, None),
        ({"Name": "always", "MaximumRetryCount": 0}, "always"),
        ({"Name": "on-failure", "MaximumRetryCount": 3}, "on-failure:3"),
        ({"Name": "on-failure", "MaximumRetryCount": 0}, "on-failure"),
    ],
)
def test_a_restart_policy_is_read(policy: dict[str, Any], said: str | None) -> None:
    assert command_of(inspected("a/b", RestartPolicy=policy), VLLM_IMAGE).restart == said


def test_the_network_of_the_host_is_read_and_another_containers_is_left_out() -> None:
    assert command_of(inspected("a/b", NetworkMode="host"), VLLM_IMAGE).network == "host"

    borrowed = command_of(inspected("a/b", NetworkMode="container:" + "b" * 64), VLLM_IMAGE)

    assert borrowed.network is None
    assert borrowed.ignored == (f"--network container:{'b' * 64}",)


def test_an_entrypoint_that_was_replaced_is_kept_and_the_images_is_not() -> None:
    script = "pip install -q x && vllm serve a/b --port 8001"
    found = command_of(
        inspected("-c", script, config={"Entrypoint": ["bash"]}, name="/patched"), VLLM_IMAGE
    )

    assert found.entrypoint == ("bash",)
    launch = draft_of(inspected("-c", script, config={"Entrypoint": ["bash"]}), VLLM_IMAGE).launch
    assert launch.entrypoint == ("bash", "-c", script)
    assert (launch.checkpoint, launch.port) == ("a/b", 8001)


def test_words_of_the_image_are_left_out_unless_they_start_the_engine() -> None:
    shell = {"Config": {"Entrypoint": None, "Cmd": ["/start.sh"], "Env": ["A=b"]}}
    mine = inspected(
        "/start.sh", config={"Entrypoint": None, "Image": "team/llm:3", "Env": ["A=b"]}
    )
    assert command_of(mine, shell).command == ()

    baked = {"Config": {"Entrypoint": ["sglang", "serve"], "Cmd": ["--model-path", "a/b"]}}
    same = inspected("--model-path", "a/b", config={"Entrypoint": ["sglang", "serve"]})
    assert command_of(same, baked).command == ("--model-path", "a/b")


def test_a_model_that_stands_in_the_images_own_entrypoint_is_found() -> None:
    image = {"Config": {"Entrypoint": ["vllm", "serve", "a/b"], "Cmd": ["--dtype", "auto"]}}
    mine = inspected("--dtype", "auto", config={"Entrypoint": ["vllm", "serve", "a/b"]})

    launch = draft_of(mine, image).launch

    assert (launch.checkpoint, launch.flags) == ("a/b", ("--dtype", "auto"))


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"Driver": "nvidia", "Count": 2, "DeviceIDs": None}, 2),
        ({"Driver": "", "Count": 0, "DeviceIDs": ["2", "3"]}, ("2", "3")),
        ({"Driver": "cdi", "Count": 0, "DeviceIDs": ["nvidia.com/gpu=all"]}, "all"),
        ({"Driver": "cdi", "Count": 0, "DeviceIDs": ["nvidia.com/gpu=1"]}, ("1",)),
        ({"Driver": "cdi", "Count": 0, "DeviceIDs": ["amd.com/gpu=1"]}, None),
    ],
)
def test_gpus_are_read_in_every_way_that_docker_is_given_them(
    request_: dict[str, Any], said: object
) -> None:
    assert command_of(inspected("a/b", DeviceRequests=[request_]), VLLM_IMAGE).gpus == said


def test_devices_capabilities_and_the_rest_are_read_or_named_as_left_out() -> None:
    found = command_of(
        inspected(
            "a/b",
            Devices=[
                {
                    "PathOnHost": "/dev/infiniband",
                    "PathInContainer": "/dev/infiniband",
                    "CgroupPermissions": "rwm",
                },
                {"PathOnHost": "/dev/fuse", "PathInContainer": "/dev/f", "CgroupPermissions": "r"},
            ],
            CapAdd=["CAP_SYS_NICE", "IPC_LOCK"],
            Privileged=True,
            SecurityOpt=["label=disable", "seccomp=unconfined"],
            Init=True,
            CpusetCpus="0-15",
            Memory=68719476736,
            ExtraHosts=["hub:10.0.0.1"],
            PidMode="host",
        ),
        VLLM_IMAGE,
    )

    assert found.devices == ("/dev/infiniband", "/dev/fuse:/dev/f:r")
    assert found.cap_add == ("SYS_NICE", "IPC_LOCK")
    assert (found.privileged, found.init, found.cpuset) == (True, True, "0-15")
    assert found.security_opt == ("seccomp=unconfined",)
    assert found.ignored == ("--memory 68719476736", "--pid host", "--add-host hub:10.0.0.1")


def test_ports_on_every_address_are_said_as_people_type_them() -> None:
    bindings = {
        "8000/tcp": [
            {"HostIp": "0.0.0.0", "HostPort": "8000"},
            {"HostIp": "::", "HostPort": "8000"},
        ],
        "9000/udp": [{"HostIp": "", "HostPort": "9000"}],
        "7000/tcp": [{"HostIp": "::1", "HostPort": ""}],
        "6000/tcp": None,
    }

    found = command_of(inspected("a/b", PortBindings=bindings), VLLM_IMAGE)

    assert found.ports == ("8000:8000", "9000:9000/udp", "[::1]::7000")


def test_what_the_box_has_of_its_own_is_not_written_into_a_profile() -> None:
    container = inspected(
        "a/b",
        config={"Env": ["HF_TOKEN=hf_thisIsTheBoxes", "OTHER=1"]},
        Binds=[
            "/home/ada/.cache/huggingface:/root/.cache/huggingface",
            "/home/ada/models:/models:ro",
        ],
    )
    made = draft_of(
        container,
        VLLM_IMAGE,
        home="/home/ada",
        hf_cache="/home/ada/.cache/huggingface",
        hf_token="hf_thisIsTheBoxes",
    )

    assert made.launch.mount_hf_cache
    assert made.launch.pass_hf_token
    assert made.launch.volumes == ("~/models:/models:ro",)
    assert (made.launch.env, made.secrets) == ({"OTHER": "1"}, {})


def test_secrets_are_parted_from_what_a_profile_shows() -> None:
    container = inspected(
        "a/b",
        "--api-key",
        "sk-verySecret",
        "--dtype",
        "auto",
        config={"Env": ["HF_TOKEN=hf_abcdefgh1", "DB_PASSWORD=hush", "PLAIN=1"]},
    )

    made = draft_of(container, VLLM_IMAGE)

    assert made.secrets == {
        "HF_TOKEN": "hf_abcdefgh1",
        "DB_PASSWORD": "hush",
        "VLLM_API_KEY": "sk-verySecret",
    }
    assert made.launch.flags == ("--dtype", "auto")
    said = f"{made.launch.to_json()} {made.remarks}"
    assert not any(value in said for value in made.secrets.values())
    assert "sk-verySecret" in argv(container)


def test_a_token_on_the_command_line_becomes_the_variable_that_says_the_same() -> None:
    made = draft_of(inspected("a/b", "--hf-token=hf_abcdefgh1", "--api_key", "k"), VLLM_IMAGE)

    assert made.secrets == {"HF_TOKEN": "hf_abcdefgh1", "VLLM_API_KEY": "k"}
    assert made.launch.flags == ()


def test_several_keys_stay_where_they_are() -> None:
    made = draft_of(inspected("a/b", "--api-key", "one", "two", "--dtype", "auto"), VLLM_IMAGE)

    assert made.launch.flags == ("--api-key", "one", "two", "--dtype", "auto")


def test_remarks_speak_of_the_container() -> None:
    made = draft_of(inspected("a/b"), VLLM_IMAGE)

    said = " ".join(each.says for each in made.remarks)
    assert "The container does not publish the engine's port 8000" in said
    assert "paste" not in said


def test_a_script_that_hides_its_engine_is_known_by_what_its_api_says() -> None:
    image = {"Config": {"Entrypoint": ["/start.sh"], "Cmd": None, "Env": ["A=b"]}}
    container = inspected(
        config={"Image": "team/llm:3", "Entrypoint": ["/start.sh"], "Env": ["A=b", "C=d"]}
    )
    with pytest.raises(DraftError):
        draft_of(container, image)

    made = draft_of(container, image, engine="sglang", model="glm-5")

    assert (made.launch.engine, made.launch.checkpoint) == ("sglang", "glm-5")
    assert made.launch.env == {"C": "d"}
    assert "A script of its image starts the engine" in made.remarks[0].says


def test_without_its_image_nothing_is_taken_for_the_images_own() -> None:
    found = command_of(inspected("a/b"), None)

    assert found.env == {"CUDA_VERSION": "13.0", "HF_HUB_ENABLE_XET": "1"}
    assert found.entrypoint == ("vllm", "serve")
    assert draft_of(inspected("a/b"), None).launch.checkpoint == "a/b"


def test_an_engine_is_known_by_its_words_where_its_image_has_no_name() -> None:
    made = draft_of(inspected("a/b", config={"Image": "sha256:4f2c"}), VLLM_IMAGE)

    assert (made.launch.engine, made.launch.image) == ("vllm", "sha256:4f2c")


def test_what_a_profile_cannot_hold_of_a_container_is_told() -> None:
    host: dict[str, Any] = {
        "VolumesFrom": ["data"],
        "CpusetMems": "1",
        "OomScoreAdj": -500,
        "PidMode": "host",
    }
    made = draft_of(inspected("a/b", **host), VLLM_IMAGE)

    told = [each.says.partition(":")[0] for each in made.remarks if each.kind == "ignored"]
    assert {"--volumes-from data", "--cpuset-mems 1", "--oom-score-adj -500", "--pid host"} <= {
        option for options in told for option in options.split(", ")
    }


@pytest.mark.parametrize(
    ("value", "gpus", "says"),
    [("GPU-8a2f", "all", "The GPUs GPU-8a2f are named by their ids"), ("void", "none", "")],
)
def test_gpus_that_a_variable_names_by_their_ids_are_asked_for(
    value: str, gpus: str, says: str
) -> None:
    """With all of them beside it the variable would mean nothing any more."""
    config = {"Env": [f"NVIDIA_VISIBLE_DEVICES={value}"]}
    made = draft_of(inspected("a/b", config=config, Runtime="nvidia"), VLLM_IMAGE)

    assert (made.launch.gpus, made.launch.env) == (gpus, {})
    assert says in " ".join(each.says for each in made.remarks)
