"""Imports of pastes, as the form makes them, beside what they export."""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace

from servers.launch.commandline import export
from servers.launch.commandline.draft import Draft, DraftError, draft
from servers.launch.commandline.inspect import without_keys
from servers.launch.commandline.paste import read
from servers.launch.commandline.tokens import EngineKey, LaunchCommand
from servers.launch.engines import ENGINES
from servers.launch.engines.launch import Launch
from tests.commandline import facts, launch_words
from tests.commandline.facts import FactDifference, Facts
from tests.commandline.launch_words import LaunchWords

NATIVE = "native line"
_OF_ENGINE = ("flag", "env", "model", "name", "rest")  # what such a line says at all
_TOOL = re.compile(r"(?:docker|podman|nerdctl)$")
# What only a shell could say, or what stands around commands in guides.
_UNCLEAR = re.compile(
    r"\$\(|`|<|=\(|^\s*(?:for|if|while|function|\w+\(\))\b|[“”’–—‑]|\u00a0|\{\{|:\?|^\s*[({>+!]"
    r"|\w\\\w|\$\{\w+(?:\[|##|%|,)|set -|docker exec|\s#|\^\s*$|\\[ ]+-|ray start|curl |[a-z][A-Z]\w+: ",
    re.M,
)


@dataclass(frozen=True, kw_only=True)
class ImportedLaunch:
    """One launch of a paste that became a draft; `refused` is why it did not."""

    command: LaunchCommand
    theirs: Facts
    draft: Draft | None = None
    refused: str = ""

    @property
    def notes(self) -> list[str]:
        return [each.says for each in self.draft.remarks] if self.draft else []

    def list_silent(self) -> dict[str, list[FactDifference]]:
        """By export, the differences that no note names."""
        if self.draft is None:
            return {}
        return {
            form: [
                each
                for each in facts.compare(self.theirs, self._settle(ours))
                if not facts.is_told(each, self.notes)
                and (form != NATIVE or each.fact.partition(" ")[0] in _OF_ENGINE)
            ]
            for form, ours in _export(self.draft)
        }

    def list_programs(self) -> dict[str, list[str]]:
        """By export, the words from the entrypoint to the model."""
        assert self.draft is not None
        found = {}
        for form, said in _export_words(self.draft):
            if form == NATIVE:
                continue  # no image says anything before it
            found[form] = said.words[: said.words.index(self.draft.launch.checkpoint)]
        return found

    def _settle(self, ours: Facts) -> Facts:
        """Secrets travel by name alone."""
        assert self.draft is not None
        settled = dict(ours)
        for key in [each for each in ours if each.startswith("env ")]:
            name = key.removeprefix("env ")
            told = self.theirs.get(key, "")
            is_own = re.fullmatch(rf"\$\{{?{name}(?::?[-?][^}}]*)?\}}?|\(given\)", told)
            if name in self.draft.secrets or (is_own and ours[key] in ("(given)", "")):
                settled[key] = told
        return settled


def import_paste(text: str, engine: EngineKey | None = None) -> list[ImportedLaunch]:
    """Every launch of a paste. Raises PasteError."""
    commands = read(text)
    theirs = _read_words(text)
    if len(theirs) != len(commands):
        theirs = [_words_of(each) for each in commands]
    found = []
    for command, words in zip(commands, theirs, strict=True):
        said = facts.read_facts(words, engine or "")
        try:
            made = without_keys(draft(command, text=text, engine=engine))
        except DraftError as error:
            found.append(ImportedLaunch(command=command, theirs=said, refused=str(error)))
        else:
            found.append(ImportedLaunch(command=command, theirs=said, draft=made))
    return found


def _export(made: Draft) -> Iterator[tuple[str, Facts]]:
    for form, said in _export_words(made):
        yield form, facts.read_facts(said)


def _export_words(made: Draft) -> Iterator[tuple[str, LaunchWords]]:
    launch = replace(made.launch, secret_env=dict.fromkeys(made.secrets, 1))
    said = export.docker_run(launch)
    lines = [each for each in said.split("\n") if not each.startswith("#")]
    words = launch_words.split_words("\n".join(lines).replace("\\\n", " "))
    yield "docker run", launch_words.read_docker(words)
    [service] = launch_words.read_compose(export.compose(launch))
    yield "compose file", service
    if launch.serves_models and not launch.entrypoint:
        yield NATIVE, _write_native(launch)


def _write_native(launch: Launch) -> LaunchWords:
    """The engine's own line, as it would be typed without a container."""
    engine = ENGINES[launch.engine]
    words = (*engine.program, *engine.command(launch, engine.program))
    line = export.engine_line(replace(export.command_of(launch), command=words))
    said = launch_words.split_words(line.replace("\\\n", " "))
    own = next(n for n, word in enumerate(said) if not re.match(r"[A-Za-z_]\w*=", word))
    return LaunchWords(options=[("env", each) for each in said[:own]], words=said[own:])


