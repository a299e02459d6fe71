"""The web server: on sockets that the supervisor bound, or on HOST and PORT in a container."""

import argparse
import asyncio
import logging
import os
import socket
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn

from inferdash.tls.chosen import Certificates
from inferdash.tls.pair import CertificateError
from inferdash.up import plan, ports
from inferdash.up.connections import BoundedHeads, EncryptedServer, RestingServer

if TYPE_CHECKING:
    from servers.gateway.legacy_ports import PortStatus

log = logging.getLogger("inferdash.web")  # it runs as __main__


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sockets", help="open descriptors, with commas between")
    parser.add_argument("--proxy-headers", action="store_true", help="believe a local TLS proxy")
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "inferdash.settings")
    from django.conf import settings

    try:
        certificates = Certificates(settings) if settings.SERVES_TLS else None
        if options.sockets:
            sockets = [socket.socket(fileno=int(text)) for text in options.sockets.split(",")]
            serve(sockets, behind_tls=options.proxy_headers, certificates=certificates)
            return
        sockets = ports.listen(settings.HOST, settings.PORT)
    except (ports.PortError, CertificateError) as error:
        sys.exit(f"inferdash: {error}")
    _tell(certificates)
    serve(sockets, behind_tls=settings.BEHIND_TLS, certificates=certificates)


def _tell(certificates: Certificates | None) -> None:
    """What the supervisor of make up says."""
    import django
    from django.conf import settings

    django.setup()  # for its log
    for note in certificates.list_notes() if certificates else []:
        log.info(note)
    is_encrypted = settings.SERVES_TLS or settings.BEHIND_TLS
    told = plan.warnings(settings.HOST, settings.PORT, is_encrypted=is_encrypted)
    for warning in [*told, *(certificates.warnings() if certificates else [])]:
        log.warning(warning)


def serve(
    sockets: list[socket.socket], *, behind_tls: bool, certificates: Certificates | None
) -> None:
    config = _config("inferdash.asgi:application", proxy_headers=behind_tls)
    loop = config.get_loop_factory()
    asyncio.run(_serve(config, sockets, certificates), loop_factory=loop)


async def _serve(
    config: uvicorn.Config, sockets: list[socket.socket], certificates: Certificates | None
) -> None:
    """The pages and the gateway, and beside them the ports that programs knew before."""
    from inferdash.asgi import gateway
    from servers.gateway.legacy_ports import LegacyPorts

    async def on_port(application: "PortStatus", bound: list[socket.socket]) -> None:
        await _on_port(application, bound, certificates)

    beside = [asyncio.create_task(LegacyPorts(gateway, _bind, on_port).run())]
    server = RestingServer(config)
    if certificates is not None:
        server = EncryptedServer(config, certificates.context)
        beside.append(asyncio.create_task(certificates.run()))
    try:
        await server.serve(sockets)
    finally:
        for each in beside:
            each.cancel()
        await asyncio.gather(*beside, return_exceptions=True)


def _bind(port: int) -> list[socket.socket]:
    from django.conf import settings

    from servers.gateway.legacy_ports import PortTakenError

    try:
        return ports.listen(settings.HOST, port)
    except ports.PortError as error:
        raise PortTakenError(str(error).partition(" Choose another")[0]) from error


async def _on_port(
    application: "PortStatus", bound: list[socket.socket], certificates: Certificates | None
) -> None:
    config = _config(application, proxy_headers=False)
    server = _Beside(config) if certificates is None else _EncryptedBeside(config, certificates)
    try:
        await server.serve(bound)
    except asyncio.CancelledError:
        server.should_exit = True
        await server.shutdown(bound)
        raise


class _Beside(RestingServer):
    """Signals are for the one whose process it is."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


class _EncryptedBeside(_Beside, EncryptedServer):
    def __init__(self, config: uvicorn.Config, certificates: Certificates) -> None:
        # Programs go on as they knew the engine there, until they are told https.
        super().__init__(config, certificates.context, takes_plain=True)


def _config(application: "str | PortStatus", *, proxy_headers: bool) -> uvicorn.Config:
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
