"""Secrets known by the name beside them: variables, flags, keys of JSON, queries of addresses."""

import re

from servers.judge.reports.names import load_words
from servers.launch.redaction import MASK

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
_LOGIN = re.compile(
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
    text = _LOGIN.sub(_mask_login, text)
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