def _read_words(text: str) -> list[LaunchWords]:
    """The launches of a text that is plainly a script or a compose file; else nothing."""
    if re.search(r"^services:|^\s*image: ", text, re.M):
        if re.search(r"[“”’]", text):
            return []
        known = textwrap.dedent(re.sub(r"\$\{(\w+):?-([^{}]*)\}", r"\2", text))
        try:
            return list(launch_words.read_compose(known))
        except (ValueError, TypeError, AttributeError, KeyError, IndexError):
            return []
    text = re.sub(r"(?m)^[ \t]*#.*\n", "", re.sub(r"\\[ \t]+#.*", r"\\", text))
    text = re.sub(r"(?m)(?<=\s)#\s.*$", "", text).replace("$(pwd)", "$PWD")
    text = re.sub(r"(?m)^(?:\S+@\S+[$#]|\$) (?=\S)", "", text)
    if _UNCLEAR.search(text):
        return []
    try:
        return list(_read_script(text))
    except (ValueError, IndexError):
        return []


def _read_script(text: str) -> Iterator[LaunchWords]:
    values: dict[str, str] = {}
    exported: dict[str, str] = {}
    for line in re.sub(r"\\[ \t]*\n", " ", text).split("\n"):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if line.lstrip().startswith("-"):
            raise ValueError("a line end that was lost")
        words = [_fill(word, values) for word in launch_words.split_words(line)]
        words = [word.replace("$PWD", "$(pwd)") for word in words]
        while words and words[0] in ("$", "sudo", "exec", "nohup"):
            words = words[1:]
        if words[:1] == ["export"]:
            for word in words[1:]:
                name, equals, value = word.partition("=")
                if equals:
                    values[name] = exported[name] = value
            continue
        own: dict[str, str] = {}
        while words and re.match(r"[A-Za-z_]\w*=", words[0]):
            name, _equals, value = words[0].partition("=")
            own[name] = value
            words = words[1:]
        if not words:
            values |= own
            continue
        if _TOOL.match(words[0]) and "run" in words[1:3]:
            yield launch_words.read_docker(_cut_log(words))
        elif re.search(r"vllm|sglang|llama-server", " ".join(words[:6])) and (
            "serve" in words[:8] or "-m" in words[:6] or "llama-server" in words[0]
        ):
            cut = next((n for n, w in enumerate(words) if re.match(r"[>&|;]|2>", w)), None)
            if any(re.search(r"[>&|;]", w) for w in words[cut:] if w != words[-1]) and cut is None:
                raise ValueError("an operator inside")
            env = [("env", f"{n}={v}") for n, v in (exported | own).items()]
            yield LaunchWords(options=env, words=words[:cut])


def _cut_log(words: list[str]) -> list[str]:
    """Without the file or program at the end that a shell sends the output to."""
    starts = [n for n, word in enumerate(words) if re.fullmatch(r"(?:[12&]?>>?|2>&1|\|)", word)]
    return words[: starts[0]] if starts else words


def _fill(word: str, values: dict[str, str]) -> str:
    """Raises ValueError for a value that a shell would cut into words."""
    if "$" in word and any(re.search(r"\s", v) for n, v in values.items() if n in word):
        raise ValueError("several words")
    word = re.sub(r"\$\{(\w+):?-([^{}]*)\}", lambda m: values.get(m[1], "") or m[2], word)
    return re.sub(r"\$\{(\w+)\}|\$(\w+)", lambda m: values.get(m[1] or m[2], m[0]), word)


def _words_of(command: LaunchCommand) -> LaunchWords:
    """What the importer itself has read, where the text is no plain one."""
    entrypoint = command.entrypoint or ()
    first = (entrypoint,) if isinstance(entrypoint, str) else entrypoint
    options = [
        *(("env", name if v is None else f"{name}={v}") for name, v in command.env.items()),
        *(("volume", each) for each in command.volumes),
        *(("publish", each) for each in command.ports),
        *(("env-file", each) for each in command.env_file),
        *(("ulimit", f"{name}={each}") for name, each in command.ulimits.items()),
        *(("cap-add", each) for each in command.cap_add),
        *(("device", each) for each in command.devices),
        *(("security-opt", each) for each in command.security_opt),
    ]
    for name, value in (
        ("ipc", command.ipc), ("shm-size", command.shm_size), ("runtime", command.runtime),
        ("network", command.network), ("restart", command.restart), ("user", command.user),
        ("cpuset-cpus", command.cpuset), ("workdir", command.workdir),
        ("privileged", "" if command.privileged else None),
        ("init", "" if command.init else None),
    ):  # fmt: skip
        options += [(name, value)] if value is not None else []
    if isinstance(command.gpus, tuple):
        options.append(("gpus", "device=" + ",".join(command.gpus)))
    elif command.gpus is not None:
        options.append(("gpus", str(command.gpus)))
    for each in command.ignored:
        name, _blank, value = each.partition(" ")
        name, equals, after = name.partition("=")
        long = re.match(r"--([a-z][\w-]*)$", name)
        if long and not re.match(r"-[dit]+$", name):
            options.append((long[1], after if equals else value.strip("'")))
    return LaunchWords(options=options, words=[*first, *command.command], image=command.image or "")
