"""A pasted command as a profile's draft."""

from dataclasses import replace
from typing import Any

import pytest

from servers.launch.commandline import export
from servers.launch.commandline.draft import Draft, DraftError, UnknownEngineError, draft
from servers.launch.commandline.paste import read
from servers.launch.commandline.tokens import fill_placeholders
from servers.launch.engines import ENGINES
from tests.cases import table


def drafted(text: str) -> Draft:
    [command] = read(text)
    return draft(command)


def remarks(made: Draft, kind: str) -> str:
    return "\n".join(each.says for each in made.remarks if each.kind == kind)


DOCKER = """
docker run -d --rm --gpus '"device=0,1"' --ipc=host --shm-size=32g \\
  --ulimit memlock=-1 -p 8000:8000 -v ~/.cache/huggingface:/root/.cache/huggingface \\
  -e HF_TOKEN=$HF_TOKEN -e NCCL_P2P_LEVEL=SYS --name coder \\
  vllm/vllm-openai:v0.20.2 Qwen/Qwen3-Coder-30B-A3B --tensor-parallel-size 2 \\
  --served-model-name coder --port 8000 --host 0.0.0.0
"""


def test_a_docker_run_becomes_a_launch_that_says_the_same() -> None:
    launch = drafted(DOCKER).launch

    assert launch.to_json() == {
        "engine": "vllm",
        "image": "vllm/vllm-openai:v0.20.2",
        "checkpoint": "Qwen/Qwen3-Coder-30B-A3B",
        "served_name": "coder",
        "flags": ["--tensor-parallel-size", "2"],
        "env": {"NCCL_P2P_LEVEL": "SYS"},
        "host_address": "0.0.0.0",
        "host_port": 8000,
        "gpus": "0,1",
        "shm_size": 32 << 30,
        "ipc": "host",
        "ulimits": {"memlock": -1},
    }


def test_what_was_left_out_and_what_is_trusted_is_said() -> None:
    made = drafted(DOCKER)

    ignored = remarks(made, "ignored")
    assert "-d, --rm: containers always run in the background here, with an init process" in ignored
    assert "open to the network without a key" in remarks(made, "trusts")
    assert "the box's own Hugging Face token" in remarks(made, "assumed")


def test_a_bare_command_gets_its_engines_image_the_cache_and_a_mount_for_its_model() -> None:
    made = drafted(
        "CUDA_VISIBLE_DEVICES=2,3 python -m sglang.launch_server --model-path ~/models/glm-5/ "
        "--tp 2 --port 5000 --host 0.0.0.0"
    )

    assert made.name == "glm-5"
    assert made.launch.image == "lmsysorg/sglang"
    assert made.launch.checkpoint == "/models/glm-5"
    assert made.launch.volumes == ("~/models/glm-5:/models/glm-5:ro",)
    assert made.launch.gpus == "2,3"
    assert made.launch.env == {}
    assert made.launch.port == 5000
    assert made.launch.host_address == "127.0.0.1"
    assert made.launch.mount_hf_cache


def test_a_folder_that_the_container_may_write_is_trusted() -> None:
    made = drafted("docker run -v /data:/data -v /m:/m:ro vllm/vllm-openai a/b")

    assert remarks(made, "trusts").count("the container may write there") == 1


def test_values_that_look_like_tokens_become_secrets() -> None:
    made = drafted(
        "docker run -e HF_TOKEN=hf_abcdefgh1 -e X=sk-12345678 -e MY_KEY vllm/vllm-openai a/b"
    )

    assert made.secrets == {"HF_TOKEN": "hf_abcdefgh1", "X": "sk-12345678", "MY_KEY": ""}
    assert made.launch.env == {}
    assert "MY_KEY has no value" in remarks(made, "unresolved")


@table(
    "value",
    ["<secret>", "your_token_here", "hf_xxxxxxxx", "***", "hf_...", "${HF_TOKEN:?set it}",
     "${HF_TOKEN:-}", "$TOKEN", ""],
)  # fmt: skip
def test_what_stands_for_a_token_is_none(value: str) -> None:
    """A wrong token is worse than none: the Hub refuses models that everybody may load."""
    made = drafted(f'docker run -e "HF_TOKEN={value}" -e "X_KEY={value}" vllm/vllm-openai a/b')

    assert made.launch.pass_hf_token
    assert made.secrets == {"X_KEY": ""}
    assert "X_KEY has no value in the paste" in remarks(made, "unresolved")


