"""Redaction of reports: secrets known by the name beside them, and what is private, replaced by its like.

The same name always becomes the same stand-in, so that one still sees which two are one. What is
redacted twice stays as it was after the first time.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from servers.judge.logs import parsing
from servers.judge.reports import addresses
from servers.judge.reports.addresses import StandIns, is_ordinary, load_words, read_model
from servers.launch.redaction import MASK, mask_tokens

_WORD = (
    r"(?:api[_-]?keys?|access[_-]?key(?:[_-]id)?|secret[_-]?key|private[_-]?key|auth[_-]?key|"
    r"encryption[_-]?key|secrets?|passw(?:or)?d|passphrase|credentials?|token|cookie|signature|"
    r"(?-i:(?<=_)(?:KEY|PASS)|[a-z][A-Za-z0-9]{0,30}(?:Token|Secret|Password|ApiKey|AccessKey|SecretKey|PrivateKey)))"
)
_NAME = rf"(?<![A-Za-z0-9$])(?<!\$\{{)(?:[A-Za-z0-9]{{1,40}}[_.-]){{0,6}}{_WORD}(?![\w-])"
_QUOTE = r"\\{0,2}[\"']"
# In quotes all up to the same quote, or up to the end of a line that was cut; and else a word.
_QUOTED = (
    rf"(?P<quote>{_QUOTE})(?!(?P=quote))(?P<quoted>[^\n]{{1,2000}}?)(?=(?<!\\)(?P=quote)|\n|\Z)"
)
_VALUE = rf"(?:{_QUOTED}|(?P<value>[^\s\"'`,;&)}}\]|\\]{{3,2000}}))"
# NAME=value of an environment, where a comma is part of it.
_VARIABLE = re.compile(
    r"(?P<name>(?<![A-Za-z0-9])(?:[A-Z0-9]{1,40}_){0,6}(?:API_?KEYS?|ACCESS_?KEY(?:_ID)?|SECRET_?KEY|"
    r"PRIVATE_?KEY|SECRETS?|PASSW(?:OR)?D|PASSPHRASE|CREDENTIALS?|TOKEN|(?<=_)KEY|(?<=_)PASS))(?P<between>=)"
    r"(?P<value>[^\s\"'`]{1,2000})"
)
# ${NAME:-value} of a shell and of Compose
_DEFAULT = re.compile(
    r"(?P<name>(?<=\$\{)(?:[A-Z0-9]{1,40}_){0,6}(?:API_?KEYS?|KEY|SECRETS?|PASS(?:W(?:OR)?D)?|PASSPHRASE|CREDENTIALS?|TOKEN))"
    r"(?P<between>:?[-+=])(?P<value>[^}\n]{1,2000})(?=\}|\n|\Z)",
    re.IGNORECASE,
)
# name: "value", {'name': 'value'}, name = value
_ASSIGNED = re.compile(
    rf"(?P<name>{_NAME})(?P<between>(?:{_QUOTE})?[ \t]{{0,3}}(?P<sign>=|:(?![-+=?]))[ \t]{{0,3}}\[?){_VALUE}",
    re.IGNORECASE,
)
# --name value, --name=value, ['--name', 'value'], on two lines, and as two entries of a list in YAML
_FLAG = re.compile(
    rf"(?P<name>(?<![\w-])--?(?:[a-z0-9]{{1,40}}-){{0,4}}(?:{_WORD})|-hft)"
    rf"(?P<between>[ \t]{{1,4}}|=|(?:{_QUOTE}),\s{{0,40}}|[ \t=]{{0,4}}\\?\n[ \t]{{1,40}}(?!-[ \t])|[\"']?[ \t]{{0,4}}\n[ \t]{{0,40}}-[ \t]{{1,4}}){_VALUE}",
    re.IGNORECASE,
)
# ['--api-key', 'one', 'two']: what follows the first one.
_MORE_KEYS = re.compile(
    r"(?<=-api-key)([\"'],\s{0,40}[\"'][^\"'\n]{0,2000}[\"'])((?:,\s{0,40}[\"'](?!-)[^\"'\n]{1,2000}[\"']){1,20})"
)
_IN_QUOTES = re.compile(r"(?<=[\"'])[^\"'\s,][^\"'\n]*(?=[\"'])")
# As Kubernetes writes an environment, in YAML and in JSON.
_ENTRY = re.compile(
    rf"(?P<between>\b(?:name|key)[\"']?:[ \t]{{0,4}}[\"']?(?P<name>{_NAME})[\"']?[ \t]{{0,4}}"
    rf"(?:,\s{{0,60}}|\n[ \t]{{0,60}})[\"']?value[\"']?:[ \t]{{0,4}}){_VALUE}",
    re.IGNORECASE,
)
# A header as Python shows it: (b'x-api-key', b'value')
_HEADER = re.compile(
    rf"(?P<between>\(b?[\"'](?P<name>{_NAME})[\"'],[ ]{{0,3}}b?){_QUOTED}", re.IGNORECASE
)
_LOGIN_IN_ADDRESS = re.compile(
    r"(\b(?:docker|podman|nerdctl|helm) login\b[^\n]{0,300}?[ \t](?:-p|--password)[ =][\"']?)([^\s\"']{1,500})"
    r"|(\bcurl\b[^\n]{0,300}?[ \t](?:-u|--user)[ =][\"']?[^\s:\"']{1,100}:)([^\s\"']{1,500})"
    r"|(\bsshpass -p[ ]?[\"']?)([^\s\"']{1,500})|(\b(?:MYSQL_PWD|PGPASSWORD)=)(\S{1,500})"
)
_DOCKER_AUTH = re.compile(r"(\"auth\"[ \t]{0,2}:[ \t]{0,2}\")([A-Za-z0-9+/=]{8,2000})(?=\")")
_QUERY = re.compile(r"(?<=[?&])([\w.~%-]{1,100}=)[^&#\s\"'<>)\]]{1,4000}")
_JWT = re.compile(r"(?<![\w-])eyJ[\w-]{8,4000}\.[\w-]{4,4000}(?:\.[\w-]{0,4000})?")
# Up to its end; where that was cut off, the rest of the line, headers, and lines like those of a key.
_PRIVATE_KEY = re.compile(
    r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----)(.{0,20000}?(?=-----END )|"
    r"[^\n]*(?:\n[ \t]*(?:[A-Z][\w-]{1,30}: [^\n]*)?(?=\n)){0,6}"
    r"(?:\n[^\n]*[A-Za-z0-9+/=]{40,}[^\n]*){0,200}(?:\n[ \t|]*[A-Za-z0-9+/=]{4,}[ \t]*(?=\n|\Z))?)",
    re.DOTALL,
)
_LINE = re.compile(r"[^\n]*\S[^\n]*")
# What a long random text looks like; names of C++'s symbols and of models have fewer digits.
_RANDOM = re.compile(r"(?<![\w/.+-])(?=[A-Za-z]{0,500}\d)[A-Za-z0-9]{32,500}(?![\w/.+-])")

# Tokens of text, whose ids and signs are no secrets.
_OF_TEXT = load_words("before_token")
# What stands where a secret would, in messages and in examples.
_NO_SECRET = re.compile(
    r"(?:none|null|true|false|undefined|unset|str|int|bool|string|optional|required|empty|not|is|was|and|"
    r"or|for|the|flag|option|argument|value|from|with|will|must|should|\$\$?\{?[a-z_]\w{0,100}\}?|\$\{[a-z_]\w{0,100}:?(?:\?[^}]{0,100}|[-+=](?:•{8})?)\}?|"
    r"\$env:\w{1,100}|\$\(\S{0,200}|\$\([^()\n]{0,200}\)|<[^<>]{0,100}>?|\.{3}|-[\w-]{0,100}|\S{0,12}•{8}\S{0,4}|/run/secrets/\S{0,200}|"
    r"expected|(?-i:[A-Z_]{0,40}(?:KEY|TOKEN|SECRET|PASSWORD)[A-Z_]{0,40}))\Z",
    re.IGNORECASE,
)
_ODD = re.compile(r"(?i)\b(?:unexpected|unknown|invalid|missing|bad|next|special|stop) $")
_NUMBER = re.compile(r"[\d.]{1,6}\Z")


def mask_named(text: str) -> str:
    """The text without values that are secrets by their name, and without random long words.

    It has as many lines as before.
    """
    text = _PRIVATE_KEY.sub(_mask_key, text)
    text = _LOGIN_IN_ADDRESS.sub(_mask_login, text)
    text = _DOCKER_AUTH.sub(rf"\g<1>{MASK}", text)
    text = _QUERY.sub(rf"\g<1>{MASK}", text)
    text = _JWT.sub(MASK, text)
    text = _MORE_KEYS.sub(lambda found: found[1] + _IN_QUOTES.sub(MASK, found[2]), text)
    for pattern in (_DEFAULT, _VARIABLE, _ENTRY, _HEADER, _FLAG, _ASSIGNED):
        text = pattern.sub(_mask_value, text)
    return _RANDOM.sub(_mask_random, text)


def _mask_key(found: re.Match[str]) -> str:
    return found[1] + mask_whole(found[2])


def mask_whole(text: str) -> str:
    """Nothing of the text, in as many lines as it has."""
    return _LINE.sub(MASK, text)


def is_placeholder(value: str) -> bool:
    """Whether a value stands where a secret would, but is none: $NAME, None, <your key>."""
    return _NO_SECRET.match(value) is not None


def _mask_login(found: re.Match[str]) -> str:
    return next(before for before in found.groups()[::2] if before is not None) + MASK


def _mask_value(found: re.Match[str]) -> str:
    groups = found.groupdict()
    name, value = groups["name"], groups.get("quoted") or groups.get("value") or ""
    quote = groups.get("quote") or ""
    if not value.strip() or is_placeholder(value) or _is_of_text(name):
        return found[0]
    if value.rpartition(".")[2] == name.replace("-", "_") and not quote:
        return found[0]  # api_key=args.api_key: a line of a program
    if name.lower().endswith("token") and _NUMBER.match(value):
        return found[0]
    if name.lower() == "token" and _ODD.search(
        found.string[max(0, found.start() - 20) : found.start()]
    ):
        return found[0]
    is_spoken = name.lower() in ("token", "signature", "secret", "credentials") and not quote
    if is_spoken and groups.get("sign") == ":":
        return found[0]  # "Unexpected token: x" is a parser's word, {"token": "x"} is not
    return found[0].removesuffix(value) + MASK


def _is_of_text(name: str) -> bool:
    parts = re.split(r"[_.-]|(?<=[a-z])(?=[A-Z])", name.strip("-"))
    before, last = ([""] + [part.lower() for part in parts])[-2:]
    return last == "token" and before in _OF_TEXT


def _mask_random(found: re.Match[str]) -> str:
    word = found[0]
    digits = sum(each.isdigit() for each in word)
    upper = sum(each.isupper() for each in word)
    lower = len(word) - digits - upper
    return MASK if min(digits, upper, lower) >= 5 else word


# Accounts that images and distributions bring along.
_ACCOUNTS = load_words("accounts")
_ENDINGS = load_words("file_endings")
_PLACEHOLDER = re.compile(r"(?:user|host|hidden|someone|private-(?:model|org))\d+")
_SHORTEST_KEY = 4  # "x" of --api-key x would be taken out of every line
_HOME = re.compile(
    r"((?:(?:[/\\]home|/Users|[A-Za-z]:\\{1,2}Users)[/\\]{1,2}|%2[Ff]home%2[Ff])(?:(?<=/home/)users/)?)"
    r"([\w.@+-]{1,64})"
)
_HOME_OF_TWO_WORDS = re.compile(
    r"([A-Za-z]:[/\\]{1,2}Users[/\\]{1,2})([\w.@+-]{1,64}(?: [\w.@+-]{1,64}){1,3})(?=[/\\])"
)
_OF_PROGRAM = re.compile(r"(\b(?:user|username)=[\"']?)([A-Za-z_][\w-]{0,63})(?![\w.(-])")
_ACCOUNT = re.compile(
    r"(\b(?:SUDO_USER|USER|LOGNAME|USERNAME)[\"']?[ \t]{0,2}[=:][ \t]{0,2}[\"']?)([A-Za-z_][\w.-]{0,63})"
    r"|(\buid=\d{1,10}\()([A-Za-z_][\w.-]{0,63})"
)
_LOGIN = re.compile(
    r"(\b(?:docker|podman|nerdctl|helm) login\b[^\n]{0,200}?\s(?:-u|--username)[ =])(\S{1,100})"
)
_EMAIL = re.compile(
    r"(?<![\w.+-])[\w.+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,6}[A-Za-z]{2,24}(?![\w@-]|\.\w)"
)
# Who writes to these is a program, or nobody.
_NO_PERSON = re.compile(
    r"(?:git@(?:github|gitlab|hf|huggingface)\.|\S{1,64}@example\.(?:com|org|net)$)"
)
_AT_HOST = re.compile(
    r"(?<![\w.+@-])([A-Za-z_][\w.-]{0,63})@([A-Za-z0-9][\w.-]{0,252})(?=(:[~/]|[ \t]{1,2}[~/][^\n]{0,80}[\]$#])|\W|$)"
)
_CALLED = (
    r"(?i:\buser(?:name)?|owner|author|login|account)[\"']?[ \t]{0,2}[=:]?[ \t]{0,2}[\"']?(?<=\W)"
)
# Behind what an engine is told to call its model.
_MODEL_CALLED = (
    r"(?P<before>(?<![\w-])(?:(?:--)?served[-_]model[-_]name|--alias|--model|model_path)"
    r"(?:[\"']?[ \t]{0,2}[=:,]|[ ])[ ]?[\[(]?[\"']?)"
)
_REMOTE = re.compile(r"\b(?:ssh|scp|rsync|sftp|sshfs|mosh)\b[^\n]{0,200}$")


@dataclass(frozen=True, kw_only=True)
class PrivateNames:
    """What this installation knows of itself."""

    secrets: Collection[str] = ()  # in each spelling that a log may have
    people: Collection[str] = ()  # names of accounts
    hosts: Collection[str] = ()
    homes: Collection[str] = ()  # folders
    models: Collection[
        str
    ] = ()  # that a person wants hidden: names on the Hub, paths, served names
    words: Collection[str] = ()  # whatever else a person wants hidden


class Redactor:
    """Redacts the texts of one report."""

    def __init__(self, names: PrivateNames | None = None) -> None:
        self.names = names or PrivateNames()
        self._stand_ins = StandIns()
        self._addresses = addresses.AddressRedactor(self._stand_ins, self.names.hosts)
        self._people = {name for name in self.names.people if self._is_personal(name)}
        self._people |= {
            name
            for home in self.names.homes
            if self._is_personal(name := home.rstrip("/").rpartition("/")[2])
        }
        self._keys: set[str] = set()
        self._seen_ordinary: set[str] = set()
        self._pattern: re.Pattern[str] | None = None

    def learn(self, texts: Iterable[str]) -> None:
        """Take up the names of people that the texts show, before any of them is redacted."""
        for text in map(parsing.safe, texts):
            found = {name for _before, name in _HOME_OF_TWO_WORDS.findall(text)}
            found |= {name for _before, name in _HOME.findall(text)}
            found |= {name for _before, name in _OF_PROGRAM.findall(text) if not is_ordinary(name)}
            found |= {one or two for _a, one, _b, two in _ACCOUNT.findall(text)}
            found |= {name for _before, name in _LOGIN.findall(text)}
            self._people |= {name for name in found if self._is_personal(name)}
            self._addresses.learn(text)
        self._pattern = None

    def learn_keys(self, words: Iterable[str]) -> None:
        """Take up words that are keys by their place in a command line, before they are redacted."""
        long = (word for word in words if len(word) >= _SHORTEST_KEY)
        self._keys |= {word for word in long if not is_placeholder(word)}

    @property
    def unsure(self) -> tuple[str, ...]:
        """Names that were also ordinary words of the texts: only some places of them are hidden."""
        return tuple(sorted(self._seen_ordinary))

    def redact(self, text: str) -> str:
        """The text without what is private; it has as many lines as before."""
        # A colour inside of a name would hide it, until it is taken out of what is written.
        text = parsing.safe(text)
        for secret in self.names.secrets:
            text = text.replace(secret, mask_whole(secret))
        for key in sorted(self._keys, key=len, reverse=True):
            text = re.sub(rf"(?<![\w-]){re.escape(key)}(?![\w-])", MASK, text)
        text = "\n".join(
            line.decode(errors="replace")
            for line in mask_tokens([each.encode(errors="replace") for each in text.split("\n")])
        )
        text = mask_named(text)
        text = self._hide_models(self._hide_words(text))
        text = _EMAIL.sub(self._replace_email, text)
        text = self._addresses.redact_urls(text)
        text = _HOME_OF_TWO_WORDS.sub(lambda found: found[1] + self._name_person(found[2]), text)
        text = _HOME.sub(lambda found: found[1] + self._name_person(found[2]), text)
        text = _OF_PROGRAM.sub(self._replace_of_program, text)
        text = _ACCOUNT.sub(self._replace_account, text)
        text = _LOGIN.sub(lambda found: found[1] + self._name_person(found[2]), text)
        text = _AT_HOST.sub(self._replace_at_host, text)
        return self._addresses.redact(self._replace_people(text))

    def redact_lines(self, lines: Collection[str]) -> list[str]:
        return self.redact("\n".join(lines)).split("\n") if lines else []

    def _is_personal(self, name: str) -> bool:
        if not name or name.lower() in _ACCOUNTS or _PLACEHOLDER.fullmatch(name):
            return False
        # "home/watchdog.log" is a file.
        return name.rpartition(".")[2] not in _ENDINGS or "." not in name

    def _name_person(self, name: str) -> str:
        return self._stand_ins.get("user", name) if self._is_personal(name) else name

    def _replace_account(self, found: re.Match[str]) -> str:
        before, name = (found[1], found[2]) if found[1] else (found[3], found[4])
        return before + self._name_person(name)

    def _replace_of_program(self, found: re.Match[str]) -> str:
        """user=ada; but user=prompt and user=None are words of a program."""
        name = found[2]
        return found[0] if is_ordinary(name) else found[1] + self._name_person(name)

    def _replace_email(self, found: re.Match[str]) -> str:
        if _NO_PERSON.match(found[0]):
            return found[0]
        return f"{self._stand_ins.get('someone', found[0].lower())}@example.com"

    def _replace_at_host(self, found: re.Match[str]) -> str:
        """ada@spark-1 in a prompt, behind ssh, or where one of the two is known."""
        person, host = found[1], found[2]
        is_known = person in self._people or self._addresses.is_known(host)
        is_remote = _REMOTE.search(found.string[max(0, found.start() - 200) : found.start()])
        if not (is_known or found[3] or is_remote) or host.startswith(("sha256", "example.")):
            return found[0]
        return f"{self._name_person(person)}@{self._addresses.name_host(host)}"

    def _replace_people(self, text: str) -> str:
        if self._pattern is None:
            self._pattern = _compile_people(self._people)
        for name in self._people:
            if is_ordinary(name) and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text):
                self._seen_ordinary.add(name)
        return self._pattern.sub(self._replace_person, text)

    def _replace_person(self, found: re.Match[str]) -> str:
        name = found[found.lastindex or 0]
        return found[0].removesuffix(name) + self._name_person(name)

    def _hide_words(self, text: str) -> str:
        for word in sorted(self.names.words, key=len, reverse=True):
            text = self._hide(text, "hidden", word)
        return text

    def _hide_models(self, text: str) -> str:
        for name in sorted(self.names.models, key=len, reverse=True):
            words = read_model(name)
            for word in words.names:
                if not _PLACEHOLDER.fullmatch(word):
                    # "sun" is no part of "sunday", but "sun-7b" is of "sun-7b-chat".
                    pattern = rf"(?<![A-Za-z0-9]){word}(?![A-Za-z0-9])" if word.isalpha() else ""
                    text = self._hide(text, "private-model", word, pattern)
            if word := words.ordinary:
                text = self._hide(
                    text, "private-model", word, _MODEL_CALLED + rf"{re.escape(word)}(?![\w-])"
                )
            if (owner := words.owner) and not _PLACEHOLDER.fullmatch(owner):
                text = self._hide(
                    text,
                    "private-org",
                    owner,
                    rf"(?<![A-Za-z0-9]){re.escape(owner)}(?=/|--|%2F|_private-model)",
                )
        return text

    def _hide(self, text: str, kind: str, word: str, pattern: str = "") -> str:
        return re.sub(
            pattern or re.escape(word),
            lambda found: (
                (found.groupdict().get("before") or "") + self._stand_ins.get(kind, word.lower())
            ),
            text,
            flags=re.IGNORECASE,
        )


def _compile_people(people: Collection[str]) -> re.Pattern[str]:
    """Whole words. A name that engines use as a word, too, only where it stands as a name.

    The name is the last group that is there, and what stands before it stays.
    """
    ordered = sorted(people, key=len, reverse=True)
    plain = "|".join(re.escape(name) for name in ordered if not is_ordinary(name))
    ordinary = "|".join(re.escape(name) for name in ordered if is_ordinary(name))
    parts = []
    if plain:
        parts.append(rf"(?<![A-Za-z0-9])({plain})(?![A-Za-z0-9])")
    if ordinary:
        parts.append(rf"(?<=[/~])({ordinary})(?=/)|(?<![\w.-])({ordinary})(?=@)")
        parts.append(rf"({_CALLED})({ordinary})(?!\w)")
    return re.compile("|".join(parts) or r"(?!)")
