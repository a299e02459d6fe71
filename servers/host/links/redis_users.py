"""Users of the hub's Redis: the hub's own, and one a box with its queue, channels and prefixes."""

import hashlib
from collections.abc import Iterable

HUB = "hub"
# What celery's worker, the channel layer and our own state need; no scripts but those that the
# channel layer brings, nothing that looks at other keys or at the server.
_COMMANDS = (
    "-@all +@connection +@read +@write +@pubsub +@transaction +eval +evalsha +script|load "
    "-@dangerous -@admin -keys -scan -randomkey -client +client|setname +client|id +info +time"
)


def make_hub_rules(password: str) -> list[str]:
    """As words of ACL SETUSER."""
    return ["reset", "on", _hash(password), "~*", "&*", "+@all"]


def make_box_rules(slug: str, password: str) -> list[str]:
    """As words of ACL SETUSER. What a box may: docs/boxes.md and SECURITY.md."""
    keys = [
        # Its queue, with celery's priorities, and its place in celery's table of queues.
        f"~box.{slug}",
        f"~box.{slug}\x06\x16*",
        "~_kombu.binding*",
        # Of the messages that a worker has taken and not yet answered; they hold ids.
        "~unacked",
        "~unacked_index",
        "~unacked_mutex",
        # Groups of pages, to which it says that something has changed.
        "~inferdash:group:*",
        "~inferdashspecific.*",
        # Of servers.state and servers.events: what ends with the box's own name.
        f"~inferdash:*:{slug}",
        f"~inferdash:untaken:box.{slug}",
        # What ends with the number of a run or of a question.
        "~inferdash:told:*",
        "~inferdash:answer:*",
    ]
    channels = [f"&inferdash:wake:{slug}", "&/0.celery*"]
    return ["reset", "on", _hash(password), *keys, *channels, *_COMMANDS.split()]


def write_file(users: Iterable[tuple[str, list[str]]]) -> str:
    """The text of an aclfile. Its default user may not log in."""
    lines = ["user default reset off"]
    lines += [f"user {name} {' '.join(rules)}" for name, rules in users]
    return "".join(f"{line}\n" for line in lines)


def _hash(password: str) -> str:
    return "#" + hashlib.sha256(password.encode()).hexdigest()
