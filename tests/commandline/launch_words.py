"""Words of a launch as they were typed, read without the importer's own code.

Small on purpose: it knows the options of docker and a service of compose.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

_SWITCHES = {
    "detach", "rm", "interactive", "tty", "privileged", "init", "publish-all", "read-only",
    "oom-kill-disable", "no-healthcheck", "replace", "quiet", "use-api-socket",
}  # fmt: skip
SHORT = {
    "d": "detach", "i": "interactive", "t": "tty", "e": "env", "v": "volume", "p": "publish",
    "h": "hostname", "l": "label", "m": "memory", "u": "user", "w": "workdir", "a": "attach",
    "c": "cpu-shares", "P": "publish-all", "q": "quiet",
}  # fmt: skip
_ANSI = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
# What compose calls otherwise than docker's options.
COMPOSE = {
    "network_mode": "network", "container_name": "name", "mem_limit": "memory",
    "extra_hosts": "add-host", "working_dir": "workdir", "devices": "device",
    "healthcheck": "health-cmd", "cpuset": "cpuset-cpus", "env_file": "env-file", "pid": "pid",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LaunchWords:
    """A launch as it was typed, before it is looked at."""

    options: list[tuple[str, str]]  # of the container; the names are docker's long ones
    words: list[str]  # entrypoint and command, or all of a command without a container
    image: str = ""


def split_words(text: str) -> list[str]:
    """As a shell does; raises ValueError for what is never closed."""
    text = _ANSI.sub(lambda m: shlex.quote(m[1].encode().decode("unicode_escape")), text)
    lexer = shlex.shlex(text, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = ""
    return list(lexer)


def read_docker(words: Sequence[str]) -> LaunchWords:
    """Of `docker run …`; raises ValueError where nothing follows the options."""
    at = list(words).index("run") + 1
    options: list[tuple[str, str]] = []
    while at < len(words) and words[at].startswith("-"):
        word, at = words[at], at + 1
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if not equals and name not in _SWITCHES:
                value, at = words[at], at + 1
            options.append((name, value))
            continue
        letters = word[1:]
        while letters:
            name, letters = SHORT.get(letters[0], letters[0]), letters[1:]
            if name in _SWITCHES:
                options.append((name, ""))
                continue
            value, letters = letters.removeprefix("="), ""
            if not value:
                value, at = words[at], at + 1
            options.append((name, value))
    if at >= len(words):
        raise ValueError("no image")
    first = [value for name, value in options if name == "entrypoint" and value]
    rest = [each for each in options if each[0] != "entrypoint"]
    return LaunchWords(options=rest, words=[*first[-1:], *words[at + 1 :]], image=words[at])


def read_compose(text: str) -> list[LaunchWords]:
    """Of every service of a file; raises ValueError where it is none."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
    if not isinstance(document, dict):
        raise ValueError("no services")
    services = document.get("services")
    if not isinstance(services, dict):
        is_one = isinstance(document.get("image"), str)
        services = {"": document} if is_one else document
        document = {}
    return [_service(each, document) for each in services.values()]


def _service(service: dict[str, Any], document: dict[str, Any]) -> LaunchWords:
    options: list[tuple[str, str]] = []
    words = [*_argv(service.get("entrypoint")), *_argv(service.get("command"))]
    for key, value in service.items():
        name = COMPOSE.get(key, key.replace("_", "-"))
        if key in ("image", "entrypoint", "command") or key.startswith("x-") or value is None:
            continue
        if key == "environment":
            options += [("env", each) for each in _pairs(value)]
        elif key == "volumes":
            options += [("volume", _volume(each, document)) for each in value]
        elif key == "ports":
            options += [("publish", _plain(_port(each))) for each in value]
        elif key == "networks":
            options += [("network", _network(each, document)) for each in value]
        elif key == "ulimits":
            options += [("ulimit", f"{n}={_limit(each)}") for n, each in value.items()]
        elif key == "deploy":
            options += _deployed(value)
        elif key == "gpus":
            options += [("gpus", _request(value[0]) if isinstance(value, list) else str(value))]
        elif key in ("depends_on", "healthcheck", "logging", "build", "extends", "labels", "tmpfs"):
            options.append((name if key != "depends_on" else key, "…"))
        elif isinstance(value, bool):
            options += [(name, "")] if value else []
        elif isinstance(value, list):
            options += [(name, _plain(str(v))) for v in value]
        else:
            options.append((name, _plain(str(value))))
    return LaunchWords(options=options, words=words, image=_plain(str(service.get("image", ""))))


def _argv(said: Any) -> list[str]:
    if said is None:
        return []
    if isinstance(said, list):
        return [_plain(_text(each)) for each in said]
    if re.search(r"(?:^|\s)#\s", str(said)):
        raise ValueError("a comment inside a text")
    return [_plain(each) for each in shlex.split(re.sub(r"\\\s*\n", " ", str(said)))]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plain(text: str) -> str:
    return text.replace("$$", "$")


def _pairs(said: Any) -> list[str]:
    if isinstance(said, list):
        return [_plain(str(each)) for each in said]
    return [n if v is None else f"{n}={_plain(_text(v))}" for n, v in said.items()]


def _volume(said: Any, document: Mapping[str, Any]) -> str:
    if isinstance(said, dict):
        mode = ":ro" if said.get("read_only") else ""
        said = f"{said.get('source', '')}:{said.get('target')}{mode}"
    source, colon, rest = _plain(str(said)).partition(":")
    return _real_name(source, "volumes", document) + colon + rest


def _network(name: str, document: Mapping[str, Any]) -> str:
    return _real_name(name, "networks", document)


def _real_name(name: str, kind: str, document: Mapping[str, Any]) -> str:
    """What docker calls it: a project's name stands before it where nothing says otherwise."""
    named = document.get(kind) or {}
    if name not in named:
        return name
    more = named[name] or {}
    external = more.get("external")
    if isinstance(external, dict):
        return str(external.get("name", name))
    if "name" in more or external:
        return str(more.get("name", name))
    project = document.get("name")
    return f"{project}_{name}" if project else f"PROJECT_{name}"


def _port(said: Any) -> str:
    if isinstance(said, dict):
        host = f"{said['host_ip']}:" if "host_ip" in said else ""
        kind = f"/{said['protocol']}" if said.get("protocol", "tcp") != "tcp" else ""
        return f"{host}{said.get('published', '')}:{said['target']}{kind}"
    return str(said)


def _limit(said: Any) -> str:
    return f"{said.get('soft')}:{said.get('hard')}" if isinstance(said, dict) else str(said)


def _deployed(said: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in said.items():
        if key != "resources":
            yield f"deploy.{key}", "…"
            continue
        for kind, each in value.items():
            devices = each.get("devices") or [] if isinstance(each, dict) else []
            if kind == "reservations" and devices:
                yield "gpus", _request(devices[0])
            if kind != "reservations" or set(each) - {"devices"}:
                yield f"deploy.resources.{kind}", "…"


def _request(device: Mapping[str, Any]) -> str:
    if device.get("device_ids"):
        ids = [str(each).removeprefix("nvidia.com/gpu=") for each in device["device_ids"]]
        return "device=" + ",".join(ids)
    return str(device.get("count", "all"))
