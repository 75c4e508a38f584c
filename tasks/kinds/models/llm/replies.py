"""Reads replies of OpenAI's form."""

from typing import Any

from tasks.kinds.models.llm.answers import Generated
from tasks.kinds.models.llm.verdicts import GIVEN_UP, Reply, TryAgain


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
        data = sorted(reply["data"], key=lambda each: each["index"])
        vectors = [each["embedding"] for each in data]
    except (KeyError, TypeError) as error:
        raise TryAgain(f"answered without embeddings, with {sorted(reply)}") from error
    if len(vectors) != rows:
        raise TryAgain(f"answered with {len(vectors)} embeddings for {rows} texts")
    if not all(isinstance(each, list) for each in vectors):
        raise ValueError("the server gave no list of numbers for this row")
    return vectors


def only_choice(reply: Reply, rows: int) -> dict[str, Any]:
    """What a reply offers.

    Raises:
        TryAgain: nothing, or more than one thing.
    """
    choices = reply.get("choices")
    if not isinstance(choices, list) or len(choices) != rows:
        raise TryAgain(f"answered without one choice for each row, with {sorted(reply)}")
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
        raise TryAgain(f"gave an answer up; finish_reason is {reason}")
    text = joined(text)
    if refusal or not isinstance(text, str):
        why = f"the model refused: {refusal}" if refusal else f"finish_reason is {reason}"
        raise ValueError(f"the answer holds no text; {why}")
    usage = reply.get("usage") or {}
    return Generated(
        text,
        reason,
        usage.get("prompt_tokens"),
        usage.get("completion_tokens"),
        reply.get("model"),
        reply.get("system_fingerprint"),
    )


def joined(text: object) -> object:
    """A text that comes in parts, without those that are none, such as the model's reasoning."""
    if not isinstance(text, list):
        return text
    parts = [each["text"] for each in text if isinstance(each, dict) and each.get("type") == "text"]
    return "".join(parts) if parts and all(isinstance(each, str) for each in parts) else None
