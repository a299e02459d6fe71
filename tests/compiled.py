"""Bytecode of a new checkout, made once: else each process of the tests makes all of it, at once.

What Python and pytest find made they leave as it is.
"""

import compileall
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from _pytest.assertion import rewrite

from tests.terminal import ROOT

FOLDERS = ("inferdash", "servers", "tests")
# pytest writes its own bytecode of these, with the parts of each assert.
WITH_ASSERTS = ("tests/**/test_*.py", "tests/**/conftest.py")


def main(root: Path = ROOT) -> None:
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        rewritten = processes.map(compile_asserts, find_tests(root), chunksize=16)
        plain = processes.map(compile_plainly, find_plain(root), chunksize=16)
        list(rewritten)
        list(plain)


def find_tests(root: Path) -> list[Path]:
    return sorted(path for pattern in WITH_ASSERTS for path in root.glob(pattern))


def find_plain(root: Path) -> list[Path]:
    everything = {path for folder in FOLDERS for path in (root / folder).rglob("*.py")}
    return sorted(everything - set(find_tests(root)))


def compile_plainly(path: Path) -> None:
    compileall.compile_file(path, quiet=2)


def compile_asserts(path: Path) -> None:
    """A file that is no Python fails where it is collected, with the whole message."""
    target = rewrite.get_cache_dir(path) / f"{path.stem}{rewrite.PYC_TAIL}"
    if rewrite._read_pyc(path, target) is not None:
        return
    try:
        told, code = rewrite._rewrite_test(path, None)  # type: ignore[arg-type]
    except SyntaxError:
        return
    target.parent.mkdir(exist_ok=True)
    draft = target.with_suffix(f".{os.getpid()}")
    with draft.open("wb") as file:
        rewrite._write_pyc_fp(file, told, code)
    draft.replace(target)


if __name__ == "__main__":
    main()
