"""The ports of a hub's 127.0.0.1 that its boxes reach over ssh, each passed on to a Unix socket.

PostgreSQL and Redis need no network for it, and both ask a box for its own password.
"""

import asyncio
import os
import signal
from contextlib import suppress

DATABASE = "/run/postgresql/.s.PGSQL.5432"
_PIECE = 65536  # bytes


def main() -> None:
    # By name, as the data folder with the other settings is none of this container's business.
    database = int(os.environ.get("INFERDASH_HUB_DATABASE_PORT") or 8472)
    redis = int(os.environ.get("INFERDASH_HUB_REDIS_PORT") or 8473)
    asyncio.run(serve({database: DATABASE, redis: os.environ["INFERDASH_REDIS_SOCKET"]}))


async def serve(sockets: dict[int, str]) -> None:
    """Until SIGTERM. Raises OSError where a port is taken."""
    stopping = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, stopping.set)
    for port, path in sockets.items():

        async def take(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str = path
        ) -> None:
            await _connect(reader, writer, path)

        await asyncio.start_server(take, "127.0.0.1", port)
        print(f"inferdash: 127.0.0.1:{port} leads to {path}", flush=True)
    await stopping.wait()


async def _connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> None:
    try:
        far_reader, far_writer = await asyncio.open_unix_connection(path)
    except OSError as error:
        print(f"inferdash: {path} does not answer: {error}", flush=True)
        writer.close()
        return
    await asyncio.gather(_carry(reader, far_writer), _carry(far_reader, writer))


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Neither protocol closes one way alone: who ends, ends both."""
    with suppress(OSError):
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()
    writer.close()


if __name__ == "__main__":
    main()
