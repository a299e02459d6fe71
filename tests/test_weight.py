"""What a page loads: by its template, what that extends and includes, and what its modules import."""

from tests.weight import PageWeights

WEIGHTS = PageWeights(
    templates={
        "base.html": '<link href="{% static "css/app.css" %}"><script src="{% static "js/index.js" %}">',
        "page.html": '{% extends "base.html" %}{% include "_log.html" with size="page" %}'
        '{# {% static "js/no.js" %} #}{% include "drawing.svg" %}',
        "tabs.html": '{% extends "base.html" %}{% if tab.name == "log" and a %}{% static "css/log.css" %}'
        '{% elif b %}{% static "css/b.css" %}{% if c %}{% endif %}{% endif %}{% include tab.template %}',
        "other.html": "",
        "_log.html": '<script src="{% static "js/logs/reader.js" %}">{% include "_log.html" %}',
    },
    tabs={"log": "_log.html", "other": "other.html"},
    texts={
        "css/log.css": "",
        "css/b.css": "",
        "css/app.css": "",
        "js/index.js": 'import "./parts.js";\n',
        "js/parts.js": '/** @import { A } from "./types.js" */\n * @type {import("./types.js").B}\n',
        "js/logs/reader.js": 'import { a,\n  b } from "../parts.js";\nexport * from "./row.js";\n'
        'const late = await import("./late.js");\n',
        "js/logs/row.js": 'script.src = new URL("../../vendor/a.min.js", import.meta.url).href;\n',
        "vendor/a.min.js": 'import"./other.js"',
        "vendor/other.js": "",
    },
    sizes={
        "css/log.css": 1024, "css/b.css": 2048,
        "css/app.css": 1, "js/index.js": 2, "js/parts.js": 4, "js/logs/reader.js": 8,
        "js/logs/row.js": 16, "vendor/a.min.js": 32, "vendor/other.js": 64, "js/no.js": 128,
        "js/types.js": 256, "js/logs/late.js": 512,
    },
)  # fmt: skip


def test_a_page_weighs_what_it_loads_and_no_more() -> None:
    assert WEIGHTS.pages == [("page.html", ""), ("tabs.html", "log"), ("tabs.html", "other")]
    assert WEIGHTS.weigh("page.html") == {
        "vendor/other.js": 64, "vendor/a.min.js": 32, "js/logs/row.js": 16, "js/logs/reader.js": 8,
        "js/parts.js": 4, "js/index.js": 2, "css/app.css": 1,
    }  # fmt: skip


def test_a_page_with_tabs_weighs_what_the_chosen_one_loads() -> None:
    log, other = (sum(WEIGHTS.weigh("tabs.html", tab).values()) for tab in ("log", "other"))
    assert log == 127 + 1024 + 2048
    assert other == 7 + 2048
