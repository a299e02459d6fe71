"""The frame of every page: boxes, and links that know their own page."""

from functools import cache
from typing import Any

from django import template
from django.conf import settings
from django.db.models import QuerySet
from django.template.loader import render_to_string
from django.urls import get_script_prefix, get_urlconf, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from servers.contexts import alerts, dashboard, gateway
from servers.contexts.server_page import published_port
from servers.launch.engines import ENGINES
from servers.launch.engines.launch import Launch
from servers.models import Box, Run

register = template.Library()

# Pages that a link of the sidebar leads to, although their addresses are not below its own.
BELOW = {"profiles": ("groups", "recipes", "checkpoint"), "gateway": ("keys", "prompt_sets")}


def find_address(name: str) -> str:
    """Of a page whose address has no parts that vary: every page asks for a hundred of these."""
    return _reverse(name, get_urlconf() or settings.ROOT_URLCONF, get_script_prefix())


@cache
def _reverse(name: str, urlconf: str, _prefix: str) -> str:
    return reverse(name, urlconf=urlconf)


@register.simple_tag
def all_boxes() -> QuerySet[Box]:
    return Box.objects.all()


@register.simple_tag
def has_several_boxes() -> bool:
    """Only then pages say on which one something is."""
    return Box.objects.count() > 1


@register.simple_tag
def is_simulated() -> bool:
    """Whether boxes, GPUs and engines are the demo's."""
    return bool(settings.SIMULATED)


@register.simple_tag(takes_context=True)
def attention_count(context: dict[str, Any]) -> int:
    """How much needs this person, for the navigation and the tab's title.

    A page that lists them has them as its `notices`, and nothing is judged twice.
    """
    notices = context.get("notices")
    if notices is None:
        notices = alerts.list_for(context["request"].user, alerts.now())
    return len(notices)


register.simple_tag(gateway.captures, name="all_captures")
register.simple_tag(gateway.mark_capture, name="captures_mark")


@register.simple_tag(takes_context=True)
def in_playground(context: dict[str, Any]) -> bool:
    """Whether what is asked on this page is a person's own: no capture keeps it."""
    return str(context["request"].path).startswith(find_address("chat"))


@register.simple_tag
def icon(name: str) -> SafeString:
    """An icon of the sprite (tests/icons.py); what it means must be said beside it."""
    return format_html(
        '<svg class="icon" aria-hidden="true"><use href="#icon-{}"></use></svg>', name
    )


def _is_below(path: str, *names: str) -> bool:
    return any(path.startswith(at) for at in map(find_address, names) if at != "/")


@register.simple_tag(takes_context=True)
def page_link(
    context: dict[str, Any],
    name: str,
    title: str,
    icon_name: str,
    count: int | None = None,
    count_id: str = "bell",
) -> SafeString:
    """An item of the navigation, marked on its own page and on the pages below it."""
    address = find_address(name)
    path = context["request"].path
    of = next((of for of, below in BELOW.items() if _is_below(path, *below)), None)
    is_here = of == name or (of is None and (path == address or _is_below(path, name)))
    return format_html(
        '<li><a href="{}"{}>{}<span class="label">{}</span>{}</a></li>',
        address,
        SafeString(' aria-current="page"') if is_here else "",
        icon(icon_name),
        title,
        "" if count is None else render_to_string("_bell.html", {"count": count, "id": count_id}),
    )


@register.simple_tag(takes_context=True)
def tab_link(context: dict[str, Any], name: str, title: str, *below: str) -> SafeString:
    """A tab of a subject's pages, marked on its own page and on those `below` it, by their names."""
    view = context["request"].resolver_match.view_name
    is_here = view == name or view in below
    mark = SafeString(' aria-current="page"') if is_here else ""
    return format_html('<a href="{}"{}>{}</a>', find_address(name), mark, title)


@register.simple_tag(takes_context=True)
def subpage(context: dict[str, Any], name: str, title: str) -> SafeString:
    """A link among the pages of settings, marked on its own page and on the pages below it."""
    address, path = find_address(name), context["request"].path
    is_first = name == "settings"
    is_here = path == address or (not is_first and path.startswith(address))
    here = SafeString(' aria-current="page"') if is_here else ""
    return format_html('<a href="{}"{}>{}</a>', address, here, title)


# Whether to ask before a run is stopped.
register.filter("concerns", Run.concerns_others)


@register.filter
def openness(launch: Launch) -> str:
    """A warning when other machines reach the engine's port; "" when they do not."""
    engine = ENGINES.get(launch.engine)
    if engine is None or not engine.is_open(launch):
        return ""
    return "open to the network" if engine.has_key(launch) else "open to the network, no key"


register.filter("published_port", published_port)


@register.filter
def asks_key(launch: Launch) -> bool:
    """Whether the engine asks callers for a key."""
    engine = ENGINES.get(launch.engine)
    return engine is not None and engine.has_key(launch)


register.simple_tag(dashboard.list_summaries, name="boxes_found")
