"""The version of an inferdash, by what lies in its folder."""

from pathlib import Path

from inferdash.version import find_version
from tests.cases import table

COMMIT = "1a2b3c4d5e" * 4
PROJECT = {"pyproject.toml": '[project]\nversion = "0.9.1"\n'}


@table(
    ("files", "version"),
    [
        (PROJECT, "0.9.1"),
        ({**PROJECT, ".git/HEAD": COMMIT}, "0.9.1 at 1a2b3c4d5"),
        (
            {**PROJECT, ".git/HEAD": "ref: refs/heads/x\n", ".git/refs/heads/x": f"{COMMIT}\n"},
            "0.9.1 at 1a2b3c4d5",
        ),
        (
            {**PROJECT, ".git/HEAD": "ref: refs/heads/x\n", ".git/packed-refs": f"# pack\n{COMMIT} refs/heads/x\n"},
            "0.9.1 at 1a2b3c4d5",
        ),
        (
            {
                **PROJECT,
                ".git": "gitdir: main/worktrees/w\n",
                "main/worktrees/w/HEAD": "ref: refs/heads/w\n",
                "main/worktrees/w/commondir": "../..\n",
                "main/refs/heads/w": COMMIT,
            },
            "0.9.1 at 1a2b3c4d5",
        ),
        ({**PROJECT, ".git/HEAD": "ref: refs/heads/none\n"}, "0.9.1"),
    ],
)  # fmt: skip
def test_a_checkout_tells_version_and_commit(
    files: dict[str, str], version: str, tmp_path: Path
) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    assert find_version(tmp_path) == version
