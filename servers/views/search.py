"""Results of the palette, a few of each kind: pages, things, and actions on servers."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import reduce
from operator import and_

from django.db.models import Q, QuerySet
from django.http import JsonResponse
from django.urls import resolve, reverse

from servers.models import Box, Permission, Profile, Server, StoredCheckpoint, User
from servers.models.profiles import ProfileFilter
from servers.models.runs.run import RunState
from servers.views.access import PersonRequest, get

EACH = 5  # of a kind
LONGEST, MOST_WORDS = 100, 6
# By the names of their views, which say who may see them; and other words that people look by.
PAGES = (
    ("dashboard", "Dashboard", "home gpus"),
    ("servers", "Servers", "engines cards"),
    ("profiles", "Profiles", ""),
    ("profile_paste", "New profile from a command or compose file", "import paste docker"),
    ("profile_new", "New profile from scratch", "create"),
    ("recipes", "Recipes", "templates"),
    ("models", "Models", "checkpoints weights disks"),
    ("download_new", "Download a model", "pull hugging face hub"),
    ("images", "Images", "docker containers"),
    ("registry_logins", "Registry credentials", "docker login"),
    ("chat", "Playground", "chat ask"),
    ("compare", "Compare answers", "playground chat"),
    ("prompt_sets", "Prompt sets", "playground"),
    ("gateway", "Gateway", "api openai requests"),
    ("requests", "Requests", "gateway log"),
    ("usage", "Usage", "tokens requests"),
    ("keys", "Keys for programs", "api token"),
    ("alerts", "Alerts", "problems"),
    ("channels", "Notification channels", "alerts webhook mail"),
    ("benchmarks", "Benchmarks", "check-up speed results tokens"),
    ("activity", "Activity", "audit log"),
    ("settings", "Settings", "account theme"),
    ("settings_people", "People", "settings invite roles users"),
    ("settings_secrets", "Secrets", "settings tokens hf_token"),
    ("settings_boxes", "Box settings", "settings home cache folders"),
    ("settings_about", "About", "version licence settings"),
    ("password", "Change password", "account"),
)


# Words that stand between an action and its server.
FILLERS = frozenset({"a", "of", "the", "with"})
SHORTEST_VERB = 3


@dataclass(frozen=True, kw_only=True)
class SearchHit:
    title: str
    about: str
    url: str  # of its page; for an action, of the page that shows what comes of it
    post: str = ""  # where a POST does it
    ask: str = ""  # of the dialog that asks first


@dataclass(frozen=True, kw_only=True)
class ServerAction:
    words: tuple[str, ...]
    title: str
    permission: Permission
    offers: Callable[[Server, User], bool]
    urls: Callable[[Server], dict[str, str]]


ACTIONS = (
    ServerAction(
        words=("start", "run", "launch"),
        title="Start {}",
        permission=Permission.OPERATE,
        offers=lambda server, person: server.can_start,
        urls=lambda server: {"post": reverse("server_start", args=[server.slug])},
    ),
    ServerAction(
        words=("stop", "kill", "end"),
        title="Stop {} …",
        permission=Permission.OPERATE,
        offers=lambda server, person: _is_running(server) and not server.is_watched,
        urls=lambda server: {"ask": reverse("server_stop_ask", args=[server.slug])},
    ),
    ServerAction(
        words=("restart",),
        title="Restart {} …",
        permission=Permission.OPERATE,
        offers=lambda server, person: _is_running(server) and not server.is_watched,
        urls=lambda server: {
            "ask": f"{reverse('server_stop_ask', args=[server.slug])}?then=restart"
        },
    ),
    ServerAction(
        words=("log", "logs"),
        title="Log of {}",
        permission=Permission.VIEW,
        offers=lambda server, person: server.run is not None,
        urls=lambda server: {"url": reverse("server_log", args=[server.slug])},
    ),
    ServerAction(
        words=("why",),
        title="Why {} failed",
        permission=Permission.VIEW,
        offers=lambda server, person: (
            server.run is not None and server.run.state == RunState.FAILED
        ),
        urls=lambda server: {},
    ),
    ServerAction(
        words=("chat", "talk", "ask"),
        title="Chat with {}",
        permission=Permission.CHAT,
        offers=lambda server, person: _answers(server),
        urls=lambda server: {"url": f"{reverse('chat')}?server={server.slug}"},
    ),
    ServerAction(
        words=("edit", "change"),
        title="Edit the profile of {}",
        permission=Permission.EDIT,
        offers=lambda server, person: not server.is_watched and server.profile.is_seen_by(person),
        urls=lambda server: {"url": reverse("profile_edit", args=[server.profile.slug])},
    ),
)


def _is_running(server: Server) -> bool:
    return server.run is not None and server.run.is_active


def _answers(server: Server) -> bool:
    is_ready = server.run is not None and server.run.state == RunState.READY
    return is_ready and server.launch.serves_models


@get("search.json", Permission.VIEW)
def search(request: PersonRequest) -> JsonResponse:
    """Groups of hits for ?q=, those that have any."""
    words = request.GET.get("q", "")[:LONGEST].split()[:MOST_WORDS]
    groups = _groups(words, request.user) if words else {}
    found = [
        {"title": title, "hits": [asdict(each) for each in hits]}
        for title, hits in groups.items()
        if hits
    ]
    return JsonResponse({"groups": found}, headers={"Cache-Control": "no-store"})


def _groups(words: list[str], person: User) -> dict[str, list[SearchHit]]:
    return {
        "Actions": _actions(words, person),
        "Servers": _servers(words),
        "Profiles": _profiles(words, person),
        "Boxes": _boxes(words),
        "Models": _models(words),
        "Pages": _pages(words, person),
    }


def _match_words(words: Iterable[str], *fields: str) -> Q:
    """Each word in one of the fields."""
    return reduce(
        and_,
        (
            reduce(lambda one, other: one | other, (Q(**{f"{f}__icontains": word}) for f in fields))
            for word in words
        ),
    )


def _find_servers(words: list[str]) -> QuerySet[Server]:
    fields = ("slug", "box__slug", "profile__name", "profile__current__spec__checkpoint")
    found = Server.objects.present().select_related("box", "run__version", "profile")
    found = found.order_by("slug")
    return found.filter(_match_words(words, *fields)) if words else found


def _actions(words: list[str], person: User) -> list[SearchHit]:
    """Of those that the first word begins, on the servers that the others mean.

    What is done without a question needs a server's name: Enter does the first of them.
    """
    verb, others = words[0].casefold(), [w for w in words[1:] if w.casefold() not in FILLERS]
    if len(verb) < SHORTEST_VERB:
        return []
    meant = [
        each
        for each in ACTIONS
        if person.may(each.permission) and any(word.startswith(verb) for word in each.words)
    ]
    if not meant:
        return []
    servers = list(_find_servers(others))
    hits = [
        SearchHit(
            title=action.title.format(server.slug),
            about=f"on {server.box.slug}",
            **{"url": reverse("server", args=[server.slug])} | action.urls(server),
        )
        for action in meant
        for server in servers
        if action.offers(server, person)
    ]
    return [hit for hit in hits if others or not hit.post][:EACH]


def _servers(words: list[str]) -> list[SearchHit]:
    return [
        SearchHit(
            title=server.slug,
            about=f"{server.run.state if server.run else 'never started'} on {server.box.slug}",
            url=reverse("server", args=[server.slug]),
        )
        for server in _find_servers(words)[:EACH]
    ]


def _profiles(words: list[str], person: User) -> list[SearchHit]:
    found = Profile.objects.for_list(person, ProfileFilter(text=" ".join(words)))
    return [
        SearchHit(
            title=each.name,
            about=each.launch.checkpoint or each.launch.image,
            url=reverse("profile", args=[each.slug]),
        )
        for each in found.prefetch_related(None)[:EACH]
    ]


def _boxes(words: list[str]) -> list[SearchHit]:
    found = Box.objects.filter(_match_words(words, "slug")).order_by("slug")[:EACH]
    return [
        SearchHit(title=each.slug, about=each.health_word, url=reverse("box", args=[each.slug]))
        for each in found
    ]


def _models(words: list[str]) -> list[SearchHit]:
    found = StoredCheckpoint.objects.filter(_match_words(words, "name", "path")).select_related(
        "box"
    )
    return [
        SearchHit(
            title=each.name,
            about=f"{each.path} on {each.box.slug}",
            url=reverse("model", args=[each.pk]),
        )
        for each in found.defer("texts", "config")[:EACH]
    ]


def _pages(words: list[str], person: User) -> list[SearchHit]:
    folded = [word.casefold() for word in words]
    found = []
    for name, title, others in PAGES:
        own = f"{title} {others}".casefold().split()
        if all(any(each.startswith(word) for each in own) for word in folded):
            url = reverse(name)
            if person.may(resolve(url).func.permission):  # type: ignore[attr-defined]
                found.append(SearchHit(title=title, about="", url=url))
    return found[:EACH]
