import pytest

from servers.launch.engines import ENGINES, known_entrypoint
from servers.launch.engines.flaglist import Flag, FlagList
from servers.launch.engines.launch import Launch
from servers.launch.engines.llamacpp import name_with_server
from servers.launch.engines.placement import VolumeError, parse, resolve
from tests.cases import table


def launch(engine: str = "vllm", **fields: object) -> Launch:
    return Launch.from_json(
        {"engine": engine, "image": "example/engine:1", "checkpoint": "Qwen/Qwen3-8B", **fields}
    )


def test_vllm_is_not_said_twice_where_the_image_says_it() -> None:
    engine = ENGINES["vllm"]

    assert engine.command(launch(), ("vllm", "serve"))[0] == "Qwen/Qwen3-8B"
    assert engine.command(launch(), ("/opt/vllm/bin/vllm", "serve"))[0] == "Qwen/Qwen3-8B"
    assert engine.command(launch(), ("vllm",))[:2] == ("serve", "Qwen/Qwen3-8B")
    assert engine.command(launch(), ())[:3] == ("vllm", "serve", "Qwen/Qwen3-8B")
    assert engine.command(launch(), ("/opt/nvidia/nvidia_entrypoint.sh",))[:2] == ("vllm", "serve")


@table(
    ("engine", "entrypoint", "begins"),
    [
        ("vllm", ("/usr/bin/tini", "--", "vllm", "serve"), ("Qwen/Qwen3-8B", "--host")),
        ("vllm", ("python3",), ("-m", "vllm.entrypoints.cli.main", "serve", "Qwen/Qwen3-8B")),
        ("vllm", ("python3", "-m", "vllm.entrypoints.cli.main"), ("serve", "Qwen/Qwen3-8B")),
        ("vllm", ("python3", "-m", "vllm.entrypoints.cli.main", "serve"), ("Qwen/Qwen3-8B",)),
        (
            "vllm",
            ("python3", "-m", "vllm.entrypoints.openai.api_server"),
            ("--model", "Qwen/Qwen3-8B", "--host"),
        ),
        ("sglang", ("sglang", "serve"), ("--model-path", "Qwen/Qwen3-8B")),
        ("sglang", ("/opt/venv/bin/sglang", "serve"), ("--model-path", "Qwen/Qwen3-8B")),
        ("sglang", ("sglang",), ("serve", "--model-path", "Qwen/Qwen3-8B")),
        ("sglang", ("python3", "-m", "sglang.launch_server"), ("--model-path",)),
        ("sglang", ("python3.12",), ("-m", "sglang.launch_server", "--model-path")),
        (
            "sglang",
            ("/opt/nvidia/nvidia_entrypoint.sh",),
            ("python3", "-m", "sglang.launch_server"),
        ),
        ("llamacpp", ("llama-server",), ("-hf", "Qwen/Qwen3-8B")),
        ("llamacpp", ("/app/llama-server",), ("-hf", "Qwen/Qwen3-8B")),
        ("llamacpp", ("/app/tools.sh",), ("--server", "-hf", "Qwen/Qwen3-8B")),
        ("llamacpp", (), ("/app/llama-server", "-hf", "Qwen/Qwen3-8B")),
    ],
)
def test_what_an_entrypoint_says_of_the_program_is_not_said_twice(
    engine: str, entrypoint: tuple[str, ...], begins: tuple[str, ...]
) -> None:
    assert ENGINES[engine].command(launch(engine), entrypoint)[: len(begins)] == begins


@table(
    ("image", "entrypoint"),
    [
        ("ghcr.io/ggml-org/llama.cpp:server-cuda", ("/app/llama-server",)),
        ("ghcr.io/ggml-org/llama.cpp:full-cuda", ("/app/tools.sh",)),
        ("rocm/llama.cpp:b6652.amd0_rocm7.0.0_ubuntu24.04_server", ("/app/llama-server",)),
        ("docker.io/rocm/llama.cpp:b6652.amd0_rocm7.0.0_ubuntu24.04_full", ("/app/tools.sh",)),
        ("rocm/llama.cpp:b6652.amd0_rocm7.0.0_ubuntu24.04_light", None),
        ("rocm/vllm:latest", ()),
    ],
)
def test_an_entrypoint_is_known_by_the_image_s_name(
    image: str, entrypoint: tuple[str, ...] | None
) -> None:
    assert known_entrypoint(image) == entrypoint


@table(
    ("image", "server"),
    [
        ("ghcr.io/ggml-org/llama.cpp:light", "ghcr.io/ggml-org/llama.cpp:server"),
        ("me.example/ggml-org/llama.cpp:light-cuda@sha256:1a", "me.example/ggml-org/llama.cpp:server-cuda"),
        ("local/llama.cpp:light-cuda", "local/llama.cpp:server-cuda"),
        ("rocm/llama.cpp:b6652.amd0_ubuntu24.04_light", "rocm/llama.cpp:b6652.amd0_ubuntu24.04_server"),
        ("ghcr.io/ggml-org/llama.cpp:server-cuda", ""),
        ("ghcr.io/ggml-org/llama.cpp:full", ""),
        ("acme/llama.cpp:light", ""),
    ],
)  # fmt: skip
def test_an_image_without_a_server_names_the_one_that_has_it(image: str, server: str) -> None:
    assert name_with_server(image) == server


def test_sglang_gets_its_program_and_names() -> None:
    words = ENGINES["sglang"].command(launch("sglang", served_name="qwen"), ())

    assert words[:5] == ("python3", "-m", "sglang.launch_server", "--model-path", "Qwen/Qwen3-8B")
    assert words[words.index("--served-model-name") + 1] == "qwen"
    assert words[words.index("--port") + 1] == "30000"


