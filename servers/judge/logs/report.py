"""The report of `manage.py diagnose` on a log. Pure."""

import re
from collections.abc import Iterable
from typing import Any

from servers.judge.logs import failure_catalog, parsing, phases, wrapping
from servers.judge.logs.diagnosis import Diagnosis, Ending, diagnose, head_and_tail
from servers.launch.engines import SERVING


def report(lines: Iterable[str], *, exit_code: int | None = None) -> dict[str, Any]:
    """Engine, phases, outcome, cause, summary, fix and evidence, as docs/diagnosis.md says.

    `lines` may hold terminal sequences and any number of lines; those of both ends are read.
    """
    kept = wrapping.unwrap(head_and_tail(map(_strip_colours, lines)))
    progress = _progress(kept)
    engine = progress.engine
    if not engine and (engine := _guess_engine(kept)):
        progress = _progress(kept, engine)
    found = diagnose(
        Ending(
            lines=kept,
            exit_code=exit_code,
            engine=engine,
            ready_line=progress.seen.get("ready"),
        )
    )
    if not engine and found.cause:
        engine = failure_catalog.by_id()[found.cause].engine
    return {
        "engine": engine if engine in SERVING else None,
        "phases": _list_reached(progress.coarse, found),
        "outcome": found.outcome,
        "cause": found.cause,
        "summary": found.summary,
        "fix": fixes(found, engine),
        "evidence": [{"line": each.line, "text": each.text} for each in found.evidence],
    }


def _strip_colours(line: str) -> str:
    return _COLOUR.sub("", line) if "m" in line and "[" in line else line


def _list_reached(coarse: list[str], found: Diagnosis) -> list[str]:
    """A server's word that it is up counts even where nobody knows whose it is."""
    return [*coarse, "ready"] if found.outcome == "ready" and "ready" not in coarse else coarse


def _progress(lines: list[tuple[int, str]], engine: str = "") -> phases.PhaseProgress:
    reader = phases.Reader(engine)
    for number, line in lines:
        reader.feed(number, line)
    return reader.progress


def _guess_engine(lines: list[tuple[int, str]]) -> str:
    """Whose files and words a log without a start-up names. SGLang speaks of vLLM, not the reverse."""
    named = {engine for _number, line in lines for engine, hint in _HINTS if hint.search(line)}
    return next((engine for engine, _hint in _HINTS if engine in named), "")


def fixes(found: Diagnosis, engine: str) -> list[str]:
    """In words, best first."""
    if found.cause is None:
        return []
    remedies = failure_catalog.by_id()[found.cause].remedies
    return [each.text(found.groups) for each in remedies if each.fits(engine, found.groups)]


def readable(told: dict[str, Any]) -> str:
    """The same for a person at a terminal."""
    rows = [f"{_TITLES[told['outcome']]}: {told['summary']}"]
    rows.append(f"Engine: {told['engine'] or 'not recognised'}")
    rows.append(f"Reached: {', '.join(told['phases']) or 'no phase that is known'}")
    if told["cause"]:
        rows.append(f"Cause: {told['cause']}")
    rows += ["What the log says:" for _ in told["evidence"][:1]]
    rows += [f"  {each['line']}: {parsing.safe(each['text'])}" for each in told["evidence"]]
    rows += ["What to do:" for _ in told["fix"][:1]]
    rows += [f"  - {text}" for text in told["fix"]]
    return "\n".join(rows)


# What is left of colours where a log went through a web page: "[1;36m(VllmWorker pid=7)[0;0m".
_COLOUR = re.compile(r"(?:\x1b|\\033|\\x1b|\\e|\u241b)?\[\d{1,3}(?:;\d{1,3}){0,3}m")

_HINTS = (
    (
        "sglang",
        re.compile(
            r"/sglang/|sgl-workspace|sglang\.srt|sgl_kernel|sglang serve|^\[[\d :-]{19} [TDE]P\d|"
            r"Received sigquit from a child proces|SIGQUIT received\. signum=|Scheduler hit an exception"
        ),
    ),
    (
        "vllm",
        re.compile(
            r"/vllm/|bin/vllm\b|\bvllm[.:] ?|\bvllm serve|VLLM_\w|EngineCore|"
            r"(?:INFO|WARNING|ERROR) \d\d-\d\d [\d:]{8} \[?\w{1,60}\.py:\d|"
            r"(?:gpu_model_runner|gpu_worker|multiproc_executor|core_client)\.py:\d"
        ),
    ),
    ("llamacpp", re.compile(r"\bllama_\w|\bggml_\w|/ggml/|llama-server|gguf_init_from_file")),
)

_TITLES = {"ready": "Ready", "failed": "Failed", "hung": "Stuck", "unknown": "Not known"}
