"""The web server: on sockets that the supervisor bound, or on HOST and PORT in a container."""

import argparse
import os
import socket
import sys

import uvicorn

from inferdash.up.heads import BoundedHeads


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

        from inferdash.up import ports

        try:
            sockets = ports.listen(settings.HOST, settings.PORT)
        except ports.PortError as error:
            sys.exit(f"inferdash: {error}")
        serve(sockets, behind_tls=settings.BEHIND_TLS)


def serve(sockets: list[socket.socket], *, behind_tls: bool) -> None:
    server = uvicorn.Server(
        uvicorn.Config(
            "inferdash.asgi:application",
            proxy_headers=behind_tls,
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
    )
    server.run(sockets=sockets)


if __name__ == "__main__":
    main()
