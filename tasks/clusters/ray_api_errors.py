"""What goes wrong with requests to a Ray cluster's dashboard, as errors of ours."""

import re
import ssl
from collections.abc import Callable
from typing import TypeVar

from pydantic import ValidationError

from tasks.errors import Unreachable
from tasks.reporting.redaction import hide_credentials

T = TypeVar("T")


class NotFoundError(Unreachable):
    """The cluster does not know a job.

    As the other two, an answer like any error where nobody asks what it may mean.
    """


class AlreadyThereError(Unreachable):
    """A job of that id was submitted before."""


class TooLargeError(Unreachable):
    """What was sent is more than the cluster takes, or a proxy before it."""


def answered(ask: Callable[[], T], address: str) -> T:
    """The answer to a request, errors as ours; none of them holds a header or a token.

    Args:
        ask: makes the request.
        address: of the cluster, for all to read.

    Raises:
        Unreachable: no answer, or not let in.
        NotFoundError, AlreadyThereError, TooLargeError: the cluster says so.
    """
    from ray.exceptions import AuthenticationError
    from requests import JSONDecodeError, RequestException

    try:
        return ask()
    except AuthenticationError:
        raise Unreachable(
            f"cluster.address: {address} refuses access: give the token in a RayCluster block, or "
            "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN"
        ) from None
    except JSONDecodeError:
        raise no_dashboard(address) from None
    except (ValidationError, LookupError, TypeError) as error:  # of JSON that is not Ray's
        raise no_dashboard(address) from error
    except (RequestException, ConnectionError) as error:
        if (distrust := certificate_problem(error)) is not None:
            raise Unreachable(
                f"cluster.address: {address} and this client do not trust each other "
                f"({distrust}): give ca_file, or the client_certificate_file that it asks for, in "
                "a RayCluster block"
            ) from None
        raise Unreachable(
            f"cluster.address: {address} does not answer ({type(error).__name__}): check that the "
            "cluster runs, that its dashboard listens there, and the network"
        ) from None
    except RuntimeError as error:
        raise translated(address, str(hide_credentials(str(error)))) from None


def no_dashboard(address: str) -> Unreachable:
    """What to raise where something else answers."""
    return Unreachable(
        f"cluster.address: {address} does not answer like a Ray dashboard: give the dashboard's "
        "own URL, and the headers that a proxy in front of it asks for"
    )


def certificate_problem(error: BaseException) -> str | None:
    """What TLS has to say against a certificate, theirs or ours; None where it is not that."""
    chain: BaseException | None = error
    while chain is not None:
        if isinstance(chain, ssl.SSLError):
            return getattr(chain, "verify_message", None) or chain.reason or str(chain)
        chain = chain.__context__
    return None


def translated(address: str, message: str) -> Unreachable:
    """What Ray's client says in words, as an exception."""
    lines = [line.strip() for line in message.strip().splitlines() if line.strip()]
    said = f"{lines[0]} ... {lines[-1]}" if len(lines) > 1 else " ".join(lines)
    return kind_of(message)(f"cluster.address: {address} answers with an error: {said[:500]}")


def kind_of(message: str) -> type[Unreachable]:
    """The kind of error that Ray's client says in words."""
    if "already exists" in message:
        return AlreadyThereError
    if re.search(r"status code 404: Job \S+ does not exist", message):
        return NotFoundError
    return TooLargeError if "status code 413" in message else Unreachable
