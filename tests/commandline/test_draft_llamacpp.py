"""A llama.cpp that variables tell what flags would: its documents write it so for Docker."""

from tests.commandline.test_draft import drafted, remarks

LLAMA_CPP_BY_VARIABLES = """
services:
  llamacpp-server:
    image: ghcr.io/ggml-org/llama.cpp:server-cuda
    ports: ["127.0.0.1:9000:9000"]
    volumes: ["./models:/models:ro"]
    environment:
      LLAMA_ARG_MODEL: /models/tiny.gguf
      LLAMA_ARG_ALIAS: tiny
      LLAMA_ARG_CTX_SIZE: 4096
      LLAMA_ARG_HOST: 0.0.0.0
      LLAMA_ARG_PORT: 9000
"""


def test_a_llama_cpp_that_variables_alone_tell_what_to_do() -> None:
    """As its own documents write it for Docker: no word behind the image."""
    launch = drafted(LLAMA_CPP_BY_VARIABLES).launch

    assert (launch.engine, launch.flags) == ("llamacpp", ())
    assert (launch.checkpoint, launch.served_name) == ("/models/tiny.gguf", "tiny")
    assert (launch.port, launch.host_address, launch.host_port) == (9000, "127.0.0.1", 9000)
    assert launch.env == {"LLAMA_ARG_CTX_SIZE": "4096"}, "what fields say stands there alone"


def test_a_flag_of_llama_cpp_outranks_its_variable() -> None:
    text = LLAMA_CPP_BY_VARIABLES + '    command: ["-m", "/models/large.gguf", "--jinja"]\n'
    launch = drafted(text).launch

    assert (launch.checkpoint, launch.served_name) == ("/models/large.gguf", "tiny")
    assert launch.flags == ("--jinja",)
    assert "LLAMA_ARG_MODEL" not in launch.env


def test_variables_without_a_value_name_nothing() -> None:
    made = drafted("docker run -e LLAMA_ARG_MODEL ghcr.io/ggml-org/llama.cpp:server -c 4096")

    assert made.launch.checkpoint == ""
    assert "LLAMA_ARG_MODEL has no value in the paste" in remarks(made, "unresolved")


def test_a_llama_cpp_whose_variables_stand_in_a_file() -> None:
    made = drafted("docker run --gpus all --env-file a.env ghcr.io/ggml-org/llama.cpp:server-cuda")

    assert made.launch.engine == "llamacpp"
    assert "The variables of a.env are not in the paste" in remarks(made, "unresolved")


def test_an_image_without_a_server_is_told() -> None:
    light = "ghcr.io/ggml-org/llama.cpp:light-cuda"
    made = drafted(f"docker run --gpus all {light} -m /models/tiny.gguf")

    assert made.launch.image == light
    assert f"{light} has no server in it" in remarks(made, "unresolved")
    assert "llama.cpp:server-cuda" in remarks(made, "unresolved")
    assert "no server" not in remarks(drafted(LLAMA_CPP_BY_VARIABLES), "unresolved")
