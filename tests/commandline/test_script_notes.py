"""What an import says of what is still to be written: variables of a script, ports, placeholders."""

from tests.cases import table
from tests.commandline.imports import import_paste
from tests.commandline.test_import_notes import imported, notes


@table(
    ("paste", "unset"),
    [
        ("bash -c 'vllm serve $MODEL --port 8000'", "$MODEL is used in the script"),
        (
            "docker run acme/x bash -c 'vllm serve $MODEL -tp ${TP}; echo $MODEL'",
            "$MODEL, $TP are used in the script",
        ),
        ("docker run -e MODEL=a/b acme/x bash -c 'echo $HOME; vllm serve $MODEL'", ""),
        (
            "docker run vllm/vllm-openai bash -c 'M=a/b; for i in 1 2; do echo $i; done; vllm serve $M'",
            "",
        ),
        ("docker run acme/x bash -c 'vllm serve ${M:-a/b} \\$x; ls | awk \"{print}\"'", ""),
    ],
)
def test_what_a_kept_script_misses_is_told(paste: str, unset: str) -> None:
    [launch] = import_paste(paste)
    assert launch.draft is not None, launch.refused
    told = [each.says for each in launch.draft.remarks if "used in the script" in each.says]
    assert "".join(told).startswith(unset)
    assert len(told) == bool(unset)


_IMAGE = "vllm/vllm-openai:v0.20.2"


@table(
    ("paste", "says"),
    [
        (
            f"docker run -p 8000:8000 {_IMAGE} --model a/b --port $PORT",
            "The port $PORT is no number: port 8000 is taken as the engine's port (-p 8000:8000).",
        ),
        (
            f"docker run -p ${{P}}:${{P}} {_IMAGE} --model a/b --port ${{P}}",
            "-p ${P}:${P} says no port of the box that is a number: write one.",
        ),
        (
            'screen -dmS plum bash -c "vllm serve a/b --port $PORT | tee x.log"',
            "port 8000 is taken as the engine's port, and published on a free port of 127.0.0.1.",
        ),
        (
            "docker run --name <NAME> vllm/vllm-openai:<TAG> --model a/b",
            "<TAG>, <NAME> are placeholders: write what belongs there.",
        ),
        (
            "docker run rocm/llama.cpp:<TAG>_server -m /models/plum.gguf",
            "<TAG> is a placeholder: write what belongs there.",
        ),
        ("docker run <your-image> vllm serve a/b", "<your-image> is a placeholder"),
        (f"docker run {_IMAGE} --model {{{{MODEL}}}}", "{{MODEL}} is a placeholder"),
        (
            f"docker run -v /path/to/models:/m {_IMAGE} --model /m/p -tp <N> --served-model-name your-model",
            "your-model, /path/to/models, <N> are placeholders: write what belongs there.",
        ),
        (
            "docker exec -it plum vllm serve a/b",
            "The paste runs in the container plum, whose start is not in it; here it runs in ",
        ),
    ],
)
def test_what_a_paste_leaves_to_a_person_is_told(paste: str, says: str) -> None:
    assert says in notes(imported(paste))


def test_brackets_of_models_and_templates_are_no_placeholders() -> None:
    flags = (
        """--reasoning-config '{"think_start_str": "<think>"}' --stop '<s>' """
        """--chat-template "{{ messages }} {% for m in x %}<|im_start|>{% endfor %}" """
    )

    made = imported(f"docker run {_IMAGE} --model acme/your {flags}")

    assert "placeholder" not in notes(made)
