"""Names, hosts and addresses of a report: ordinary and public ones stay as they are, others get stand-ins."""

import ipaddress
import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from servers.launch.engines import SERVING
from servers.launch.engines.flaglist import all_shipped
from servers.launch.tables import read_table

_FILE = Path(__file__).parent / "words.yaml"
_SHORTEST = 3


@cache
def _load_file() -> dict[str, frozenset[str]]:
    said = read_table(_FILE)
    return {key: frozenset(words.split()) for key, words in said.items()}


def load_words(key: str) -> frozenset[str]:
    """The words under a key of words.yaml."""
    return _load_file()[key]


@cache
def _load_ordinary() -> frozenset[str]:
    """With those that flags are made of."""
    names = (name for engine in SERVING for each in all_shipped(engine) for name in each.names)
    parts = {part.lower() for name in names for part in re.split(r"[-_.]", name)}
    return frozenset(part for part in parts if len(part) >= _SHORTEST) | load_words("ordinary")


def is_ordinary(name: str) -> bool:
    """Whether hiding the word wherever it stands would hide what has to do with nobody."""
    return len(name) < _SHORTEST or name.lower() in _load_ordinary()


class StandIns:
    def __init__(self) -> None:
        self._given: dict[tuple[str, str], str] = {}
        self._counts = Counter[str]()

    def get(self, kind: str, name: str) -> str:
        """ "user1": the same for the same name, whenever it is wanted."""
        return f"{kind}{self.number(kind, name)}"

    def number(self, kind: str, name: str) -> int:
        """From 1; the same for the same name."""
        if (kind, name) not in self._given:
            self._counts[kind] += 1
            self._given[kind, name] = str(self._counts[kind])
        return int(self._given[kind, name])


_FOLDERS = load_words("accounts") | load_words("model_folders")
_TAG = re.compile(r"(?<=[^/\\]):[\w.-]{1,64}\Z")  # acme/name:Q4_K_M of llama.cpp and Ollama
_MODEL_FILE = re.compile(r"(?i)(?:-\d{5}-of-\d{5})?\.(?:gguf|safetensors|bin)\Z")
_FORMAT = (
    r"(?:gguf|awq|gptq|exl[23]|nvfp4|mxfp[48]|fp(?:4|8|16|32)|bf16|f(?:16|32)|int[48]|[1-8]bit|"
    r"(?:ud-)?i?q\d(?:_[0-9a-z]{1,4}){0,3})"
)
_FORMATS = re.compile(rf"(?i)(?:[-_.]{_FORMAT})+\Z")
_FORMAT_ALONE = re.compile(rf"(?i){_FORMAT}\Z|[0-9a-f]{{40,64}}\Z")
# The folder of the Hub's cache.
_CACHED = re.compile(r"models--(.+?)--(.+)\Z")


@dataclass(frozen=True, kw_only=True)
class ModelWords:
    """Words to hide. "": there is none."""

    names: tuple[str, ...] = ()  # wherever they stand
    ordinary: str = ""  # only where a model is named
    owner: str = ""  # on the Hub


def read_model(name: str) -> ModelWords:
    """Of a name on the Hub, a path, or a served name. What only tells of the format is not hidden."""
    parts = [each for each in re.split(r"[/\\]+", _TAG.sub("", name)) if each]
    if cached := next(filter(None, map(_CACHED.match, parts)), None):
        parts = [cached[1], cached[2]]
    is_path = not cached and (len(parts) > 2 or bool(re.match(r"[./~\\]|[A-Za-z]:\\", name)))
    words = [_FORMATS.sub("", _MODEL_FILE.sub("", part)) for part in reversed(parts)]
    names = [word for word in (words if is_path else words[:1]) if _tells(word)][:1]
    # The folder of a file is called as its model, or as who made it.
    if names == words[:1] and len(words) > 1 and is_path and _MODEL_FILE.search(parts[-1]):
        names += [words[1]] if _tells(words[1]) else []
    owner = words[1] if len(words) == 2 and not is_path else ""
    is_word = not names and words[:1] and is_ordinary(words[0]) and words[0] not in _FOLDERS
    return ModelWords(
        names=tuple(names),
        ordinary=words[0] if is_word else "",
        owner=owner if owner.lower() not in _FOLDERS else "",
    )


