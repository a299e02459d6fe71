"""Who hangs up, and who has only heard everything: a server tells both in the same words."""

import asyncio
from typing import Any

import pytest

from servers.gateway.app import _Speaking, _until_gone
from servers.gateway.calls import Call
from servers.gateway.requests import GoneError
from tests.waiting import PATIENCE


class AsgiClient:
    """As an ASGI server tells of it."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self.told = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        await self.gone.wait()
        self.told.set()  # whoever waits for it goes on in a later turn than who is told here
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if not message.get("more_body", True):
            self.gone.set()  # the answer is whole


def speaking(client: AsgiClient) -> _Speaking:
    async def send(message: Any) -> None:
        await client.send({"more_body": False, **message})

    return _Speaking(send, Call(path="/v1/x", began=0.0))


@pytest.mark.asyncio
async def test_who_has_heard_everything_has_not_hung_up() -> None:
    client = AsgiClient()
    said = speaking(client)
    cleaned = False

    async with _until_gone(client.receive, said):
        await said.say_json({"all": True})
        # What is still to be done, such as giving a connection back, while who listens for the
        # end hears the same words as of one who hangs up.
        await client.told.wait()
        cleaned = True

    assert cleaned


@pytest.mark.asyncio
async def test_who_hangs_up_in_the_middle_ends_it() -> None:
    client = AsgiClient()
    said = speaking(client)

    async def hang_up() -> None:
        async with _until_gone(client.receive, said):
            client.gone.set()
            await asyncio.Event().wait()

    with pytest.raises(GoneError):
        await asyncio.wait_for(hang_up(), PATIENCE)