def test_a_key_in_a_variable_is_a_key() -> None:
    said = "docker run -p 8000:8000 -e VLLM_API_KEY=sesame-open vllm/vllm-openai a/b"

    assert "without a key" not in remarks(drafted(said), "trusts")
    assert "without a key" in remarks(drafted(said.replace("VLLM_API_KEY", "A")), "trusts")


def test_a_volume_of_a_compose_project_has_another_name() -> None:
    """Under its short name Docker would make an empty one, and weights would be loaded again."""
    text = "services:\n  a:\n    image: vllm/vllm-openai\n    command: a/b\n    volumes: [hf:/m]\n"
    run = "docker run -v hf:/m vllm/vllm-openai a/b"

    assert "or hf begins empty" in remarks(drafted(text), "unresolved")
    assert remarks(drafted(run), "unresolved") == ""


def test_a_script_around_the_engine_is_kept() -> None:
    made = drafted(
        "docker run vllm/vllm-openai bash -c 'pip install -q x && vllm serve a/b --port 8001'"
    )

    assert made.launch.entrypoint == (
        "bash",
        "-c",
        "pip install -q x && vllm serve a/b --port 8001",
    )
    assert (made.launch.checkpoint, made.launch.port) == ("a/b", 8001)


def test_a_key_in_a_kept_script_is_told() -> None:
    said = "docker run vllm/vllm-openai bash -c 'pip install -q x && vllm serve a/b --api-key k'"

    assert "A key stands in the script" in remarks(drafted(said), "trusts")
    without = said.replace(" --api-key k", "")
    assert "A key stands" not in remarks(drafted(without), "trusts")
    named = said.replace("--api-key k", "--api-key $KEY")
    assert "A key stands" not in remarks(drafted(named), "trusts")


def test_a_shell_that_only_starts_the_engine_is_not() -> None:
    made = drafted("docker run --entrypoint bash img/sglang -c 'exec sglang serve a/b --tp 2'")

    assert made.launch.entrypoint == ()
    assert made.launch.flags == ("--tp", "2")
    assert made.launch.checkpoint == "a/b"


@pytest.mark.parametrize(
    ("ports", "address", "port"),
    [
        ("-p 8000:8000", "0.0.0.0", 8000),
        ("-p 127.0.0.1:9000:8000", "127.0.0.1", 9000),
        ("-p 8000", "0.0.0.0", 0),
        ("-p [::1]:9000:8000/tcp", "::1", 9000),
        ("", "127.0.0.1", 0),
        ("-p 9999:9999", "127.0.0.1", 0),
    ],
)
def test_the_engines_own_port_is_published(ports: str, address: str, port: int) -> None:
    launch = drafted(f"docker run {ports} vllm/vllm-openai a/b").launch

    assert (launch.host_address, launch.host_port) == (address, port)


@pytest.mark.parametrize(
    ("words", "inside", "outside"),
    [
        ("-p 9931:9931 ghcr.io/ggml-org/llama.cpp:server", 9931, 9931),  # newer builds listen there
        ("-p 8080:8080 ghcr.io/ggml-org/llama.cpp:server", 8080, 8080),
        ("-p 9000:9931 -p 8080:8080 ghcr.io/ggml-org/llama.cpp:server", 8080, 8080),
        ("-p 9931:9000 ghcr.io/ggml-org/llama.cpp:server --port 9000", 9000, 9931),
    ],
)
def test_llama_cpp_has_moved_to_another_port(words: str, inside: int, outside: int) -> None:
    launch = drafted(f"docker run {words} -m /models/q.gguf").launch

    assert (ENGINES["llamacpp"].port(launch), launch.host_port) == (inside, outside)


