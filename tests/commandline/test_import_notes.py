"""What a paste says and its profile starts are the same, or a note names the difference."""

import pytest

from servers.launch.commandline.draft import Draft, DraftError, draft
from servers.launch.commandline.paste import read
from servers.launch.commandline.tokens import PasteError
from servers.launch.engines import ENGINES
from tests.cases import table
from tests.commandline import facts, launch_words
from tests.commandline.facts import FactDifference
from tests.commandline.imports import ImportedLaunch, import_paste
from tests.commandline.pastes import PasteCase, cases


@table("case", lambda: cases("gives"), ids=lambda case: case.name)
def test_every_difference_of_a_paste_is_named(case: PasteCase) -> None:
    for launch in import_paste(case.paste):
        assert_nothing_is_silent(launch)


def assert_nothing_is_silent(launch: ImportedLaunch) -> None:
    silent = {form: [*map(str, found)] for form, found in launch.list_silent().items()}
    assert not any(silent.values()), (silent, launch.notes)


def imported(text: str) -> Draft:
    """The draft of a paste with one launch, of which every difference is named."""
    [launch] = import_paste(text)
    assert launch.draft is not None, launch.refused
    assert_nothing_is_silent(launch)
    return launch.draft


def refused(text: str) -> str:
    try:
        [command] = read(text)
        draft(command)
    except (DraftError, PasteError) as error:
        return str(error)
    raise AssertionError("It became a draft.")


def notes(made: Draft) -> str:
    return "\n".join(each.says for each in made.remarks)


@table(
    ("paste", "export", "kinds"),
    [
        ("-p 1:8000 vllm/x a --x 1", "-p 1:8000 vllm/x a --x 2", ["flag --x"]),
        ("-e A=1 vllm/x a", "-e A=2 -e B=1 vllm/x a", ["env A", "env B"]),
        ("-v /m:/m:ro vllm/x a", "-v /m:/m vllm/x a", ["volume /m"]),
        ("--gpus all vllm/x a", "--gpus device=1 vllm/x b", ["gpus", "model"]),
        ("-p 8000:8000 vllm/x a", "-p 127.0.0.1:8000:8000 vllm/x a", ["listens"]),
        ("--memory 64g vllm/x a", "vllm/x a", ["option memory"]),
        ("vllm/x vllm serve a", "--entrypoint numactl vllm/x -N 0 vllm serve a", ["wrapper"]),
        ("vllm/x a --host 127.0.0.1", "vllm/x a --host 0.0.0.0", ["host"]),
        ("vllm/x bash -c 'x; vllm serve a'", "vllm/x bash -c 'y; vllm serve a'", ["script"]),
        ("--network ai vllm/x a", "vllm/y a", ["network", "image"]),
    ],
)
def test_a_difference_is_seen(paste: str, export: str, kinds: list[str]) -> None:
    """The comparison itself: what cannot fail would hold nothing."""
    theirs, ours = (
        facts.read_facts(launch_words.read_docker(launch_words.split_words(f"docker run {said}")))
        for said in (paste, export)
    )

    found = facts.compare(theirs, ours)

    assert sorted(each.fact for each in found) == sorted(kinds)
    assert not any(facts.is_told(each, ["-d: something else."]) for each in found)


def test_a_note_is_about_its_word_alone() -> None:
    memory = FactDifference(fact="option memory", theirs="64g", ours="")

    assert facts.is_told(memory, ["--memory 64g: a profile has no place for it."])
    assert not facts.is_told(memory, ["--memory-swap 8g: a profile has no place for it."])


# --- shells


