"""A web process with two engines behind it, and keys for it."""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest

from tests.chat_stack import Stack, chat_stack
from tests.scripted_engine import ScriptedEngine
from tests.waiting import PATIENCE, wait_until

KEYS = """
import json
from datetime import timedelta
person = User.objects.get(username="ada")
key, token = Key.make(person, "a program", Role.OPERATOR, expires_at=None)
looks = Key.make(person, "looks", Role.VIEWER, expires_at=None)[1]
ended = Key.make(person, "over", Role.OPERATOR, expires_at=timezone.now() - timedelta(days=1))[1]
narrow = Key.make(person, "narrow", Role.OPERATOR, expires_at=None, models_allowed=["twin-1"])[1]
few = Key.make(person, "few", Role.OPERATOR, expires_at=None, requests_per_minute=2)[1]
asks = Key.make(person, "asks", Role.OPERATOR, expires_at=None, only_asks=True)[1]
print(json.dumps({"asks": asks, "narrow": narrow, "few": few, "key": key.pk, "token": token, "looks": looks, "ended": ended}))
"""
SECOND = """
from servers.launch.engines.launch import Launch
launch = Launch(engine="vllm", image="i", checkpoint="org/Twin")
profile = Profile.objects.create(slug="twin", name="Twin", owner=User.objects.get())
version = profile.save_version(launch, by=User.objects.get())
for name, port, state in (("twin-1", {one}, RunState.READY), ("twin-2", {two}, RunState.READY),
                          ("asleep", None, RunState.STARTING)):
    server = Server.objects.create(slug=name, profile=profile, box=Box.objects.get())
    server.run = Run.objects.create(
        server=server, version=version, state=state, address="127.0.0.1" if port else None,
        port=port, served_name="twin" if port else "",
    )
    server.save()
"""
REMOVE = "print(Request.objects.filter(model='{}').delete()[0])"


@dataclass(frozen=True, kw_only=True)
class Address:
    stack: Stack
    engines: tuple[ScriptedEngine, ScriptedEngine]
    key: int
    token: str
    looks: str
    ended: str
    narrow: str  # may ask twin-1 alone
    asks: str  # may use models only
    few: str  # may ask twice a minute

    @property
    def url(self) -> str:
        return self.stack.url

    def write(self) -> None:
        """Wait until all that was asked is written down: some at a time, after their answers."""
        last = f"nobody-{uuid.uuid4().hex}"
        asked = httpx.post(
            f"{self.url}/v1/completions",
            json={"model": last},
            headers={"authorization": f"Bearer {self.token}"},
            timeout=PATIENCE,
        )
        assert asked.status_code == 404
        wait_until(
            lambda: self.stack.shell(REMOVE.format(last)).strip() == "1",
            "the last request is written down",
        )

    def requests(self) -> list[dict[str, object]]:
        """Those that were written down, the latest first."""
        self.write()
        found = self.stack.shell(
            "import json\nprint(json.dumps(list(Request.objects.values('server', 'model', 'status',"
            " 'cancelled', 'prompt_tokens', 'cached_tokens', 'completion_tokens', 'error', 'path',"
            " 'key', 'first', 'duration'))))"
        )
        return list(json.loads(found))


@pytest.fixture(scope="session")
def address() -> Iterator[Address]:
    """Its own web process: its tests look at what the gateway remembers from one to the next."""
    with ScriptedEngine() as one, ScriptedEngine() as two, chat_stack(one.port) as stack:
        stack.shell(SECOND.format(one=one.port, two=two.port))
        yield Address(stack=stack, engines=(one, two), **json.loads(stack.shell(KEYS)))
