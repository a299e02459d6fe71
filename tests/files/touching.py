"""Where Python touches a file system or starts a program, as far as its syntax tells."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

# Of os: what takes no path, or nothing but a descriptor.
_HARMLESS = frozenset(
    [
        "O_ACCMODE",
        "O_APPEND",
        "O_CLOEXEC",
        "O_CREAT",
        "O_DIRECTORY",
        "O_EXCL",
        "O_NOCTTY",
        "O_NOFOLLOW",
        "O_NONBLOCK",
        "O_PATH",
        "O_RDONLY",
        "O_RDWR",
        "O_TRUNC",
        "O_WRONLY",
        "ST_RDONLY",
        "SEEK_END",
        "SEEK_SET",
        "DirEntry",
        "PathLike",
        "stat_result",
        "close",
        "devnull",
        "dup2",
        "environ",
        "fdopen",
        "fsdecode",
        "fsencode",
        "fspath",
        "fstat",
        "fsync",
        "getegid",
        "geteuid",
        "getenv",
        "getgid",
        "getpgid",
        "getpid",
        "getppid",
        "getuid",
        "kill",
        "killpg",
        "major",
        "makedev",
        "minor",
        "nice",
        "pidfd_open",
        "pipe",
        "read",
        "set_blocking",
        "strerror",
        "sync",
        "sysconf",
        "urandom",
        "write",
        "_exit",
        "cpu_count",
        "waitpid",
        "R_OK",
        "W_OK",
        "X_OK",
    ]
)
_HARMLESS_PATHS = frozenset(
    [
        "basename",
        "commonpath",
        "dirname",
        "isabs",
        "join",
        "normpath",
        "relpath",
        "samestat",
        "split",
        "splitext",
    ]
)
_MODULES = frozenset(
    ["shutil", "glob", "tempfile", "subprocess", "fileinput", "linecache", "mmap", "pty"]
)
_READERS = frozenset(
    [
        "io.open",
        "io.FileIO",
        "codecs.open",
        "gzip.open",
        "bz2.open",
        "lzma.open",
        "tarfile.open",
        "zipfile.ZipFile",
        "sqlite3.connect",
        "tarfile.TarFile",
        "asyncio.create_subprocess_exec",
        "asyncio.create_subprocess_shell",
        "runpy.run_path",
    ]
)
# Packages that open a path that they are given.
_PACKAGES = frozenset(["gguf", "safetensors", "huggingface_hub", "transformers"])
# Of Path, and of nothing else that this project calls.
_METHODS = frozenset(
    [
        "chmod",
        "expanduser",
        "glob",
        "group",
        "hardlink_to",
        "is_block_device",
        "is_char_device",
        "is_dir",
        "is_fifo",
        "is_file",
        "is_mount",
        "is_socket",
        "is_symlink",
        "iterdir",
        "lchmod",
        "lstat",
        "mkdir",
        "owner",
        "read_bytes",
        "read_text",
        "readlink",
        "rename",
        "rglob",
        "rmdir",
        "samefile",
        "stat",
        "symlink_to",
        "touch",
        "unlink",
        "walk",
        "write_bytes",
        "write_text",
    ]
)
_RECORDS = frozenset({"objects", "_default_manager", "self"})


@dataclass(frozen=True)
class Touch:
    line: int
    what: str


def touches(source: str) -> list[Touch]:
    tree = ast.parse(source)
    return sorted(_TouchReader(tree).found(), key=lambda each: (each.line, each.what))


class _TouchReader:
    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._modules: dict[str, str] = {}  # by the name here, "os.path" and the like
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for each in node.names:
                    first = each.name.partition(".")[0]
                    self._modules[each.asname or first] = each.name if each.asname else first
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for each in node.names:
                    self._modules[each.asname or each.name] = f"{node.module}.{each.name}"
        self._has_paths = "pathlib.Path" in self._modules.values()

    def found(self) -> Iterator[Touch]:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield from self._imported(node)
            elif (
                isinstance(node, ast.Attribute | ast.Name)
                and (what := self._named(node))
                or isinstance(node, ast.Call)
                and (what := self._called(node))
            ):
                yield Touch(node.lineno, what)

    def _imported(self, node: ast.Import | ast.ImportFrom) -> Iterator[Touch]:
        names = [each.name for each in node.names]
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{name}" for name in names] if not node.level else []
        for name in names:
            if name.partition(".")[0] in _PACKAGES or _is_io(name):
                yield Touch(node.lineno, name)

    def _named(self, node: ast.Attribute | ast.Name) -> str:
        """What is named with its module in front: os.stat, shutil.rmtree, gzip.open."""
        if isinstance(node, ast.Name):
            return "open" if node.id == "open" and isinstance(node.ctx, ast.Load) else ""
        whole = ast.unparse(node)
        if not whole.replace(".", "").isidentifier():
            return ""  # of what a call or a calculation gives
        first, _dot, rest = whole.partition(".")
        told = f"{self._modules.get(first, '')}.{rest}"
        return told if first in self._modules and _is_io(told) else ""

    def _called(self, node: ast.Call) -> str:
        """A method that only a path has, or that one has, too, in a module that makes paths."""
        if not isinstance(node.func, ast.Attribute):
            return ""
        name, receiver = node.func.attr, node.func.value
        of = ast.unparse(receiver)
        if of in self._modules and of not in ("Path", "pathlib.Path", "pathlib"):
            return ""  # a function of a module: named above where it is one of these
        if name in _METHODS and not self._is_of_a_match(name, node):
            return f"{of}.{name}"
        if of in ("Path", "pathlib.Path") and name in ("home", "cwd"):
            return f"{of}.{name}"
        if name == "open" and of.rpartition(".")[2] not in _RECORDS:
            return f"{of}.open"
        if not self._has_paths:
            return ""
        is_path = (
            (name == "exists" and not node.args)
            or (name == "resolve" and not node.args and not of.startswith("Path(__file__)"))
            or (name == "replace" and len(node.args) == 1 and not node.keywords)
        )
        return f"{of}.{name}" if is_path else ""

    def _is_of_a_match(self, name: str, node: ast.Call) -> bool:
        return name == "group" and bool(node.args)


def _is_io(name: str) -> bool:
    first, _dot, rest = name.partition(".")
    if first in _MODULES:
        return bool(rest)
    if first == "os" and rest.startswith("path."):
        return rest.removeprefix("path.").partition(".")[0] not in _HARMLESS_PATHS
    if first == "os":
        return bool(rest) and rest != "path" and rest.partition(".")[0] not in _HARMLESS
    return name in _READERS
