"""Files behind a web server, each under a URL of its own."""

from typing import Any

from fsspec.implementations.http import HTTPFileSystem

GONE = (404, 410)


class WebFiles(HTTPFileSystem):
    """fsspec's, which says of a server that does not answer that nothing is there.

    A web server lists no files: what fsspec makes of the links in a page may be some of them.
    """

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

    def _raise_not_found_for_status(self, response: Any, url: str) -> None:
        """Raise FileNotFoundError where the server has no such file, else what it answered."""
        if response.status in GONE:
            raise FileNotFoundError(url)
        response.raise_for_status()

    async def _find(self, path: str, detail: bool = False, **kwargs: Any) -> Any:
        """The file itself."""
        found = {path: await self._info(path)}
        return found if detail else [*found]