@table(
    ("paste", "says"),
    [
        ("docker run -it vllm/vllm-openai bash", "This starts a shell; paste what is typed inside"),
        ("docker run -it vllm/vllm-openai /bin/bash", "This starts a shell"),
        ("docker run -it --entrypoint /bin/bash vllm/vllm-openai", "This starts a shell"),
        ("docker run -it lmsysorg/sglang:dev zsh -l", "This starts a shell"),
        ("docker run -it ghcr.io/ggml-org/llama.cpp:full /bin/sh", "This starts a shell"),
        ("docker run -it acme/box:1 bash", "This starts a shell"),
        (
            "docker run ghcr.io/ggml-org/llama.cpp:full --run -m /m/a.gguf",
            "This starts llama-cli: the image holds all tools of llama.cpp, and --run chooses that one",
        ),
        ("docker run ghcr.io/ggml-org/llama.cpp:full-cuda -b -m /m/a.gguf", "starts llama-bench"),
        ("docker run acme/llama.cpp:1 --quantize /m/a.gguf q4_0", "starts llama-quantize"),
        (
            "docker run --entrypoint /app/tools.sh acme/llama.cpp:1 -c /m/a",
            "starts the converter of checkpoints to GGUF",
        ),
        ("docker run vllm/vllm-openai bash -c 'nvidia-smi; sleep 1'", "starts none of the engines"),
        ("docker run vllm/vllm-openai bash -c 'ray start --head --block'", "This starts Ray"),
        ("docker run acme/x:1 sh -c 'ray start --address=$HEAD:6379'", "This starts Ray"),
        (
            "docker run acme/x:1 bash /app/start.sh --model-name a",
            "starts the script /app/start.sh",
        ),
        ("docker run vllm/vllm-openai /w/start.sh --tp 2", "starts the script /w/start.sh"),
        ("docker run vllm/vllm-openai bash run.sh", "starts the script run.sh"),
        ("docker run vllm/vllm-openai /usr/bin/env", "starts none of the engines"),
        ("docker run -it nvcr.io/nvidia/vllm:25.09-py3", "names no command"),
        (
            "services:\n  plum:\n    build: .\n    command: --server --port 8080\n",
            "The service plum names no image, and its command does not say which engine",
        ),
    ],
)
def test_a_shell_or_a_script_is_no_model(paste: str, says: str) -> None:
    assert says in refused(paste)


@table(
    "start",
    [
        "docker run -it --gpus all vllm/vllm-openai:v0.20.2 /bin/bash",
        "docker run -it --gpus all --entrypoint bash vllm/vllm-openai:v0.20.2",
        "docker run --gpus all --rm -it vllm/vllm-openai:v0.20.2",
        "docker run --gpus all -d vllm/vllm-openai:v0.20.2 sleep infinity",
    ],
)
def test_a_shell_with_an_engine_started_in_it_is_one_launch(start: str) -> None:
    made = imported(f"{start}\n\nvllm serve a/b --max-model-len 8192\n")

    assert (made.launch.image, made.launch.checkpoint) == ("vllm/vllm-openai:v0.20.2", "a/b")
    assert made.launch.flags == ("--max-model-len", "8192")


def test_an_image_that_serves_by_itself_needs_no_words() -> None:
    made = imported("docker run --gpus all -p 8000:8000 vllm/vllm-openai")

    assert "The paste names no model: write one." in notes(made)


# --- where it listens


@table(
    ("words", "says"),
    [
        ("vllm serve a/b --port 9000", "port 9000 of every address; the profile publishes it on"),
        ("vllm serve a/b --host 0.0.0.0", "port 8000 of every address (--host 0.0.0.0)"),
        ("llama-server -hf a/b --host 10.0.0.7", "port 8080 of 10.0.0.7 (--host 10.0.0.7)"),
        ("sglang serve --model-path a/b", ""),
        ("vllm serve a/b --host 127.0.0.1", ""),
    ],
)
def test_a_bare_command_keeps_its_port_and_its_address_is_told(words: str, says: str) -> None:
    made = imported(words)

    assert (made.launch.host_address, made.launch.network) == ("127.0.0.1", "bridge")
    assert made.launch.host_port == ENGINES[made.launch.engine].port(made.launch)
    assert says in notes(made)
    assert ("publishes it on" in notes(made)) is bool(says)


def test_an_engine_of_a_cluster_keeps_its_address_on_the_hosts_network() -> None:
    made = imported(
        "docker run --gpus all --network host -p 1:1 vllm/vllm-openai a/b --host 0.0.0.0 --nnodes 2"
    )

    assert made.launch.flags[-2:] == ("--host", "0.0.0.0")
    assert ENGINES["vllm"].listens_on(made.launch) == "0.0.0.0"
    assert "-p 1:1: Docker publishes nothing with --network host." in notes(made)


@table(
    ("words", "why"),
    [
        ("vllm serve a/b --nnodes 2 --node-rank 1 --master-addr 10.0.0.1", "--nnodes 2"),
        ("NCCL_SOCKET_IFNAME=enp1s0 vllm serve a/b", "NCCL_SOCKET_IFNAME=enp1s0"),
    ],
)
def test_a_bare_engine_of_a_cluster_gets_the_hosts_network(words: str, why: str) -> None:
    made = imported(words)

    assert (made.launch.network, made.launch.host_port) == ("host", 0)
    assert f"--network host is added, because of {why}" in notes(made)


