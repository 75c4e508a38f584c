"""A web server on loopback."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from aiohttp import web
from aiohttp.typedefs import Handler


@dataclass
class WebServer:
    """Files of a folder, or the same trouble for whoever asks."""

    folder: Path
    address: str = ""
    trouble: int | None = None
    """Status of every answer, where there is trouble."""

    def url(self, name: str) -> str:
        """A file's address."""
        return f"{self.address}/{name}"


@contextmanager
def web_server(folder: Path) -> Iterator[WebServer]:
    """A server of a folder's files on a free port, with ETags and ranges."""
    server = WebServer(folder)

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        return web.Response(status=server.trouble) if server.trouble else await handler(request)

    async def start() -> web.AppRunner:
        app = web.Application(middlewares=[answer])
        app.router.add_static("/", folder)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        server.address = f"http://{host}:{port}"
        return runner

    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()
    runner = asyncio.run_coroutine_threadsafe(start(), loop).result(30)
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
