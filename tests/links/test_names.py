"""Pages name the box of a request, a check-up and an action where there are several."""

from django.utils import timezone

from servers.models import AuditEntry, Request, User
from tests import factories
from tests.cases import Cases
from tests.measurements import benchmark
from tests.people.desk import as_

PAGES = ("/gateway/requests/", "/benchmarks/", "/activity/", "/models/", "/alerts/")


def test_pages_name_boxes_only_where_there_are_several(hub: User) -> None:
    box = factories.box("milo")
    server = factories.server(box, "coder")
    run = factories.run(server)
    Request.objects.create(
        at=timezone.now(), path="/v1/chat/completions", status=200, duration=2.5, model="coder",
        server="coder", person=hub, run=run,
    )  # fmt: skip
    result = benchmark(server)
    AuditEntry.note(hub, "start", server, version=1)
    factories.stored(box)
    shown = (*PAGES, f"/benchmarks/{result.pk}/")
    client = as_(hub)

    def read(path: str) -> str:
        return " ".join(client.get(path).content.decode().split())

    alone = {path: read(path) for path in shown}
    factories.box("laurel")
    beside = {path: read(path) for path in shown}

    with Cases() as cases:
        for path, words in {
            "/gateway/requests/": "on milo",
            "/benchmarks/": "on milo",
            "/activity/": "on milo, version 1",
            "/models/": 'data-choose="All boxes"',
            "/alerts/": '<option value="">All boxes</option>',
            f"/benchmarks/{result.pk}/": ', on <a href="/boxes/milo/">milo</a>',
        }.items():
            with cases.named(path):
                assert words not in alone[path]
                assert words in beside[path]
        with cases.named("a search for the box"):
            assert "coder" in read("/gateway/requests/?q=milo")
            assert "No request matches" in read("/gateway/requests/?q=laurel")
            assert "version 1" in read("/activity/?q=milo")
            assert "version 1" not in read("/activity/?q=laurel")
