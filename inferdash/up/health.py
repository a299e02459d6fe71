"""The health check of the web container: exit code 0 while it answers."""

import os
import ssl
import sys

PATIENCE = 5.0  # seconds


def make_unverified_context() -> ssl.SSLContext:
    """For a question to oneself on loopback, which a certificate for a name does not cover."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    return made


def main() -> int:
    import http.client  # not into the memory of the supervisor, which only wants the above

    host = os.environ.get("HOST") or "127.0.0.1"
    # On any other address it listens on loopback too; allowed hosts always have that.
    where = "::1" if host in ("::", "::1") else "127.0.0.1"
    port = int(os.environ.get("PORT") or 8470)
    is_tls = os.environ.get("TLS") or os.environ.get("TLS_CERT")
    connection = (
        http.client.HTTPSConnection(
            where, port, timeout=PATIENCE, context=make_unverified_context()
        )
        if is_tls
        else http.client.HTTPConnection(where, port, timeout=PATIENCE)
    )
    try:
        connection.request("GET", "/login/")
        status = connection.getresponse().status
    except OSError as error:
        print(f"The web process does not answer: {error}", file=sys.stderr)
        return 1
    if status != http.client.OK:
        print(f"The web process answers {status}.", file=sys.stderr)
    return int(status != http.client.OK)


if __name__ == "__main__":
    sys.exit(main())