@table(
    ("option", "gpus"),
    [
        ("--gpus all", "all"),
        ("--gpus 2", "0,1"),
        ("--gpus device=3", "3"),
        ("""--gpus '"device=1,3","capabilities=compute,utility"'""", "1,3"),
        ("--runtime nvidia", "all"),
        ("-e NVIDIA_VISIBLE_DEVICES=1", "1"),
        ("--device nvidia.com/gpu=all", "all"),
        ("--device nvidia.com/gpu=0 --device=nvidia.com/gpu=2", "0,2"),
        ("", "none"),
    ],
)
def test_gpus_are_those_of_the_paste(option: str, gpus: str) -> None:
    assert drafted(f"docker run {option} vllm/vllm-openai a/b").launch.gpus == gpus


def test_gpus_by_their_names_in_cdi_are_no_devices_of_the_container() -> None:
    """As podman takes them, and a compose file's devices."""
    made = drafted(
        "podman run --device nvidia.com/gpu=all --device /dev/fuse docker.io/vllm/vllm-openai a/b"
    )
    compose = drafted(
        "services:\n  a:\n    image: vllm/vllm-openai\n    command: a/b\n    deploy:\n"
        "      resources:\n        reservations:\n          devices:\n"
        "            - {driver: cdi, device_ids: [nvidia.com/gpu=1], capabilities: [gpu]}\n"
    )

    assert (made.launch.gpus, made.launch.devices) == ("all", ("/dev/fuse",))
    assert compose.launch.gpus == "1"


def test_a_paste_that_asks_for_no_gpus_is_told() -> None:
    says = "No GPUs are requested, so it gets none"

    assert says in remarks(drafted("docker run --privileged vllm/vllm-openai a/b"), "assumed")
    assert says not in remarks(drafted("docker run --gpus all vllm/vllm-openai a/b"), "assumed")
    assert says not in remarks(drafted("vllm serve a/b"), "assumed")


def test_all_parts_of_a_model_that_was_cut_are_mounted() -> None:
    launch = drafted("llama-server -m ~/m/glm-00001-of-00003.gguf --port 1").launch

    assert launch.checkpoint == "/models/glm-00001-of-00003.gguf"
    assert launch.volumes == tuple(
        f"~/m/glm-0000{n}-of-00003.gguf:/models/glm-0000{n}-of-00003.gguf:ro" for n in (1, 2, 3)
    )


@pytest.mark.parametrize("path", ["models/q.gguf", "./q.gguf", "../models/q.gguf"])
def test_a_model_that_lies_beside_a_bare_command_is_asked_for(path: str) -> None:
    made = drafted(f"./llama-server -m {path}")

    assert f"{path} is relative. Write its path on the box" in remarks(made, "unresolved")
    assert made.launch.volumes == ()


def test_files_of_the_box_that_a_bare_command_names_are_told() -> None:
    made = drafted(
        "llama-server -m /m/q.gguf --mmproj ~/m/eye.gguf --lora=./l.gguf --api-prefix /llm"
    )
    vllm = drafted("vllm serve /m/q --chat-template /m/q/t.jinja --lora-modules a=/l/a b=org/b")

    told = remarks(made, "unresolved")
    assert "--mmproj ~/m/eye.gguf, --lora ./l.gguf: paths of the box. Mount them" in told
    assert "--api-prefix" not in told, "is one of URLs"
    assert remarks(vllm, "unresolved").count("is a path of the box") == 1
    assert "--lora-modules /l/a is a path of the box" in remarks(vllm, "unresolved")


def test_folders_of_the_box_are_no_variables_of_a_container() -> None:
    """HF_HOME would lead past the box's cache: weights would be loaded anew at each start."""
    said = "export PATH=/opt/cuda/bin:$PATH HF_HOME=/data/hf VLLM_USE_V1=1\n"
    made = drafted(f"{said}vllm serve a/b")
    contained = drafted("docker run -e HF_HOME=/data/hf -v /data:/data vllm/vllm-openai a/b")

    assert made.launch.env == {"VLLM_USE_V1": "1"}
    assert "PATH=/opt/cuda/bin:$PATH, HF_HOME=/data/hf: paths of the box" in remarks(
        made, "ignored"
    )
    assert contained.launch.env == {"HF_HOME": "/data/hf"}, "is one of the container"


