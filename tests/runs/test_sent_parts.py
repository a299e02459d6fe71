"""Parts of a page that a socket sends: only what looks different from what it has sent."""

import pytest
from asgiref.sync import sync_to_async

from servers import events
from servers.consumers.guard import SentParts
from servers.models import Role, Server, User
from servers.models.runs.run import RunState
from tests import factories
from tests.websocket import Socket, session_of


def part(target: str, inner: str) -> str:
    return f'<hx-partial hx-target="#{target}" hx-swap="outerMorph">{inner}</hx-partial>\n'


DOT, READY = part("dot", '<a id="dot">fine</a>'), part("one", '<p id="one">ready</p>')
FAILED = part("one", '<p id="one">failed</p>')
LIST = part("list", '<ul id="list"><li id="one">ready</li></ul>')


def test_what_is_the_same_is_sent_once() -> None:
    sent = SentParts()

    assert sent.keep_new(DOT + READY) == DOT + READY
    assert sent.keep_new(DOT + FAILED) == FAILED
    assert sent.keep_new(DOT + FAILED) == ""
    sent.forget()
    assert sent.keep_new(DOT) == DOT


def test_a_part_in_another_is_as_old_as_the_younger_of_them() -> None:
    sent = SentParts()

    for each in (LIST, FAILED, LIST, FAILED, READY, FAILED):
        assert sent.keep_new(each) == each


@pytest.mark.asyncio
async def test_a_box_that_looks_the_same_sends_nothing(
    transactional_db: None, own_redis: object
) -> None:
    def prepare() -> tuple[Server, User]:
        server = factories.server(factories.box("rtx8"), "glm-5")
        factories.run(server, RunState.STARTING)
        return server, factories.person("vera", Role.VIEWER)

    def change(server: Server) -> None:
        server.runs.update(state=RunState.FAILED)
        events.publish_change("server", server.pk)

    server, person = await sync_to_async(prepare)()
    socket = Socket("/ws/live/?page=servers", session=await session_of(person))
    assert await socket.open()
    assert 'hx-target="#box-dot-' in (await socket.hear())["text"]

    await sync_to_async(events.publish_change)("box", server.box_id)
    await sync_to_async(change)(server)
    heard = (await socket.hear())["text"]

    assert 'data-state="failed"' in heard
    assert 'hx-target="#box-dot-' not in heard
    await socket.leave()
