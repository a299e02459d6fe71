"""A web process with one ready server, for the playground and the log in browsers and benches."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from tests.scripted_engine import MODEL, ScriptedEngine
from tests.waiting import PATIENCE, wait_until
from tests.web_stack import ROOT, WebStack, web_stack

__all__ = ["ROOT", "Stack", "chat_stack"]

SEED = """
from django.conf import settings
from servers.launch.engines.launch import Launch

person = factories.person("ada", Role.OPERATOR)
box, _ = Box.objects.get_or_create(slug=settings.BOX)
profile = Profile.objects.create(slug="tiny", name="Tiny", owner=person)
version = profile.save_version(Launch(engine="vllm", image="i", checkpoint="c"), by=person)
server = Server.objects.create(slug="tiny", profile=profile, box=box)
run = Run.objects.create(
    server=server, version=version, state=RunState.READY, started_by=person,
    address="127.0.0.1", port={port}, served_name="tiny-qwen",
)
server.run = run
server.save()
print(f"{{run.pk}} {{settings.CSRF_COOKIE_NAME}}")
"""


@dataclass(frozen=True, kw_only=True)
class Stack:
    web: WebStack
    cookie: str
    session: str
    csrf_cookie: str
    run: int

    @property
    def url(self) -> str:
        return self.web.url

    @property
    def env(self) -> dict[str, str]:
        return self.web.env

    def shell(self, code: str) -> str:
        """Run this with the models at hand, against the stack's database."""
        return self.web.run(code)


def seeded(web: WebStack, engine_port: int) -> Stack:
    """The one ready server, in a web process that knows no box yet."""
    run, csrf_cookie = web.run(SEED.format(port=engine_port)).split()
    cookie = web.cookie("ada", "OPERATOR")
    return Stack(
        web=web,
        cookie=cookie["name"],
        session=cookie["value"],
        csrf_cookie=csrf_cookie,
        run=int(run),
    )


def knows_engine(stack: Stack, engine: ScriptedEngine, token: str) -> None:
    """Until the gateway asks this engine: it remembers for a second who was there before."""
    question = {"model": MODEL, "messages": [{"role": "user", "content": "Are you there?"}]}

    def is_asked() -> bool:
        httpx.post(
            f"{stack.url}/v1/chat/completions",
            json=question,
            headers={"authorization": f"Bearer {token}"},
            timeout=PATIENCE,
        )
        return bool(engine.requests)

    wait_until(is_asked, "the gateway knows the engine")


@contextmanager
def chat_stack(engine_port: int) -> Iterator[Stack]:
    with web_stack() as web:
        yield seeded(web, engine_port)
