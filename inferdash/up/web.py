"""The web server: on sockets that the supervisor bound, or on HOST and PORT in a container."""

import argparse
import asyncio
import os
import socket
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn

from inferdash.up import ports
from inferdash.up.heads import BoundedHeads

if TYPE_CHECKING:
    from servers.gateway.oldports import OnPort


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sockets", help="open descriptors, with commas between")
    parser.add_argument("--proxy-headers", action="store_true", help="believe a local TLS proxy")
    options = parser.parse_args()
    if options.sockets:
        sockets = [socket.socket(fileno=int(text)) for text in options.sockets.split(",")]
        serve(sockets, behind_tls=options.proxy_headers)
    else:
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "inferdash.settings")
        from django.conf import settings

        try:
            sockets = ports.listen(settings.HOST, settings.PORT)
        except ports.PortError as error:
            sys.exit(f"inferdash: {error}")
        serve(sockets, behind_tls=settings.BEHIND_TLS)


def serve(sockets: list[socket.socket], *, behind_tls: bool) -> None:
    config = _config("inferdash.asgi:application", proxy_headers=behind_tls)
    loop = config.get_loop_factory()
    asyncio.run(_serve(uvicorn.Server(config), sockets), loop_factory=loop)


async def _serve(server: uvicorn.Server, sockets: list[socket.socket]) -> None:
    """The pages and the gateway, and beside them the ports that programs knew before."""
    from inferdash.asgi import gateway
    from servers.gateway.oldports import OldPorts

    beside = asyncio.create_task(OldPorts(gateway, _on_port).run())
    try:
        await server.serve(sockets)
    finally:
        beside.cancel()
        await asyncio.gather(beside, return_exceptions=True)


async def _on_port(application: "OnPort", port: int) -> None:
    from django.conf import settings

    from servers.gateway.oldports import PortTakenError

    try:
        bound = ports.listen(settings.HOST, port)
    except ports.PortError as error:
        raise PortTakenError(str(error).partition(" Choose another")[0]) from error
    server = _Beside(_config(application, proxy_headers=False))
    try:
        await server.serve(bound)
    except asyncio.CancelledError:
        server.should_exit = True
        await server.shutdown(bound)
        raise
    finally:
        for each in bound:
            each.close()


class _Beside(uvicorn.Server):
    """Signals are for the one whose process it is."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def _config(application: "str | OnPort", *, proxy_headers: bool) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        proxy_headers=proxy_headers,
        access_log=False,
        log_config=None,  # Django's own
        log_level="warning",
        lifespan="off",
        server_header=False,
        # Pages ask for lines of a log, and say no more.
        ws_max_size=64 * 1024,
        http=BoundedHeads,
        # Browsers hold a socket open all day: do not wait for them to leave.
        timeout_graceful_shutdown=3,
    )


if __name__ == "__main__":
    main()