def _tells(word: str) -> bool:
    return not (
        len(word) < _SHORTEST
        or word.lower() in _FOLDERS
        or is_ordinary(word)
        or _FORMAT_ALONE.match(word)
    )


# Where everybody gets images, models and packages, or reads: these tell of nobody.
_PUBLIC = load_words("public_hosts")
# One label: services of a compose file, and words that no box is known by.
_GENERIC = load_words("no_hosts")
_FILES = load_words("file_endings")
_MODULES = load_words("modules")
_TOP = (
    r"(?:com|org|net|edu|gov|mil|local|lan|internal|intra|intranet|corp|home|localdomain|arpa|cloud|dev|"
    r"ts\.net|de|fr|uk|ch|nl|eu|jp|cn|kr|tw|ca|au|br|ru|pl|cz|dk|fi|se|ai|io|tech|biz|(?<=fritz\.)box)"
)
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?"
_URL = re.compile(
    rf"(?P<scheme>\b[A-Za-z][A-Za-z0-9+.-]{{0,20}}://|(?i:\b(?:https?|all|ftp)_proxy=)(?!\w{{1,10}}://))(?P<user>[^\s/@\"'<>]{{1,300}}@)?(?P<host>{_LABEL}(?:\.{_LABEL}){{0,8}})(?P<port>:\d{{1,5}})?"
)
_REGISTRY = re.compile(
    rf"(?<![\w./@:$\\-])(?P<host>(?:{_LABEL}\.){{1,8}}[A-Za-z]{{2,24}})(?P<port>:\d{{2,5}})?(?=/[\w$])"
)
_DOTTED = re.compile(
    rf"(?<![\w./@$\\-])(?P<host>(?:{_LABEL}\.){{1,8}}{_TOP})(?![\w(-]|\.\w|/?\w*\()"
)
_NAMED = re.compile(
    r"(?P<before>(?<![\w-])(?:host|hostname|host_?name|node_?name|fqdn|master_?addr|head_?node|server_?name|ray_?address)"
    r"(?:[\"']?[ \t]{0,8}=[ \t]{0,3}[\"']?|[\"'][ \t]{0,3}:[ \t]{0,3}[\"']?|[ \t]{2,12}: |:[ \t]{0,3}[\"'](?=\w)"
    r"|:[ \t]{0,3}(?=[\w.-]{0,60}[\d.-]))"
    r"|--(?:hostname|host|master-addr|dist-init-addr|head-node|data-parallel-address|rpc|add-host|nnodes-host|address)"
    r"[ =][\"']?)(?!\w{1,10}://)(?P<host>[A-Za-z0-9][\w.-]{0,252})",
    re.IGNORECASE,
)
# "Nov 21 10:00:00 spark-1 docker[812]: ", also with a stamp of RFC 3339.
_JOURNAL = re.compile(
    r"(?m)^(?P<before>(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT[\d:.]{8,20}(?:Z|[+-]\d\d:?\d\d)) )"
    r"(?P<host>[A-Za-z0-9][\w.-]{0,252})(?= [\w.@/-]{1,64}(?:\[\d{1,9}\])?: )"
)
_NCCL = re.compile(
    r"(?P<before>(?<![\w.:-]))(?P<host>[A-Za-z][\w.-]{0,252})(?=:\d{1,9}:\d{1,9} \[\d{1,3}\] (?:[\w./-]{1,80}:\d{1,6} )?NCCL )"
)
# torch: "connect to [spark-1]:29500", "addresses of (spark-1, 29500)"
_SOCKET = re.compile(
    r"(?P<before>\b(?:connect(?:ed|ing)? to|address(?:es)? (?:of|for)|listen(?:ing)? on|b(?:in|oun)d(?:ing)? to) [\[(][\"']?)"
    r"(?P<host>[A-Za-z][\w.-]{0,252})(?=[\"']?(?:\]:|, ?)\d{1,5})"
)
_EXTRA_HOSTS = re.compile(
    r"(?m)^([ \t]{0,40})extra_hosts:[ \t]{0,4}(?:\n\1(?:[ \t]{1,20}|- ?)[^\n]{1,300}){1,40}"
)
_EXTRA_HOST = re.compile(
    r"(?m)^[ \t]{0,60}(?:- {0,4})?[\"']?(?P<host>[A-Za-z][\w.-]{0,252})[\"']?[:=] {0,4}[\"']?(?=[\[\da-f])"
)
_LOGIN = re.compile(
    rf"(?m)\b(?:docker|podman|nerdctl|helm) login\b[^\n]{{0,300}}?[ \t](?P<host>(?:{_LABEL}\.){{1,8}}{_LABEL})(?::\d{{1,5}})?[ \t]*$"
)
_SERVICE = re.compile(
    r"(?m)^(?: {1,8}(?=[\w.-]{1,63}:[ \t]*$)|[ \t]{1,12}container_name:[ \t]{1,4}[\"']?|[^\n]{0,2000}? --name[ =])([A-Za-z0-9][\w.-]{0,62})"
)
_OF_ADDRESS = re.compile(r"(?<![\w-])ip-(?:\d{1,3}-){3}\d{1,3}(?![\w-])")
_V4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w+]|\.\d|-\d{1,3}[+~])")
_OF_VERSION = re.compile(r"(?:[=~<>!]=|(?i:version|release|cudnn|v)[ :=]{0,2})$")
_V6 = re.compile(r"(?<![\w:.])[0-9A-Fa-f:]{3,39}(?:%\w{1,20})?(?![\w:]|\.\d)")
_MAC = re.compile(r"(?<![\w:-])(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}(?![\w:-])")
_DEVICE = re.compile(
    r"\b(GPU|MIG)-([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?!\w)"
)
_STAND_IN = re.compile(r"(?:host|someone|user)\d+\Z")
_RANGES_V6 = (
    (ipaddress.ip_network("fc00::/7"), "fd00::"),
    (ipaddress.ip_network("fe80::/10"), "fe80::"),
)
_DOCUMENTED = tuple(
    map(ipaddress.ip_network, ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"))
)
_DOCUMENTED_V6 = ipaddress.ip_network("2001:db8::/32")
_SHARED = ipaddress.ip_network("100.64.0.0/10")


class AddressRedactor:
    """`hosts` are names by which the boxes of this installation are known."""

    def __init__(self, stand_ins: StandIns, hosts: Collection[str]) -> None:
        self._stand_ins = stand_ins
        self._services: set[str] = set()
        self._hosts = {name.lower() for name in hosts if self._is_private(name)}
        self._pattern: re.Pattern[str] | None = None

    def learn(self, text: str) -> None:
        """Take up the names of hosts that the text shows in a place where only such stand."""
        for pattern in (_JOURNAL, _NCCL, _LOGIN):
            found = (each["host"] for each in pattern.finditer(text))
            self._hosts |= {name.lower() for name in found if self._is_private(name)}
        for block in _EXTRA_HOSTS.finditer(text):
            found = (each["host"] for each in _EXTRA_HOST.finditer(block[0]))
            self._hosts |= {name.lower() for name in found if self._is_private(name)}
        # A service of a compose file, or a container, is not the name of a machine.
        self._services |= {each[1].lower() for each in _SERVICE.finditer(text)} - self._hosts
        self._pattern = None

    def is_known(self, host: str) -> bool:
        return host.lower() in self._hosts

    def name_host(self, host: str) -> str:
        """Its stand-in; what is public or an address stays."""
        return self._stand_ins.get("host", host.lower()) if self._is_private(host) else host

    def redact_urls(self, text: str) -> str:
        return _URL.sub(self._replace_url, text)

    def redact(self, text: str) -> str:
        for pattern in (_JOURNAL, _NCCL, _SOCKET, _NAMED):
            text = pattern.sub(
                lambda found: found["before"] + self._name_called(found["host"]), text
            )
        text = _REGISTRY.sub(self._replace_dotted, text)
        text = _DOTTED.sub(self._replace_dotted, text)
        text = _OF_ADDRESS.sub(lambda found: self._stand_ins.get("host", found[0]), text)
        text = self._compile_hosts().sub(
            lambda found: self._stand_ins.get("host", found[0].lower()), text
        )
        text = _MAC.sub(self._replace_mac, text)
        text = _DEVICE.sub(self._replace_device, text)
        return _V6.sub(self._replace_v6, _V4.sub(self._replace_v4, text))

    def _compile_hosts(self) -> re.Pattern[str]:
        """Whole words, but those that are ordinary ones: they are hidden where they stand as hosts."""
        if self._pattern is None:
            names = sorted((each for each in self._hosts if not is_ordinary(each)), key=len)
            words = "|".join(re.escape(name) for name in reversed(names))
            self._pattern = re.compile(
                rf"(?i)(?<![A-Za-z0-9])(?:{words})(?![A-Za-z0-9])" if words else r"(?!)"
            )
        return self._pattern

    def _is_private(self, host: str) -> bool:
        name = host.lower().strip(".")
        if (
            not name
            or name in _GENERIC
            or name in self._services
            or _STAND_IN.match(name)
            or name.replace(".", "").isdigit()
        ):
            return False
        return not any(name == each or name.endswith(f".{each}") for each in _PUBLIC)

    def _name_called(self, host: str) -> str:
        # host=torch.distributed, "host: failed": what is followed by no name of a machine.
        return host if is_ordinary(host) and not self.is_known(host) else self.name_host(host)

    def _replace_url(self, found: re.Match[str]) -> str:
        user = found["user"] or ""
        if user and not user.startswith("git@"):
            name, colon, _password = user[:-1].partition(":")
            if name and not _STAND_IN.match(name):
                name = self._stand_ins.get("user", name)
            user = f"{name}{colon and ':••••••••'}@"
        return f"{found['scheme']}{user}{self.name_host(found['host'])}{found['port'] or ''}"

    def _replace_dotted(self, found: re.Match[str]) -> str:
        host = found["host"]
        labels = host.lower().split(".")
        if labels[-1] in _FILES or labels[0] in _MODULES:
            return found[0]
        return self.name_host(host) + (found.groupdict().get("port") or "")

    def _replace_mac(self, found: re.Match[str]) -> str:
        if found[0].lower().startswith("02:00:00:00:00:"):
            return found[0]
        return f"02:00:00:00:00:{self._stand_ins.number('mac', found[0].lower()) % 256:02x}"

    def _replace_device(self, found: re.Match[str]) -> str:
        if found[2].startswith("00000000-0000-0000-0000-"):
            return found[0]
        number = self._stand_ins.number("device", found[2])
        return f"{found[1]}-00000000-0000-0000-0000-{number:012d}"

    def _replace_v4(self, found: re.Match[str]) -> str:
        text = found[0]
        try:
            address = ipaddress.IPv4Address(text)
        except ValueError:
            return text
        if _OF_VERSION.search(found.string[max(0, found.start() - 12) : found.start()]):
            return text
        is_kept = address.is_loopback or address.is_unspecified or address.is_multicast
        if is_kept or text == "255.255.255.255" or any(address in each for each in _DOCUMENTED):
            return text
        before = self._keep_range(address)
        number = self._stand_ins.number(f"address {before}", text)
        if before == "203.0.113":
            return f"{before}.{number % 256}"
        return f"{before}.{number // 250}.{number % 250}"

    def _keep_range(self, address: ipaddress.IPv4Address) -> str:
        """The beginning by which one sees that it is a private one, and of which kind."""
        first, second, *_rest = str(address).split(".")
        if address in _SHARED:
            return "100.64"
        if address.is_link_local or first == "192" and second == "168":
            return f"{first}.{second}"
        if address.is_private:
            return "10.0" if first == "10" else f"{first}.{second}"
        return "203.0.113"

    def _replace_v6(self, found: re.Match[str]) -> str:
        text, percent, zone = found[0].partition("%")
        try:
            address = ipaddress.IPv6Address(text)
        except ValueError:
            return found[0]
        is_kept = address.is_loopback or address.is_unspecified or address.is_multicast
        if is_kept or address in _DOCUMENTED_V6 or not any(each.isdigit() for each in text):
            return found[0]
        before = next((kept for net, kept in _RANGES_V6 if address in net), "2001:db8::")
        return f"{before}{self._stand_ins.number(f'address {before}', text):x}{percent}{zone}"