def test_an_address_that_vllm_has_by_itself_is_told_on_the_hosts_network() -> None:
    made = imported("docker run --gpus all --network host vllm/vllm-openai a/b --nnodes 2")

    assert ENGINES["vllm"].listens_on(made.launch) == "127.0.0.1"
    assert "port 8000 of every address; the profile listens on 127.0.0.1" in notes(made)


def test_an_address_inside_a_container_is_told() -> None:
    made = imported("docker run -p 8000:8000 vllm/vllm-openai a/b --host 127.0.0.1")

    assert "--host 127.0.0.1 became 0.0.0.0" in notes(made)


def test_words_behind_a_port_are_no_part_of_it() -> None:
    assert imported('vllm serve a/b --port 8001 "$@"').launch.host_port == 8001


# --- compose


COMPOSE = """
name: {project}
services:
  a:
    image: vllm/vllm-openai
    command: a/b
    gpus: all
    networks: [{network}]
    volumes: ["{volume}:/m"]
networks:
  ai: {{name: ai-net}}
  old: {{external: true}}
  own: {{}}
volumes:
  weights: {{external: {{name: our-weights}}}}
  own: {{}}
"""


@table(
    ("project", "network", "volume", "named", "mounted"),
    [
        ("", "ai", "weights", "ai-net", "our-weights:/m"),
        ("", "old", "weights", "old", "our-weights:/m"),
        ("lab", "own", "own", "lab_own", "lab_own:/m"),
    ],
)
def test_networks_and_volumes_are_called_as_docker_calls_them(
    project: str, network: str, volume: str, named: str, mounted: str
) -> None:
    text = COMPOSE.format(project=project, network=network, volume=volume)
    made = imported(text.replace("name: \n", ""))

    assert (made.launch.network, made.launch.volumes) == (named, (mounted,))
    assert "puts its project's name" not in notes(made)


def test_a_projects_name_that_is_not_there_is_told() -> None:
    text = COMPOSE.format(project="", network="own", volume="own").replace("name: \n", "")
    made = imported(text)

    assert "networks: own: compose puts its project's name before it" in notes(made)
    assert "volumes: own: compose puts its project's name before it" in notes(made)


@table(
    ("key", "says"),
    [
        ("build: .", "build: nothing is built here. Build the image, and write its name."),
        ("extends: {file: x.yml, service: y}", "extends: what it takes over is not in the paste."),
    ],
)
def test_an_image_that_the_paste_does_not_name_is_told(key: str, says: str) -> None:
    [command] = read(f"services:\n  a:\n    {key}\n    command: vllm serve a/b\n")

    made = draft(command)

    assert says in notes(made)
    assert "vllm/vllm-openai stands for an image that the paste does not name" in notes(made)
    assert "without a container" not in notes(made)


# --- the program


@table(
    ("words", "entrypoint"),
    [
        ("--entrypoint vllm acme/x serve a/b", ("vllm", "serve")),
        ("--entrypoint /opt/v/bin/vllm acme/x serve a/b", ("/opt/v/bin/vllm", "serve")),
        (
            "--entrypoint python3 vllm/vllm-openai -m vllm.entrypoints.openai.api_server --model a/b",
            ("python3", "-m", "vllm.entrypoints.openai.api_server"),
        ),
        ("--entrypoint '' acme/x vllm serve a/b", ("vllm", "serve")),
        ("acme/x numactl -N 0 vllm serve a/b", ("numactl", "-N", "0", "vllm", "serve")),
        ("acme/x env A=1 vllm serve a/b", ("env", "A=1", "vllm", "serve")),
        ("acme/x uv run vllm serve a/b", ("uv", "run", "vllm", "serve")),
        ("acme/x /opt/v/bin/vllm serve a/b", ("/opt/v/bin/vllm", "serve")),
        ("acme/x bash -c 'exec /opt/v/bin/vllm serve a/b'", ("/opt/v/bin/vllm", "serve")),
        ("acme/x bash -c 'A=1 vllm serve a/b'", ("bash", "-c", "A=1 vllm serve a/b")),
        # What only the container's shell can fill in.
        *(
            (f"acme/x bash -c '{script}'", ("bash", "-c", script))
            for script in (
                "vllm serve a/b --max-model-len $LEN",
                "exec vllm serve a/b --max-model-len $((4 * 1024))",
            )
        ),
        (
            "--entrypoint bash acme/x -c 'vllm serve a/b --seed $S'",
            ("bash", "-c", "vllm serve a/b --seed $S"),
        ),
        ('acme/x bash -c "vllm serve a/b --seed $S"', ()),
        ("acme/x bash -c 'exec vllm serve a/b'", ()),
        ("acme/x vllm serve a/b", ()),
    ],
)
def test_an_entrypoint_of_the_paste_is_kept(words: str, entrypoint: tuple[str, ...]) -> None:
    made = imported(f"docker run --gpus all -p 8000:8000 {words}")

    assert made.launch.entrypoint == entrypoint
    assert made.launch.checkpoint == "a/b"


