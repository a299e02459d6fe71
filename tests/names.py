"""Rules on names: `python -m tests.names`, as `make lint` runs it. See docs/glossary.md."""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRODUCT = ("servers", "inferdash")
# By Django's convention, each has one of its own wherever it is needed.
CONVENTIONAL = frozenset({"Meta", "Command"})
LONGEST_MODULE = 500

PREPOSITIONS = frozenset(
    [
        "about",
        "above",
        "after",
        "again",
        "apart",
        "around",
        "at",
        "before",
        "behind",
        "below",
        "beside",
        "between",
        "by",
        "during",
        "for",
        "from",
        "in",
        "into",
        "of",
        "on",
        "over",
        "since",
        "through",
        "to",
        "under",
        "until",
        "with",
        "within",
        "without",
    ]
)
PARTICIPLES = frozenset(
    [
        "begun",
        "borne",
        "born",
        "bought",
        "broken",
        "brought",
        "built",
        "caught",
        "chosen",
        "cut_off",
        "done",
        "drawn",
        "driven",
        "everything",
        "fallen",
        "felt",
        "forgotten",
        "found",
        "given",
        "gone",
        "grown",
        "heard",
        "held",
        "hidden",
        "kept",
        "known",
        "laid",
        "left",
        "lent",
        "lost",
        "made",
        "meant",
        "met",
        "nothing",
        "paid",
        "seen",
        "sent",
        "shown",
        "shut_off",
        "sold",
        "spent",
        "spoken",
        "stood",
        "stolen",
        "stuck",
        "taken",
        "there",
        "thought",
        "told",
        "torn",
        "understood",
        "wanted",
        "won",
        "worn",
        "written",
    ]
)
# Verbs and nouns that end as participles do.
VERBS = frozenset(
    [
        "embed",
        "exceed",
        "feed",
        "need",
        "proceed",
        "seed",
        "speed",
        "bring",
        "ping",
        "ring",
        "string",
    ]
)
QUESTIONS = frozenset(
    [
        "by",
        "from",
        "how",
        "what",
        "when",
        "where",
        "whether",
        "which",
        "who",
        "whom",
        "whose",
        "why",
    ]
)
THIRD_PERSON = frozenset(
    [
        "asks",
        "becomes",
        "brings",
        "deletes",
        "ends",
        "finds",
        "follows",
        "gets",
        "gives",
        "holds",
        "judges",
        "keeps",
        "looks",
        "makes",
        "moves",
        "passes",
        "prints",
        "puts",
        "raises",
        "reads",
        "removes",
        "searches",
        "sends",
        "shows",
        "speaks",
        "stops",
        "stores",
        "takes",
        "tells",
        "tries",
        "wakes",
        "writes",
    ]
)


def main() -> int:
    """Print each fault with its place; 1 if there is any."""
    faults = list(find_faults(read_modules(ROOT)))
    print(*faults, sep="\n")
    return 1 if faults else 0


def read_modules(root: Path) -> dict[Path, str]:
    """Text by path below `root`, migrations aside: those never change."""
    files = chain.from_iterable((root / top).rglob("*.py") for top in (*PRODUCT, "tests"))
    return {
        file.relative_to(root): file.read_text() for file in files if "migrations" not in file.parts
    }


def find_faults(modules: dict[Path, str]) -> Iterator[str]:
    trees = {path: ast.parse(text) for path, text in sorted(modules.items())}
    yield from _find_doubled_classes(trees)
    for path, tree in trees.items():
        if path.parts[0] in PRODUCT:
            yield from _check_functions(path, tree)
            yield from _check_docstring(path, tree)
            lines = modules[path].count("\n")
            if lines > LONGEST_MODULE:
                yield f"{path}: {lines} lines, more than {LONGEST_MODULE}: split it by its nouns"


def _find_doubled_classes(trees: dict[Path, ast.Module]) -> Iterator[str]:
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name not in CONVENTIONAL:
                places[node.name].append(f"{path}:{node.lineno}")
    for name, found in places.items():
        if len(found) > 1:
            yield f"{found[-1]}: class {name} stands in {found[0]}, too: give one another name"


def _check_functions(path: Path, tree: ast.Module) -> Iterator[str]:
    if "templatetags" in path.parts:
        return  # filters read as adjectives, as Django's own: {{ value|default:"" }}
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if is_verbless(node.name) and not _is_property(node):
            yield f"{path}:{node.lineno}: {node.name}() is named by no verb"


def is_verbless(name: str) -> bool:
    """Whether it is a bare participle or preposition."""
    if name.startswith("nvml"):
        return False  # NVML's own
    word = name.strip("_").lower()
    if "_" in word or word in VERBS:
        return False
    return word in PREPOSITIONS | PARTICIPLES or word.endswith(("ed", "ing"))


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    names = {ast.unparse(each).rpartition(".")[2] for each in node.decorator_list}
    return bool(names & {"property", "cached_property", "setter"})


def _check_docstring(path: Path, tree: ast.Module) -> Iterator[str]:
    if "commands" in path.parts or not tree.body:
        return  # what a command's docstring says is its help, which begins with a verb
    words = (ast.get_docstring(tree) or "").replace(",", " ").split()
    if not words:
        yield f"{path}: has no docstring: say in a few words what the module is"
    elif words[0].lower() in QUESTIONS | THIRD_PERSON:
        yield f"{path}: its docstring begins with “{words[0]}” and not with what the module is"


if __name__ == "__main__":
    sys.exit(main())