@pytest.mark.parametrize("source", ["$PWD/m", "${PWD}", "$(pwd)/m", "./m", ".."])
def test_a_mount_of_where_one_stands_is_asked_for(source: str) -> None:
    made = drafted(f'docker run -v "{source}:/m" vllm/vllm-openai /m/x')

    assert f"{source} is relative. Write the path on the box." in remarks(made, "unresolved")


@pytest.mark.parametrize("modes", ["", ":Z", ":z", ":rw", ":rw,z"])
def test_a_label_for_selinux_leaves_the_cache_a_cache(modes: str) -> None:
    cache = f"~/.cache/huggingface:/root/.cache/huggingface{modes}"
    launch = drafted(f"podman run -v {cache} vllm/vllm-openai a/b").launch

    assert launch.mount_hf_cache
    assert launch.volumes == ()


def test_what_a_command_would_say_is_named_as_it_stands() -> None:
    made = drafted("VLLM_HOST_IP=$(hostname -I) vllm serve a/b")

    assert "$(hostname -I) has no value" in remarks(made, "unresolved")
    assert "$$" not in remarks(made, "unresolved")


def test_open_variables_can_be_filled_in() -> None:
    [command] = read("docker run -v $MODELS:/m -e A=${B} vllm/vllm-openai /m/$NAME --tp $TP")

    filled = fill_placeholders(command, {"MODELS": "/data", "B": "1", "NAME": "x"})

    made = draft(filled)
    assert made.launch.volumes == ("/data:/m",)
    assert made.launch.env == {"A": "1"}
    assert made.launch.checkpoint == "/m/x"
    assert filled.unresolved == ("TP",)
    assert "$TP has no value" in remarks(made, "unresolved")


def test_a_variable_of_the_environment_is_filled_in() -> None:
    [command] = read("docker run -e SPEECH_KEY -e B vllm/vllm-openai a/b")

    filled = fill_placeholders(command, {"SPEECH_KEY": "sesame", "B": ""})

    assert filled.env == {"SPEECH_KEY": "sesame", "B": None}
    assert draft(filled).secrets == {"SPEECH_KEY": "sesame"}


def test_a_variable_that_says_why_it_is_needed_is_filled_in_as_a_whole() -> None:
    [command] = read(
        "services:\n  a:\n    image: vllm/vllm-openai:${TAG:?which}\n    command: a/b ${B?}\n"
    )

    filled = fill_placeholders(command, {"TAG": "v1", "B": "--x"})

    assert (filled.image, filled.command) == ("vllm/vllm-openai:v1", ("a/b", "--x"))


def test_a_command_without_an_engine_is_refused_with_the_reason() -> None:
    with pytest.raises(DraftError, match="starts none of the engines"):
        drafted("docker run lmsysorg/sglang nvidia-smi")


@pytest.mark.parametrize("words", ["", "serve"])
def test_an_image_that_nobody_knows_is_asked_about(words: str) -> None:
    """Also one whose own words start it, as Ollama's do."""
    text = f"docker run --gpus all -p 11434:11434 ollama/ollama {words}"

    with pytest.raises(UnknownEngineError, match="which engine is in it"):
        drafted(text)

    [command] = read(text)
    launch = draft(command, engine="other").launch
    assert (launch.engine, launch.port, launch.gpus) == ("other", 11434, "all")


def test_only_what_a_profile_can_hold_is_promised(capsys: Any) -> None:
    made = drafted("docker run --memory 64g vllm/vllm-openai a/b")

    assert "--memory 64g: a profile has no place for it." in remarks(made, "ignored")


@pytest.mark.parametrize(
    ("policy", "restart", "tries", "says"),
    [
        ("always", "always", 2, "Docker’s own policy stays off"),
        ("unless-stopped", "always", 2, "A person’s stop ends it"),
        ("on-failure", "on-failure", 2, "gives up after 2 starts in a row"),
        ("on-failure:5", "on-failure", 5, "with pauses that grow"),
    ],
)
def test_dockers_restart_policy_becomes_inferdashs_own(
    policy: str, restart: str, tries: int, says: str
) -> None:
    made = drafted(f"docker run --restart {policy} vllm/vllm-openai a/b")

    assert (made.launch.restart, made.launch.restart_tries) == (restart, tries)
    assert made.launch.start_with_box is (restart == "always")
    assert says in remarks(made, "assumed")


