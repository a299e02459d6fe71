"""A process in no container, by its words and variables, read as the draft of a profile."""

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from servers.launch.commandline import bare_process, engine_words, text_boxes
from servers.launch.commandline.draft import Draft, DraftError, draft
from servers.launch.commandline.import_notes import ImportNote
from servers.launch.commandline.inspect import without_keys
from servers.launch.commandline.tokens import LaunchCommand

# Variables that say something to an engine, its libraries or the driver; the others are those of
# the shell, the desktop or the systemd unit that started it.
_SAYS_SOMETHING = re.compile(
    r"(VLLM|SGLANG|SGL|LLAMA|GGML|HF|HUGGING_FACE|HUGGINGFACE|TRANSFORMERS|TOKENIZERS|CUDA|CUBLAS|"
    r"NVIDIA|NCCL|TORCH|TORCHINDUCTOR|PYTORCH|TRITON|FLASHINFER|FLASH_ATTENTION|OMP|MKL|RAY|GLOO|UCX|"
    r"TORCHDYNAMO|DG|DEEP_GEMM|SAFETENSORS|MODELSCOPE|NVSHMEM|TQDM)_"
)
_SWITCH = re.compile(r"-[bBdEiIOPqsSuv]+")
# Paths of the box, of which a container has its own.
_PLACES = re.compile(r"(^|_)(HOME|PATH|DIR|CACHE|ROOT)$")


def keep_variables(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that a profile takes over."""
    return {
        name: value
        for name, value in env.items()
        if _SAYS_SOMETHING.match(name) and not (_PLACES.search(name) and value.startswith("/"))
    }


def draft_of_process(
    argv: Sequence[str], env: Mapping[str, str] | None, *, folder: str = "", image: str = ""
) -> Draft:
    """`env` is None where it may not be read; `folder` is where it runs, "" where unknown.

    `image` is what its profile is to start; "": the engine's official one. Values that look like
    secrets become secrets, keys of the command line too. Raises DraftError for words that start
    no engine.
    """
    found = engine_words.find(without_python(argv))
    if found is None:
        raise DraftError("Its words start no engine any more.")
    engine, own = found
    said = keep_variables(env or {})
    start = _start(argv, len(own))
    command = LaunchCommand(
        kind="engine_command",
        engine=engine,
        command=(*start, *_find_relative_paths(own, folder)),
        env=dict(said),
        image=image or None,
    )
    made = without_keys(draft(command))
    remarks = tuple(map(_of_process, made.remarks))
    return replace(made, remarks=(*remarks, *_list_notes(env, said)))


def without_python(argv: Sequence[str]) -> Sequence[str]:
    """The words from the engine's program on: a venv's script stands behind its interpreter."""
    if not engine_words.program(argv[0]).startswith("python"):
        return argv
    # Behind python's own options that have no value, such as -u.
    script = next((n for n, word in enumerate(argv) if n and not _SWITCH.fullmatch(word)), 0)
    is_script = script > 0 and engine_words.program(argv[script]) in ("vllm", "sglang")
    return argv[script:] if is_script else argv


def _start(argv: Sequence[str], own: int) -> tuple[str, ...]:
    found = tuple(without_python(argv))
    return found[: len(found) - own]


def _find_relative_paths(own: tuple[str, ...], folder: str) -> tuple[str, ...]:
    """Relative paths to models, which meant something in the folder that it was started in."""
    if not folder:
        return own
    found = list(own)
    for at, word in enumerate(own):
        before = own[at - 1] if at else ""
        flag, equals, value = word.partition("=") if word.startswith("-") else (before, "", word)
        if flag not in bare_process.IN_REPOSITORY and bare_process.is_relative(value):
            path = posixpath.normpath(posixpath.join(folder, value))
            found[at] = f"{flag}={path}" if equals else path
    return tuple(found)


def _list_notes(env: Mapping[str, str] | None, said: Mapping[str, str]) -> tuple[ImportNote, ...]:
    if env is None:
        says = (
            "Its variables may not be read by inferdash, which is neither its user nor root: write "
            "those that matter here."
        )
        return (ImportNote(kind="unresolved", says=says),)
    left = sorted(name for name in env if name not in said)
    # A secret of the shell's is nobody's business here, not even its name.
    names = [name for name in left if not text_boxes.is_secret(name)]
    if not left:
        return ()
    shown = ", ".join(names[:8]) + (" …" if len(names) > 8 else "")
    says = f"{len(left)} variables of the shell or unit that started it, such as {shown}."
    return (ImportNote(kind="ignored", says=says),)


def _of_process(remark: ImportNote) -> ImportNote:
    """A draft speaks of the paste that it was made of; here that is a process."""
    says = remark.says.replace("The paste", "The process").replace("the paste", "the process")
    return replace(remark, says=says)
