"""Whether a server is there, lets us in and has the model: found out before anything is held."""

from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from tasks.errors import InvalidSpec, Unreachable
from tasks.kinds.models.llm.credentials import Credentials
from tasks.kinds.models.llm.reply_outcomes import NO_SUCH_PLACE, Refused, TryAgain, reply_of

if TYPE_CHECKING:
    import httpx

Request = dict[str, Any]
PATIENCE_SECONDS = 20.0
SHOWN_NAMES = 10
TELL_NOTHING = (*NO_SUCH_PLACE, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS)
"""Replies to a request for the list: keys may be good for answers only."""


def check_server(
    url: str,
    credentials: Credentials,
    model: str,
    path: str,
    trial: Request,
    wanted: Request,
) -> None:
    """Look for the model in the server's list; where it is not, ask for one token.

    Args:
        url: of the API.
        credentials: to get in.
        model: as the server knows it.
        path: of the requests to come.
        trial: body of the smallest such request.
        wanted: what it is to say of an answer's form; the server is asked whether it takes that.

    Raises:
        InvalidSpec: a wrong address, key or model, or the server takes no such form.
        Unreachable: the server does not answer.
    """
    import httpx

    try:
        with httpx.Client(
            base_url=url, headers=credentials.headers, timeout=PATIENCE_SECONDS
        ) as client:
            names = names_of(client.get("models"), url)
            if model not in names:
                check_trial(client.post(path, json=trial), url, names)
            if wanted:
                check_form(lambda body: client.post(path, json=body), url, trial, wanted)
    except httpx.RequestError as error:
        said = credentials.hide(f"{type(error).__name__} {error}".strip())
        raise Unreachable(f"model.url: {url!r} does not answer: {said}") from None
    except TryAgain as error:
        raise Unreachable(f"model.url: {url!r} {credentials.hide(str(error))}") from None
    except InvalidSpec as error:
        raise InvalidSpec(credentials.hide(str(error))) from None


def names_of(response: "httpx.Response", url: str) -> list[str]:
    """The models that a server lists; not all servers do, or as OpenAI's, or all that they have.

    Raises:
        InvalidSpec: it does not let us in.
    """
    if response.status_code in TELL_NOTHING:
        return []
    try:
        listed = reply_of(response, url).get("data")
    except (Refused, TryAgain):  # whether it answers, a request like those to come will tell
        return []
    found = listed if isinstance(listed, list) else []
    return [str(each.get("id")) for each in found if isinstance(each, dict)]


def check_trial(response: "httpx.Response", url: str, names: list[str]) -> None:
    """See that the server takes requests for the model; it may refuse this one.

    Raises:
        InvalidSpec: it does not; names the models that it has.
        TryAgain: it cannot answer now.
    """
    try:
        refusal(response, url)
    except InvalidSpec as error:
        listed = f"; its models are {', '.join(names[:SHOWN_NAMES])}" if names else ""
        raise InvalidSpec(f"{error}{listed}") from None


def check_form(
    ask: Callable[[Request], "httpx.Response"], url: str, trial: Request, wanted: Request
) -> None:
    """See that the server takes requests for answers of a form.

    Args:
        ask: sends a request.
        url: of the API.
        trial: the smallest request.
        wanted: what it is to say of the form.

    Raises:
        InvalidSpec: it takes the same request without only.
        TryAgain: it cannot answer now.
    """
    refused = refusal(ask(trial | wanted), url)
    if refused is not None and refusal(ask(trial), url) is None:
        raise InvalidSpec.at(
            "model.answer_schema",
            wanted,
            f"is refused by the server ({refused}): change the schema, or set "
            "model.options.response_format to a form that it accepts, such as {type: text}; "
            "answers are still checked against the schema",
        )


def refusal(response: "httpx.Response", url: str) -> Refused | None:
    """Why a server takes no such request; None of one that does, or has too many for now.

    Raises:
        InvalidSpec: it takes no request at all.
        TryAgain: it cannot answer now.
    """
    try:
        reply_of(response, url)
    except Refused as error:
        return error
    except TryAgain:
        if response.status_code != HTTPStatus.TOO_MANY_REQUESTS:  # that can wait for the run
            raise
    return None
