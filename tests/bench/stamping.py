"""Programs of the bench of links: an engine whose chunks carry when they were sent, and a relay.

`python -m tests.bench.stamping engine` prints its port; `… relay PATH SECRET` listens there.
"""

import asyncio
import sys
import time
from pathlib import Path

from servers.host.links.relay import Relay

CHUNK = 200  # bytes
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def _make_chunk() -> bytes:
    said = f"{time.monotonic_ns():020d}".encode().ljust(CHUNK - 1) + b"\n"
    return f"{CHUNK:x}\r\n".encode() + said + b"\r\n"


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """As many chunks as the path says, so many seconds apart: /COUNT/SECONDS; 0: all at once."""
    try:
        while True:
            path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1]
            count, pause = int(path.split(b"/")[1]), float(path.split(b"/")[2])
            writer.write(_HEAD)
            begin = time.monotonic()
            for number in range(count):
                if pause:
                    await asyncio.sleep(max(0.0, begin + number * pause - time.monotonic()))
                writer.write(_make_chunk())
                await writer.drain()
            writer.write(b"0\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def _serve_engine() -> None:
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def _serve_relay(path: Path, secret: str) -> None:
    async def allow(_address: str, _port: int) -> bool:
        return True

    relay = Relay(read_secret=lambda: secret, is_allowed=allow)
    server = await relay.listen(path)
    print(flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    if sys.argv[1] == "engine":
        asyncio.run(_serve_engine())
    else:
        asyncio.run(_serve_relay(Path(sys.argv[2]), sys.argv[3]))
