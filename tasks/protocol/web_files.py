"""Files behind a web server, each under a URL of its own."""

import io
import re
import shutil
from collections.abc import Callable
from contextlib import closing
from functools import partial
from tempfile import TemporaryFile
from typing import IO, Any
from urllib.parse import urlsplit

from aiohttp import ClientTimeout
from fsspec.asyn import sync, sync_wrapper
from fsspec.implementations.http import HTTPFile, HTTPFileSystem, HTTPStreamFile
from yarl import URL

from tasks.protocol.client_errors import as_oserror

GONE = (404, 410)
PARTIAL_CONTENT = 206
ENCODED = re.compile(r"(?:[\w.~:/?#@!$&'()*+,;=-]|%[0-9a-fA-F]{2})*", re.ASCII)
COMPRESSED = (".gz", ".tgz", ".zst")
"""Endings of files by what an answer may be compressed with, too."""
PATIENCE = ClientTimeout(total=None, sock_connect=60, sock_read=300)
"""With an answer: it may be a large file, or one of which rows are predicted while it comes."""


class FileInParts(HTTPFile):
    """fsspec's, which says of a server that breaks off in the words of its client."""

    async def async_fetch_range(self, start: int, end: int) -> bytes:
        """Bytes from one place to another.

        Raises:
            ConnectionError: the server does not answer, or not to the end.
        """
        with as_oserror():
            found: bytes = await super().async_fetch_range(start, end)
        return found

    _fetch_range = sync_wrapper(async_fetch_range)


class FileAsItComes(io.RawIOBase):
    """A file that its server sends from its beginning to its end alone.

    Whoever reads on has it as it comes; whoever seeks in it, as Parquet has to, from a copy.
    """

    def __init__(self, begin: Callable[[], IO[bytes]]) -> None:
        super().__init__()
        self.begin, self.is_copied = begin, False
        self.file: IO[bytes] = io.BytesIO()  # for whoever lets go of this where none is sent
        with as_oserror():
            self.file = begin()

    def readable(self) -> bool:
        """It is; Python's buffers ask."""
        return True

    def seekable(self) -> bool:
        """It is, at the cost of a copy."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, or a part of it; nothing at the end.

        Raises:
            ConnectionError: the server does not answer, or not to the end.
        """
        with as_oserror():
            data = self.file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go somewhere else.

        Raises:
            ConnectionError: the server does not answer, or not to the end.
        """
        here = self.file.tell()
        if (whence, offset) in ((io.SEEK_CUR, 0), (io.SEEK_SET, here)):
            return here
        if not self.is_copied:
            self.copy(here)
        return self.file.seek(offset, whence)

    def copy(self, position: int) -> None:
        """Have the file on this machine's disk as long as it is open."""
        self.file.close()
        self.file = TemporaryFile()  # noqa: SIM115 - closed as this is
        with as_oserror(), closing(self.begin()) as arriving:
            shutil.copyfileobj(arriving, self.file)
        self.is_copied = True
        self.file.seek(position)

    def close(self) -> None:
        """Let go of the answer, or the copy."""
        self.file.close()
        super().close()


class WebFiles(HTTPFileSystem):
    """fsspec's, which says of a server that does not answer that nothing is there.

    A web server lists no files: what fsspec makes of the links in a page may be some of them.
    Proxies are those of the environment, as other clients take them.
    """

    def __init__(self, client_kwargs: dict[str, Any] | None = None, **options: Any) -> None:
        ours = {"trust_env": True, "timeout": PATIENCE}
        super().__init__(client_kwargs=ours | (client_kwargs or {}), **options)

    async def _info(self, url: str, **kwargs: Any) -> dict[str, Any]:
        """Size, ETag and the like of a file.

        Raises:
            FileNotFoundError: the server has none.
            ConnectionError: the server does not answer, or does not say.
        """
        try:
            info: dict[str, Any] = await super()._info(url, **kwargs)
        except FileNotFoundError as error:
            cause = error.__cause__
            if getattr(cause, "status", None) in GONE:
                raise
            raise ConnectionError(f"{type(cause).__name__}: {cause}") from cause
        return info

    def encode_url(self, url: str) -> URL:
        """A URL as it is asked for: as it is written, where nothing in it has to be encoded.

        Otherwise %2F would become /, and what a server has signed would be another URL.
        """
        return URL(url, encoded=True) if ENCODED.fullmatch(url) else super().encode_url(url)

    def _raise_not_found_for_status(self, response: Any, url: str) -> None:
        """Raise FileNotFoundError where the server has no such file, else what it answered."""
        if response.status in GONE:
            raise FileNotFoundError(url)
        response.raise_for_status()

    def _open(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
        """Open for reading: part by part, where the server sends parts of files.

        Many send the whole whatever is asked for, as `python -m http.server`, or do not say how
        much that is.

        Raises:
            FileNotFoundError: the server has none.
            ConnectionError: the server does not answer, or does not say.
        """
        info = self.info(path)
        size, wanted = info["size"], self.block_size
        session = sync(self.loop, self.set_session)
        asking = {"mode": mode, "loop": self.loop, "session": session, **self.kwargs}
        may = size and wanted and info.get("partial", True)
        if may and (size <= wanted or sync(self.loop, self.sends_parts, path)):
            cache = {"cache_type": kwargs.get("cache_type") or self.cache_type}
            return FileInParts(self, path, block_size=wanted, size=size, **cache, **asking)
        if is_compressed(path):
            asking |= {"auto_decompress": False, "headers": as_it_is(self.kwargs)}
        return FileAsItComes(partial(HTTPStreamFile, self, path, **asking))

    async def sends_parts(self, url: str) -> bool:
        """Whether the server sends a part of a file to whoever asks for it.

        Raises:
            FileNotFoundError: the server has none.
            ConnectionError: the server does not answer, or does not say.
        """
        session = await self.set_session()
        headers = {**self.kwargs.get("headers", {}), "Range": "bytes=1-1"}
        asking = {**self.kwargs, "headers": headers}
        with as_oserror():
            async with session.get(self.encode_url(url), **asking) as response:
                self._raise_not_found_for_status(response, url)
                return bool(response.status == PARTIAL_CONTENT)

    async def _find(self, path: str, detail: bool = False, **kwargs: Any) -> Any:
        """The file itself."""
        found = {path: await self._info(path)}
        return found if detail else [*found]


def is_compressed(url: str) -> bool:
    """Whether a file's name says that it is compressed.

    Of such a one some servers, and whoever put it into a bucket, say the same by Content-Encoding,
    as they do of answers that are compressed on their way: the client would decompress it, and
    whoever reads it find it damaged.
    """
    return urlsplit(url).path.lower().endswith(COMPRESSED)


def as_it_is(asking: dict[str, Any]) -> dict[str, str]:
    """Headers for a file that is not to be compressed on its way."""
    return {"Accept-Encoding": "identity", **asking.get("headers", {})}
