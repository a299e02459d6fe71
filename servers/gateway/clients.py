"""The exact lines by which programs that people have use the gateway."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from servers.launch.tables import load_yaml

KEY = "ifd_…"  # where a person puts theirs
_MODEL = "@model@"  # where the model's name stands


@dataclass(frozen=True, kw_only=True)
class ClientExample:
    """One of clients.yaml."""

    slug: str
    name: str
    says: str
    text: str
    model: str
    asks: str = "chat"

    @property
    def pieces(self) -> list[str]:
        """The lines, parted where the model's name stands."""
        return self.text.split(_MODEL)

    @property
    def lines(self) -> str:
        return self.model.join(self.pieces)


def clients(address: str, model: str) -> list[ClientExample]:
    """`address` without a path, as the person who reads this reaches it."""
    made = []
    for told in _read_examples():
        text = told["text"].replace("@address@", address).replace("@key@", KEY)
        made.append(ClientExample(**{**told, "text": text, "model": model}))
    return made


@cache
def _read_examples() -> list[dict[str, str]]:
    found: list[dict[str, str]] = load_yaml(
        Path(__file__).with_name("clients.yaml").read_text(encoding="utf-8")
    )
    return found
