"""Reads replies of OpenAI's form."""

import json
from typing import Any

from tasks.kinds.models.llm.answers import Generated
from tasks.kinds.models.llm.reply_outcomes import GIVEN_UP, Reply, TryAgain

MOST_TOKENS = 2**31 - 1
"""That their column holds."""


def read_chat(reply: Reply, *, rows: int) -> list[Generated]:
    """The text of the one choice.

    Raises:
        ValueError: a filter stopped it, or the model refused: the row's fault.
        TryAgain: it is no such reply.
    """
    choice = only_choice(reply, rows)
    message = choice.get("message") or {}
    refusal = message.get("refusal")
    return [generated(reply, choice, message.get("content"), refusal)]


def read_completion(reply: Reply, *, rows: int) -> list[Generated]:
    """The text of the one choice.

    Raises:
        ValueError: a filter stopped it: the row's fault.
        TryAgain: it is no such reply.
    """
    choice = only_choice(reply, rows)
    return [generated(reply, choice, choice.get("text"), None)]


def read_embeddings(reply: Reply, *, rows: int) -> list[list[float]]:
    """A vector for each text, in the texts' order.

    Raises:
        ValueError: one of a text is no list: the row's fault.
        TryAgain: it is no such reply, or not of so many texts.
    """
    try:
        by_index = {int(each["index"]): each["embedding"] for each in reply["data"]}
        given = len(reply["data"])
    except (KeyError, TypeError, ValueError) as error:
        said = f"answered without embeddings, with {sorted(reply)}"
        raise TryAgain(said, is_broken=True) from error
    if given != rows:
        raise TryAgain(f"answered with {given} embeddings for {rows} texts", is_broken=True)
    if len(by_index) != rows:
        raise TryAgain(
            f"answered with embeddings of the same index for {rows} texts, so which belongs to "
            "which text is unknown: set model.texts_per_request to 1"
        )
    vectors = [by_index[at] for at in sorted(by_index)]
    if not all(isinstance(each, list) for each in vectors):
        raise ValueError("the server gave no list of numbers for this row")
    if any(isinstance(number, list) for each in vectors for number in each):
        problem = (
            "the server gave a list of vectors for this row: configure it to pool them into one"
        )
        raise ValueError(problem)
    return vectors


def only_choice(reply: Reply, rows: int) -> dict[str, Any]:
    """What a reply offers.

    Raises:
        TryAgain: nothing, or more than one thing.
    """
    choices = reply.get("choices")
    if not isinstance(choices, list) or len(choices) != rows:
        said = f"answered without one choice for each row, with {sorted(reply)}"
        raise TryAgain(said, is_broken=True)
    choice: dict[str, Any] = choices[0]
    return choice


def generated(reply: Reply, choice: dict[str, Any], text: object, refusal: object) -> Generated:
    """A choice's text.

    Raises:
        ValueError: there is none, or less than the model would have said.
        TryAgain: the server has stopped in the middle, as one does that is shut down.
    """
    reason = choice.get("finish_reason")
    if reason == "content_filter":
        raise ValueError("the server's content filter stopped the answer")
    if reason in GIVEN_UP:
        said = f"did not finish an answer; finish_reason is {reason}"
        raise TryAgain(said, is_broken=True)
    text = joined(text)
    if refusal or not isinstance(text, str):
        why = f"the model refused: {refusal}" if refusal else f"finish_reason is {reason}"
        raise ValueError(f"the answer has no text; {why}")
    return Generated(
        text,
        as_text(reason),
        tokens_used(reply, "prompt_tokens"),
        tokens_used(reply, "completion_tokens"),
        as_text(reply.get("model")),
        as_text(reply.get("system_fingerprint")),
    )


def as_text(value: object) -> str | None:
    """What a server says of an answer, which is none the worse if it says so by a number."""
    return value if value is None or isinstance(value, str) else json.dumps(value)


def tokens_used(reply: Reply, name: str) -> int | None:
    """Tokens that an answer cost; None where the server gives no such number."""
    given = (reply.get("usage") or {}).get(name)
    try:
        found = int(given) if given is not None else None
    except (TypeError, ValueError, OverflowError):
        return None
    return found if found is not None and 0 <= found <= MOST_TOKENS else None


def joined(text: object) -> object:
    """A text that comes in parts, without those that are none, such as the model's reasoning."""
    if not isinstance(text, list):
        return text
    parts = [each["text"] for each in text if isinstance(each, dict) and each.get("type") == "text"]
    return "".join(parts) if parts and all(isinstance(each, str) for each in parts) else None