def test_llamacpp_tells_a_file_from_a_repository() -> None:
    engine = ENGINES["llamacpp"]

    assert engine.command(launch("llamacpp"), ("/app/llama-server",))[:2] == (
        "-hf",
        "Qwen/Qwen3-8B",
    )
    file = launch("llamacpp", checkpoint="/models/q.gguf")
    assert engine.command(file, ("/app/llama-server",))[:2] == ("-m", "/models/q.gguf")


def test_what_the_profile_says_is_not_said_again() -> None:
    flags = ("--host=0.0.0.0", "--port", "5000", "--served_model_name", "mine")
    words = ENGINES["vllm"].command(launch(flags=list(flags), served_name="other"), ())

    assert [word for word in words if word.startswith("--")] == [
        "--host=0.0.0.0",
        "--port",
        "--served_model_name",
    ]
    assert ENGINES["vllm"].port(launch(flags=list(flags))) == 5000
    assert ENGINES["vllm"].served_name(launch(flags=list(flags))) == "mine"


def test_the_first_of_llama_cpps_names_is_the_one_it_is_asked_by() -> None:
    def served_name(*flags: str) -> str:
        return ENGINES["llamacpp"].served_name(launch("llamacpp", flags=list(flags)))

    assert served_name("--alias", "tiny") == "tiny"
    assert served_name("-a", "tiny, small") == "tiny"
    assert served_name() == "Qwen/Qwen3-8B"


def known(engine: str, *flags: Flag) -> FlagList:
    return FlagList(engine=engine, version="", flags=flags)


EXCLUDE = Flag(names=("--disable-access-log-for-endpoints",))
PREFIXES = Flag(names=("--uvicorn-access-log-exclude-prefixes",), takes="many")


def test_own_questions_are_kept_out_of_the_log_as_the_image_wants_it_said() -> None:
    vllm = ENGINES["vllm"].command(launch(flags=["-O3"]), (), known=known("vllm", EXCLUDE))
    sglang = ENGINES["sglang"].command(
        launch("sglang", flags=["--tp", "2"]), (), known=known("sglang", PREFIXES)
    )

    assert vllm[-3:] == (EXCLUDE.name, "/health,/metrics", "-O3")
    assert sglang[-5:] == (PREFIXES.name, "/health", "/metrics", "--tp", "2")


@pytest.mark.parametrize("engine", ENGINES)
def test_an_image_that_lacks_the_flag_does_not_get_it(engine: str) -> None:
    plain = ENGINES[engine].command(launch(engine), ())

    other = known(engine, Flag(names=("--disable-access-log",)))
    assert ENGINES[engine].command(launch(engine), (), known=other) == plain


@pytest.mark.parametrize(
    "flags",
    [
        [EXCLUDE.name, "/ping"],
        [f"{EXCLUDE.name}=/ping"],
        ["--disable_access_log_for_endpoints", "/ping"],
        ["--disable-access-log", "/ping"],
        ["--config", "/team/vllm.yaml"],
    ],
)
def test_a_profile_that_says_what_is_logged_is_left_alone(flags: list[str]) -> None:
    engine = ENGINES["vllm"]
    mine = launch(flags=flags)

    assert engine.command(mine, (), known=known("vllm", EXCLUDE)) == engine.command(mine, ())


def test_on_the_hosts_network_the_engine_listens_on_loopback_unless_told() -> None:
    engine = ENGINES["vllm"]
    quiet = launch(network="host")
    loud = launch(network="host", flags=["--host", "0.0.0.0"])

    assert "127.0.0.1" in engine.command(quiet, ())
    assert not engine.is_open(quiet)
    assert engine.is_open(loud)
    assert engine.is_open(launch(host_address="0.0.0.0"))
    assert not engine.has_key(loud)


def test_a_launch_survives_its_json() -> None:
    full = launch(
        flags=["--a", "b"], env={"X": "1"}, secret_env={"T": 3}, volumes=["~/m:/m:ro"], init=False
    )

    assert Launch.from_json(full.to_json()) == full
    assert "grace" not in full.to_json()


def test_home_is_resolved_and_nothing_else() -> None:
    assert resolve("~/models", home="/home/ana") == "/home/ana/models"
    assert resolve("$HOME/models", home="/home/ana") == "/home/ana/models"
    assert resolve("${HOME}", home="/home/ana") == "/home/ana"
    for bad in ("models", "~bob/models", "$MODELS/x"):
        with pytest.raises(VolumeError):
            resolve(bad, home="/home/ana")
    with pytest.raises(VolumeError, match="home folder"):
        resolve("~/models", home="")


def test_volumes_are_read_as_docker_reads_them() -> None:
    bind = parse("/mnt/models:/models:ro", home="")
    named = parse("jit-cache:/cache", home="")

    assert (bind.kind, bind.source, bind.target, bind.read_only) == (
        "bind",
        "/mnt/models",
        "/models",
        True,
    )
    assert (named.kind, named.read_only) == ("volume", False)
    for bad in ("/only", "/a:b", "/a:/b:nocopy", ":/b", "a/b:/c"):
        with pytest.raises(VolumeError):
            parse(bad, home="/h")


@pytest.mark.parametrize("port", ["²", "99999", "0", "9" * 5000, "1e3", "", "-1"])
def test_a_port_that_is_none_is_left_to_the_engine_to_refuse(port: str) -> None:
    launch = Launch(engine="vllm", image="x", checkpoint="y", flags=("--port", port), port=9000)

    assert ENGINES["vllm"].port(launch) == 9000
