"""manage.py recipe check."""

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from servers.launch.recipes.catalogue import SHIPPED
from tests.recipes.test_docs import WHOLE


def _check(*files: Path) -> tuple[int, str]:
    out = StringIO()
    try:
        call_command("recipe", "check", *map(str, files), stdout=out)
    except SystemExit as ended:
        return int(str(ended.code)), out.getvalue()
    return 0, out.getvalue()


def test_what_ships_has_no_errors() -> None:
    code, said = _check(*sorted(SHIPPED.glob("*.yaml")))

    assert (code, "error:" in said) == (0, False), said


def test_the_example_of_the_documents_has_neither_errors_nor_remarks(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(WHOLE)

    code, said = _check(tmp_path / "mine.yaml")

    assert code == 0
    assert "is a recipe that inferdash can start" in said
    assert "source:" not in said


def test_every_error_is_told_with_its_line_and_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "name: Mine\nengine: vlm\nimage: vllm/vllm-openai:v0.20.2\ncheckpoint: a/b\n"
        "boxes: 0\nshm_sise: 16g\nmodel: a/b\nenv:\n  A=B: '1'\nsource:\n  url: ftp://x\n"
    )

    code, said = _check(path)

    assert code == 1
    lines = [line for line in said.splitlines() if line.startswith("error:")]
    assert [line.split("line ")[1].split(":")[0] for line in lines] == [
        "2",
        "5",
        "6",
        "7",
        "9",
        "11",
    ]
    assert "“vlm” is not an engine" in lines[0]
    assert "shm_size" in lines[2]
    assert "Did you mean checkpoint?" in lines[3]
    assert "https://" in lines[5]


def test_a_known_failure_is_an_error_and_a_missing_source_a_remark(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "name: Mine\nengine: vllm\nimage: vllm/vllm-openai:latest\ncheckpoint: a/b\n"
        "flags: --max-model-len 4k --no-such-flag\n"
    )

    _code, said = _check(path)

    for wanted in ("source:", "hardware:", "expected:", "image:"):
        assert f"remark: {path}: {wanted}" in said


def test_a_file_that_is_no_yaml_is_one_error_and_a_missing_one_is_told(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: [")

    assert _check(path)[0] == 1
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe")
    for name, reason in (("none", "No such file or directory."), ("bytes", "not text in UTF-8.")):
        said = StringIO()
        with pytest.raises(SystemExit, match="2"):
            call_command("recipe", "check", str(tmp_path / f"{name}.yaml"), stderr=said)
        assert said.getvalue().strip().endswith(reason)


def test_a_name_that_no_catalogue_lists_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "my recipe.txt"
    path.write_text(WHOLE)

    code, said = _check(path)

    assert (code, said.count("error:")) == (1, 1)
    assert "Rename it" in said
