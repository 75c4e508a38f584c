"""What a server's reply means: an answer, a bad row, a wrong spec, or a moment to wait."""

import email.utils
import re
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from tasks.errors import InvalidSpec

if TYPE_CHECKING:
    import httpx

Reply = dict[str, Any]
OF_THE_ROW = (400, 413, 422)
"""The request itself is refused: too long, filtered, not what the model takes."""
WORTH_ANOTHER_TRY = (408, 409, 425, 429)
"""Beside those from 500 on."""
TIMED_OUT = (504, 524)
"""What a gateway says, and Cloudflare's, that has waited for an answer for as long as it does."""
NO_SUCH_PLACE = (404, 405)
HINTS = {
    401: "see model.api_key_env",
    402: "see the account",
    403: "check model.api_key_env and what the key may use",
    404: "check model.model, and model.url, which for most servers ends in /v1",
    405: "check model.url, which for most servers ends in /v1",
}
OUT_OF_MONEY = "insufficient_quota"
"""OpenAI's code for a limit that no waiting lifts, said with the status for too many requests."""
TOO_LARGE = "Request too large"
"""How OpenAI's message begins of a request that alone is more than a minute's tokens, with the
status for too many requests: no waiting helps it."""
GIVEN_UP = ("error", "abort")
"""Finish reasons of answers that a server or an engine has not brought to their end."""
MESSAGE_CHARACTERS = 1_000


class Refused(ValueError):
    """The server refuses this very request: the row's fault."""


class FailedOn(Refused):
    """The server fails on this very request, however often, and answers others."""


class Forbidden(InvalidSpec):
    """The server does not let this request pass: the key's fault, or the text's."""


class TryAgain(Exception):
    """The server cannot answer now: no row's fault, as far as one reply can tell."""

    def __init__(
        self,
        problem: str,
        seconds: float | None = None,
        *,
        is_broken: bool = False,
        is_late: bool = False,
    ) -> None:
        super().__init__(problem)
        self.seconds = seconds
        """How long the server asks to wait; None where it does not say."""
        self.is_broken = is_broken
        """Whether servers also fail so on one request that others beside it do not suffer from."""
        self.is_late = is_late
        """Whether the answer did not come in time."""


def reply_of(response: "httpx.Response", url: str) -> Reply:
    """The answer's JSON.

    Raises:
        Refused: the request is at fault.
        InvalidSpec: the spec is at fault, and so all requests.
        TryAgain: nobody is.
    """
    status = response.status_code
    if status == HTTPStatus.OK:
        reply = json_of(response)
        if not is_error(reply):
            return reply
        status = status_within(reply)
    said = f"{status} {message_of(response)}"
    is_too_large = status == HTTPStatus.TOO_MANY_REQUESTS and TOO_LARGE in said
    if status in OF_THE_ROW or is_too_large:
        raise Refused(f"the server refused this row: {said}")
    may_change = status in WORTH_ANOTHER_TRY or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    if may_change and OUT_OF_MONEY not in code_of(response):
        raise TryAgain(
            f"answered {said}",
            seconds_to_wait(response),
            is_broken=status == HTTPStatus.INTERNAL_SERVER_ERROR,
            is_late=status in TIMED_OUT,
        )
    kind = Forbidden if status == HTTPStatus.FORBIDDEN else InvalidSpec
    raise kind.at("model.url", url, f"answered {said}; {hint_of(response, status)}")


def is_error(reply: Reply) -> bool:
    """Whether a reply is an error in spite of its status, as gateways send them."""
    return bool(reply.get("error")) and not (reply.get("choices") or reply.get("data"))


def status_within(reply: Reply) -> int:
    """The status that such an error names; that of a gateway's own trouble where it names none."""
    inner = reply["error"]
    code = str(inner.get("code") if isinstance(inner, dict) else None)
    return int(code) if re.fullmatch(r"[45]\d\d", code) else int(HTTPStatus.BAD_GATEWAY)


def hint_of(response: "httpx.Response", status: int) -> str:
    """What to do about an answer that is the spec's fault."""
    if OUT_OF_MONEY in code_of(response):
        return HINTS[402]
    if response.is_redirect:
        return f"it has moved: use {response.headers.get('location', 'its new address')}"
    return HINTS.get(status, "see model.url")


def json_of(response: "httpx.Response") -> Reply:
    """A reply's JSON object.

    Raises:
        TryAgain: it is something else, as of a proxy.
    """
    try:
        reply = response.json()
    except (ValueError, RecursionError):
        reply = None
    if not isinstance(reply, dict):
        said = f"gave an answer that is not a JSON object: {response.text[:200]!r}"
        raise TryAgain(said, is_broken=True)
    return reply


def error_of(response: "httpx.Response") -> Reply:
    """What a reply says of its error, in the ways of the servers that there are."""
    try:
        reply = json_of(response)
    except TryAgain:
        return {"message": response.text}
    inner = reply.get("error", reply)
    return inner if isinstance(inner, dict) else {"message": inner}


def message_of(response: "httpx.Response") -> str:
    """A reply's message, for people."""
    error = error_of(response)
    said = error.get("message") or error.get("detail") or response.reason_phrase
    return str(said)[:MESSAGE_CHARACTERS]


def code_of(response: "httpx.Response") -> str:
    """A reply's code and type, for machines."""
    error = error_of(response)
    return f"{error.get('code')} {error.get('type')}"


def seconds_to_wait(response: "httpx.Response") -> float | None:
    """What Retry-After says: seconds, or a date, which is by the server's clock and not by ours."""
    given = response.headers.get("retry-after", "")
    try:
        return max(0.0, float(given))
    except ValueError:
        pass
    until = seconds_of(given)
    now = seconds_of(response.headers.get("date", ""))
    return None if until is None else max(0.0, until - (time.time() if now is None else now))


def seconds_of(date: str) -> float | None:
    """A header's date in seconds since the epoch; None where it is none."""
    try:
        return email.utils.parsedate_to_datetime(date).timestamp()
    except ValueError:
        return None