@table(
    "image",
    ["acme/vllm-server:1", "docker.io/vllm/vllm-openai", "registry.acme:5000/llm", "vllm-node"],
)
def test_no_export_says_the_program_twice(image: str) -> None:
    """Behind an entrypoint that is the program, `vllm serve` would be its first argument."""
    for words in (f"{image} --model a/b", f"{image} vllm serve a/b"):
        [launch] = import_paste(f"docker run --gpus all -p 8000:8000 {words}", engine="vllm")
        assert launch.draft is not None
        assert_nothing_is_silent(launch)
        assert launch.draft.launch.entrypoint == ()
        for form, said in launch.list_programs().items():
            assert said.count("vllm") == (0 if "vllm-openai" in image else 1), (form, said)


def test_a_script_of_the_paste_is_not_followed_by_the_program() -> None:
    made = imported("docker run -p 8001:8001 acme/x bash -c 'pip list; vllm serve a/b --port 8001'")

    assert ENGINES["vllm"].command(made.launch, made.launch.entrypoint) == ()


def test_words_that_a_script_takes_stay_behind_it() -> None:
    entrypoint = ("bash", "-c", 'pip list; exec vllm serve "$@"', "vllm")
    made = imported("docker run -p 8000:8000 vllm/vllm-openai a/b")

    assert "a/b" in ENGINES["vllm"].command(made.launch, entrypoint)


# --- other servers


def test_a_server_that_is_none_of_the_engines_is_other() -> None:
    made = imported(
        "docker run --gpus all -p 8000:8000 -p 9:9 nvcr.io/nvidia/tensorrt-llm/release:1.0 "
        "trtllm-serve a/b --host 0.0.0.0 --port 8000 --tp_size 2"
    )

    launch = made.launch
    assert (launch.engine, launch.port, launch.ready_path) == ("other", 8000, "/health")
    assert launch.flags[:2] == ("trtllm-serve", "a/b")
    assert "TensorRT-LLM’s server is none of vLLM, SGLang and llama.cpp" in notes(made)
    assert "-p 9:9: one port is published, 8000." in notes(made)


def test_such_a_server_without_a_container_is_refused_with_what_to_paste() -> None:
    says = refused("trtllm-serve a/b --port 8000")

    assert "trtllm-serve is none of vLLM, SGLang and llama.cpp" in says
    assert "paste its docker run line" in says


@table(
    ("words", "says"),
    [
        ("-n 10.0.0.1,10.0.0.2 --launch-script /m/run.sh", "(10.0.0.1, 10.0.0.2)"),
        ("-n 10.0.0.1,10.0.0.2 --launch-script /m/run.sh", "paste the command inside run.sh"),
        ("-t vllm-node exec vllm serve a/b -tp 2", "on several boxes, which inferdash cannot"),
    ],
)
def test_a_script_that_starts_a_cluster_is_refused_as_one(words: str, says: str) -> None:
    assert says in refused(f"GPU_MEM=0.8 \\\n./launch-cluster.sh {words}")


# --- what a container sees of a box


@table(
    ("variables", "gpus", "inside"),
    [
        ("CUDA_VISIBLE_DEVICES=3,1", "1,3", {"CUDA_VISIBLE_DEVICES": "1,0"}),
        ("CUDA_VISIBLE_DEVICES=1,3", "1,3", {}),
        ("CUDA_VISIBLE_DEVICES=2,0,1", "0,1,2", {"CUDA_VISIBLE_DEVICES": "2,0,1"}),
    ],
)
def test_the_order_of_gpus_is_kept(variables: str, gpus: str, inside: dict[str, str]) -> None:
    made = imported(f"{variables} sglang serve --model-path a/b")

    assert (made.launch.gpus, made.launch.env) == (gpus, inside)


