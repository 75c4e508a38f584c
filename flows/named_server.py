"""A Prefect server that somebody has named, and what is told where it cannot be used."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
from prefect.settings import PREFECT_API_URL

from tasks.clusters.ray_api_errors import certificate_problem
from tasks.errors import BatchInferenceError, InvalidSpec, Unreachable
from tasks.reporting.redaction import hide_credentials

TOO_LONG = "parameters must be less than"
"""What it says of a spec; its answer has the whole of it."""

NO_API = "Failed to reach API at"
"""What its client says of whatever answers as no API of Prefect's does."""


@contextmanager
def trouble_told() -> Iterator[None]:
    """Say what to do where the block fails since the server cannot be used.

    Raises:
        InvalidSpec: it is none, or none of that address.
        Unreachable: it does not answer, or does not let us in.
    """
    try:
        yield
    except BaseException as error:
        if trouble := trouble_with_server(error):
            raise trouble from error
        raise


def trouble_with_server(error: BaseException) -> BatchInferenceError | None:
    """What to tell of an error of Prefect's client; None of any other.

    The server may go away at any time: when all rows are published, too.
    """
    server, cause = PREFECT_API_URL.value(), cause_of(error)
    if server and is_no_api(error) and (cause is None or is_refusal(cause)):
        return elsewhere(server_shown())
    if not server or cause is None or not asked_of(cause).startswith(as_asked(server)):
        return None
    if isinstance(cause, httpx.UnsupportedProtocol):
        problem = "must begin with https:// or http://"
        return InvalidSpec.at("PREFECT_API_URL", server_shown(), problem)
    if TOO_LONG in str(cause):
        return InvalidSpec(
            "the spec is too long for Prefect's server: list folders instead of files, or set "
            "PREFECT_SERVER_API_MAX_PARAMETER_SIZE=0 in its environment"
        )
    return None if is_refusal(cause) else away(server_shown(), cause)


def server_shown() -> str:
    """The server's address, without what lets one in."""
    return str(hide_credentials(PREFECT_API_URL.value() or ""))


def cause_of(error: BaseException | None) -> httpx.HTTPError | None:
    """The client's error behind one that is none of ours; None where there is none."""
    while error is not None and not isinstance(error, (httpx.HTTPError, BatchInferenceError)):
        error = error.__cause__
    return error if isinstance(error, httpx.HTTPError) else None


def as_asked(server: str) -> str:
    """A URL as errors have it: a host in small letters, a port that goes without saying left out.

    Args:
        server: as somebody has written it.
    """
    try:
        return str(httpx.URL(server))
    except httpx.InvalidURL:
        return server


def asked_of(error: httpx.HTTPError) -> str:
    """The URL that could not be asked; empty where nobody knows."""
    try:
        return str(error.request.url)
    except RuntimeError:
        return ""


def is_refusal(error: httpx.HTTPError) -> bool:
    """Whether the server is there, lets us in, and does not take what it was given."""
    if not isinstance(error, httpx.HTTPStatusError):
        return False
    return error.response.status_code < 500 and error.response.status_code not in (401, 403)


def is_no_api(error: BaseException | None) -> bool:
    """Whether something answers that is no API of Prefect's, as its pages for browsers do."""
    while error is not None and not isinstance(error, BatchInferenceError):
        if isinstance(error, RuntimeError) and str(error).startswith(NO_API):
            return True
        error = error.__cause__
    return False


def elsewhere(server: str) -> InvalidSpec:
    """What to raise where there is another server, or another part of Prefect's."""
    at = urlsplit(server)
    whole = "" if "/api" in at.path else f", such as {at.scheme}://{at.netloc}/api"
    problem = f"is not where Prefect's API is: it must end in /api{whole}"
    cloud = "on Prefect Cloud in /api/accounts/ID/workspaces/ID"
    return InvalidSpec.at("PREFECT_API_URL", server, f"{problem}; {cloud}")


def away(server: str, error: httpx.HTTPError) -> Unreachable:
    """What to raise for a server that does not answer."""
    if (distrust := certificate_problem(error)) is not None:
        return Unreachable(
            f"Prefect's server at {server} is not trusted ({distrust}): set "
            "PREFECT_API_SSL_CERT_FILE to the certificate file of its authority"
        )
    return Unreachable(
        f"Prefect's server at {server} does not answer, or refuses access "
        f"({type(error).__name__}): check that it runs, and that PREFECT_API_URL and "
        "PREFECT_API_AUTH_STRING, or PREFECT_API_KEY, are correct; nothing recorded or published "
        "is lost, run again to continue"
    )
