"""TLS with one's own web process, without more than the supervisor has in its memory anyway."""

import ssl


def make_unverified_context() -> ssl.SSLContext:
    """For a question to oneself on loopback, which a certificate for a name does not cover."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    return made
