"""Reports of pastes that were read wrongly, and their reading anew."""

import json
from collections.abc import Iterator
from typing import cast

from servers.judge.reports.document import Report, number_lines
from servers.judge.reports.redaction import Redactor
from servers.launch.commandline import paste
from servers.launch.commandline.draft import DraftError, draft
from servers.launch.commandline.tokens import EngineKey, LaunchCommand, PasteError
from servers.launch.engines import ENGINES
from servers.launch.engines.engine import secret_words

MOST = 100_000  # characters of a paste; no launch is longer


def build_paste(
    text: str, redactor: Redactor, *, truth: str = "", engine: str = "", inferdash: str = ""
) -> Report:
    """The report of a paste, redacted. What it is read as is read of the redacted text.

    `engine` is what a person chose for it, a key of ENGINES; "": nothing.
    """
    cut = text[:MOST]
    redactor.learn([cut, truth])
    redactor.learn_keys(_find_keys(cut))
    redacted = redactor.redact(cut.replace("\r\n", "\n").rstrip("\n"))
    report = Report(
        kind="paste",
        facts={"truth": redactor.redact(truth), "inferdash": inferdash, "engine": engine},
        parts={"paste": number_lines(redacted.split("\n"))},
    )
    parts = {
        **report.parts,
        "read as": number_lines(list_readings(report)),
        "notes": number_lines([redactor.redact(each) for each in _list_notes(report)]),
    }
    kept = {name: part for name, part in parts.items() if part}
    return Report(kind="paste", facts=report.facts, parts=kept)


def list_readings(report: Report) -> list[str]:
    """A JSON object for each launch that is read of the paste by now, or why it is refused."""
    try:
        return [
            json.dumps(_say_all(command), ensure_ascii=False)
            for command in paste.read(_text(report))
        ]
    except PasteError as error:
        return [f"refused: {error}"]


def find_refusal(report: Report) -> PasteError | None:
    """The error of a paste that is not read at all; None: it is."""
    try:
        paste.read(_text(report))
    except PasteError as error:
        return error
    return None


def _text(report: Report) -> str:
    return "\n".join(report.texts("paste")) + "\n"


def _find_keys(text: str) -> list[str]:
    """Values of --api-key and flags like it; vLLM takes several."""
    try:
        commands = paste.read(text)
    except PasteError:
        return []
    return [word for command in commands for word in secret_words(tuple(command.command))]


def _say_all(command: LaunchCommand) -> dict[str, object]:
    """Without what the paste does not say."""
    return {
        name: value
        for name, value in command.to_json().items()
        if value is not None and value is not False and value not in ([], {})
    }


def _list_notes(report: Report) -> Iterator[str]:
    """What the form would tell of each launch."""
    try:
        commands = paste.read(_text(report))
    except PasteError:
        return
    said = report.facts.get("engine", "")
    engine = cast(EngineKey, said) if said in ENGINES else None
    for number, command in enumerate(commands, start=1):
        before = f"launch {number}: " if len(commands) > 1 else ""
        try:
            made = draft(command, text=_text(report), engine=engine)
        except DraftError as error:
            yield f"{before}refused: {error}"
            continue
        yield from (f"{before}{each.kind}: {each.says}" for each in made.remarks)
