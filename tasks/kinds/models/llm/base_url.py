"""The URL that an OpenAI-compatible server's API begins with."""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

from tasks.kinds.models.llm.http_tasks import PATHS


def as_base(url: str) -> str:
    """A URL that paths can be added to.

    Raises:
        ValueError: it is none; says what is wrong, and shows nothing of it.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
        (parts.hostname or "").encode("idna")  # as who asks for its address does
    except ValueError as error:
        raise ValueError(f"is not a URL: {error}") from None
    if any(each.isspace() or not each.isprintable() for each in url):
        raise ValueError("has a space in it, or a line break or the like")
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError("must name a server, such as http://localhost:8000/v1")
    if set(url) & set("@?#"):
        problem = "has more than a server and a path: put keys in "
        raise ValueError(problem + "model.api_key_env or model.headers_env")
    if added := [path for path in PATHS.values() if parts.path.rstrip("/").endswith(f"/{path}")]:
        raise ValueError(f"ends in {added[0]}, which is added automatically: leave that out")
    return url


BaseUrl = Annotated[str, AfterValidator(as_base)]