def test_a_restart_policy_that_docker_does_not_have_is_told() -> None:
    made = drafted("docker run --restart sometimes vllm/vllm-openai a/b")

    assert made.launch.restart == ""
    assert "--restart sometimes: Docker has no such policy" in remarks(made, "unresolved")


GUIDE = (
    "docker run --gpus all --network host {options} vllm/vllm-openai:v0.20.2 --model Qwen/Qwen3-8B "
    "--host 0.0.0.0 --port 5000 {flags}"
)


def guide(options: str = "", flags: str = "") -> Draft:
    return drafted(GUIDE.format(options=options, flags=flags))


def test_the_hosts_network_of_a_guide_becomes_a_published_port_and_that_is_said() -> None:
    made = guide()

    assert made.launch.network == "bridge"
    assert (made.launch.host_address, made.launch.host_port) == ("127.0.0.1", 5000)
    assert ENGINES["vllm"].port(made.launch) == 5000
    assert "port 5000, published on this box’s 127.0.0.1" in remarks(made, "assumed")
    assert "past ufw" in remarks(made, "assumed")


@table(
    ("options", "flags", "says"),
    [
        ("", "--nnodes 2 --node-rank 1 --master-addr 10.0.0.1", "--nnodes 2"),
        ("", "--data-parallel-address 10.0.0.1 -dp 16", "--data-parallel-address 10.0.0.1"),
        ("", "--headless -dpr 8", "-dpr"),
        ("-e NCCL_SOCKET_IFNAME=enp1s0", "", "NCCL_SOCKET_IFNAME=enp1s0"),
    ],
)
def test_an_engine_of_a_cluster_stays_on_the_hosts_network(
    options: str, flags: str, says: str
) -> None:
    made = guide(options, flags)

    assert made.launch.network == "host"
    assert f"--network host stays, because of {says}" in remarks(made, "trusts")


@table(
    ("options", "flags"),
    [
        ("", "--nnodes 1 --node-rank 0"),
        ("", "--master-addr 127.0.0.1"),
        ("-e NCCL_SOCKET_IFNAME=lo", ""),
    ],
)
def test_an_engine_alone_on_its_box_is_no_cluster(options: str, flags: str) -> None:
    assert guide(options, flags).launch.network == "bridge"


def test_what_inferdash_wrote_out_itself_keeps_the_hosts_network() -> None:
    launch = replace(guide().launch, network="host", host_port=0)

    for written in (export.docker_run(launch), export.compose(launch)):
        [command] = read(written)
        again = draft(command, text=written).launch
        assert (again.network, again.host_port) == ("host", 0), written


def test_privileged_and_a_whole_home_are_explained_with_what_is_enough() -> None:
    made = drafted(
        "docker run --privileged --security-opt no-new-privileges --cap-drop NET_RAW --gpus all "
        "-v /home/ada:/home/ada lmsysorg/sglang:v0.5.12 "
        "python3 -m sglang.launch_server --model-path /home/ada/models/glm-5 "
        "--chat-template=/home/ada/templates/glm.jinja"
    )

    trusts = remarks(made, "trusts")
    assert "devices /dev/infiniband, capability IPC_LOCK" in trusts
    assert "/home/ada:/home/ada: a whole home" in trusts
    for narrow in ("models/glm-5", "templates/glm.jinja", ".cache/huggingface"):
        assert f"/home/ada/{narrow}:/home/ada/{narrow}" in trusts
    assert made.launch.privileged
    assert made.launch.security_opt == ()
    assert "every container here has it" in remarks(made, "assumed")
    assert "takes rights from every container itself" in remarks(made, "ignored")


@pytest.mark.parametrize("source", ["~", "$HOME", "/root", "/root/", "/home/bob"])
def test_every_way_to_write_a_home_is_seen(source: str) -> None:
    made = drafted(
        f"docker run --gpus all -v {source}:/mine vllm/vllm-openai --model Qwen/Qwen3-8B"
    )

    assert "a whole home" in remarks(made, "trusts")
    assert "/.cache/huggingface:/mine/.cache/huggingface" in remarks(made, "trusts")
