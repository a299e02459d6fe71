"""What an import says of a script that it keeps around the engine."""

from tests.cases import table
from tests.commandline.imports import import_paste


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
