"""The web server on sockets that the supervisor bound."""

import argparse
import socket

import uvicorn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sockets", required=True, help="open descriptors, with commas between")
    parser.add_argument("--proxy-headers", action="store_true", help="believe a local TLS proxy")
    options = parser.parse_args()
    server = uvicorn.Server(
        uvicorn.Config(
            "inferdash.asgi:application",
            proxy_headers=options.proxy_headers,
            access_log=False,
            log_config=None,  # Django's own
            log_level="warning",
            lifespan="off",
            server_header=False,
            # Browsers hold a socket open all day: do not wait for them to leave.
            timeout_graceful_shutdown=3,
        )
    )
    server.run(sockets=[socket.socket(fileno=int(text)) for text in options.sockets.split(",")])


if __name__ == "__main__":
    main()
