"""A web server on loopback."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

from aiohttp import web
from aiohttp.typedefs import Handler

LOOK_EVERY_SECONDS, LOOKS = 0.01, 3_000
"""How often it is seen whether more ask, and how many times before nobody is waited for."""


@dataclass
class WebServer:
    """Files of a folder, or the same trouble for whoever asks."""

    folder: Path
    address: str = ""
    trouble: int | None = None
    """Status of every answer, where there is trouble."""
    sends_whole: bool = False
    """Whether a file comes whole whatever part is asked for, and without a word of what it is."""
    says_size: bool = True
    """Whether it says how long one is that comes so."""
    asked: list[str] = field(default_factory=list)
    """Paths of all that was asked for, as they were sent."""
    encoding: str | None = None
    """What it says that one is compressed with that comes so."""
    breaks_off: bool = False
    """Whether one that comes so ends before its end."""
    pause: float = 0
    """Seconds between its halves."""
    at_once: int = 0
    """How many have to wait for an answer at the same time before any has one."""
    asking: int = 0
    most_asking: int = 0
    """Who wait for an answer now, and at most."""

    def url(self, name: str) -> str:
        """A file's address."""
        return f"{self.address}/{name}"


@contextmanager
def web_server(folder: Path) -> Iterator[WebServer]:
    """A server of a folder's files on a free port, with ETags and ranges."""
    server = WebServer(folder)

    async def whole(request: web.Request) -> web.StreamResponse:
        data = (folder / request.path.strip("/")).read_bytes()
        encoded = {"Content-Encoding": server.encoding} if server.encoding else {}
        response = web.StreamResponse(headers=encoded)
        if server.says_size:
            response.content_length = len(data)
        else:
            response.enable_chunked_encoding()
        await response.prepare(request)
        if request.method == "GET":
            half = len(data) // 2
            await response.write(data[:half])
            await asyncio.sleep(server.pause)
            await response.write(b"" if server.breaks_off else data[half:])
        if server.breaks_off and request.transport:
            request.transport.close()
        return response

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        server.asked.append(request.raw_path)
        server.asking += 1
        server.most_asking = max(server.most_asking, server.asking)
        for _ in range(LOOKS):
            if server.most_asking >= server.at_once:
                break
            await asyncio.sleep(LOOK_EVERY_SECONDS)
        else:
            server.at_once = 0  # no more will come
        server.asking -= 1
        if server.trouble:
            return web.Response(status=server.trouble)
        return await (whole if server.sends_whole else handler)(request)

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