@pytest.mark.parametrize("value", ["$(seq -s, 0 3)", "`nvidia-smi -L`", "$MINE"])
def test_gpus_that_the_box_would_say_are_asked_for(value: str) -> None:
    [command] = read(f"docker run --gpus '\"device={value}\"' vllm/vllm-openai a/b")

    assert f"--gpus {value}: the paste does not say which these are" in notes(draft(command))


@table(
    ("name", "value"),
    [
        ("NCCL_GRAPH_FILE", "/mnt/graph.xml"),
        ("VLLM_TUNED_CONFIG", "/mnt/tuned"),
        ("SSL_CERT_FILE", "~/ca.pem"),
        ("SOME_TABLE", "/mnt/table.json"),
    ],
)
def test_a_file_that_a_variable_names_is_mounted(name: str, value: str) -> None:
    made = imported(f"{name}={value} vllm serve a/b")

    [volume] = made.launch.volumes
    source, inside, mode = volume.split(":")
    assert (source, mode, made.launch.env[name]) == (value, "ro", inside)
    assert f"{name}={value}: this file of the box is mounted" in notes(made)


@table(
    ("words", "build"),
    [
        ("~/ik_llama.cpp/build/bin/llama-server -m /m/a.gguf", "ik_llama.cpp"),
        ("./llama-server -m /m/a.gguf -fmoe -amb 512", "ik_llama.cpp"),
        ("./build-vulkan/bin/llama-server -m /m/a.gguf", "a build for Vulkan"),
        ("./llama-server -m /m/a.gguf --device Vulkan0", "a build for Vulkan"),
        ("HIP_VISIBLE_DEVICES=0 vllm serve a/b", "a build for AMD’s GPUs"),
        ("./llama-server -m /m/a.gguf", ""),
    ],
)
def test_another_build_than_the_official_image_is_told(words: str, build: str) -> None:
    made = imported(words)

    assert ("The paste runs" in notes(made).replace("The paste runs without", "")) is bool(build)
    assert build in notes(made)


@table(
    ("words", "ipc"),
    [
        ("vllm serve a/b -tp 2", "host"),
        ("sglang serve --model-path a/b --tp 8", "host"),
        ("vllm serve a/b", ""),
        ("llama-server -hf a/b", ""),
        ("docker run --gpus all vllm/vllm-openai a/b -tp 2", ""),
    ],
)
def test_several_gpus_without_a_container_keep_the_boxs_shared_memory(words: str, ipc: str) -> None:
    made = imported(words)

    assert made.launch.ipc == ipc
    assert ("--ipc=host is added" in notes(made)) is bool(ipc)


@table(
    ("words", "says"),
    [
        ("numactl -N 0 -m 0 vllm serve a/b", "numactl -N 0 -m 0: left out"),
        ("taskset -c 0-15 vllm serve a/b", "taskset -c 0-15: left out"),
        ("uvx --with 'transformers>=4.57' vllm serve a/b", "--with transformers>=4.57: a package"),
    ],
)
def test_what_stands_before_a_bare_command_is_told(words: str, says: str) -> None:
    assert says in notes(imported(words))


@table(
    ("paste", "says"),
    [
        ("vllm serve a/b --port 8001 --node-rank $1", "$1 has no value in the paste: write it."),
        ("docker run -p 8000:8000 vllm/vllm-openai a/b --x $PORT1 --y $PORT", "$PORT1, $PORT have"),
        ("docker run -p $PORT:8000 vllm/vllm-openai a/b", "-p $PORT:8000 says no port of the box"),
    ],
)
def test_every_variable_without_a_value_is_told(paste: str, says: str) -> None:
    [command] = read(paste)

    assert says in notes(draft(command))


# --- few notes


def test_what_is_alike_is_one_note() -> None:
    made = imported(
        "docker run -d --rm -it --gpus all -p 8000:8000 -p 1:1 -p 2:2 --memory 64g --cpus 8 "
        "-v /a:/a -v /b:/b -v /c:/c:ro,Z -v /d:/d:z,ro -e A -e B vllm/vllm-openai a/b"
    )

    said = [each.says for each in made.remarks]
    assert "-p 1:1, -p 2:2: only the engine's own port, 8000, is published." in said
    assert "--memory 64g, --cpus 8: a profile has no place for them." in said
    assert "/a:/a, /b:/b: the container may write there." in said
    assert "A, B have no value in the paste: write them." in said
    assert any(each.startswith("-d, --rm, -it: containers always run") for each in said)
    assert len(said) == 6
