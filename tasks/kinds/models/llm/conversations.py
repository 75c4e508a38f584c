"""Prompts as conversations: lists of {role, content}."""

from typing import Any

import pyarrow as pa

from tasks.kinds.models.arrays import column_of

Message = dict[str, Any]
Conversation = list[Message]
SAYS = {"content", "tool_calls"}
"""What a message says something in: one that calls tools has as a rule no words."""
TELLS_FIRST = ("system", "developer")
"""Roles of what a model is told before all else; some servers refuse both in one conversation."""


def conversations_of(rows: pa.Table, column: str, system_prompt: str | None) -> list[Conversation]:
    """Each row's messages: a text is what the user says.

    Raises:
        ValueError: a row has no text and no messages.
    """
    return [
        with_system_prompt(messages_of(value, column), system_prompt)
        for value in column_of(rows, column).to_pylist()
    ]


def prompts_of(rows: pa.Table, column: str, *, chat: bool, system_prompt: str | None) -> list[Any]:
    """What each row asks: messages, a text, or the ValueError that sets it aside."""

    def prompt_of(value: object) -> Any:
        try:
            if chat:
                return with_system_prompt(messages_of(value, column), system_prompt)
            return text_of(value, column)
        except ValueError as error:
            return error

    return [prompt_of(each) for each in column_of(rows, column).to_pylist()]


def messages_of(value: object, column: str) -> Conversation:
    """One row's messages.

    Raises:
        ValueError: it has something else.
    """
    if isinstance(value, str) and value:
        return [{"role": "user", "content": value}]
    messages = [known(each) for each in value] if isinstance(value, list) else []
    if not messages or not all("role" in each and SAYS & each.keys() for each in messages):
        what = "is empty" if not value else "has something else"
        problem = f"column {column!r} {what} in this row; it must be a text or messages of "
        raise ValueError(f"{problem}{{role, content}}")
    return messages


def text_of(value: object, column: str) -> str:
    """One row's text.

    Raises:
        ValueError: it has none.
    """
    if isinstance(value, str) and value:
        return value
    what = "has something else" if value else "is empty"
    raise ValueError(f"column {column!r} {what} in this row; it must be a text")


def known(message: object) -> Message:
    """A message's fields; Arrow gives all rows those that any row has, empty where they lack."""
    return without_gaps(message) if isinstance(message, dict) else {}


def without_gaps(value: Any) -> Any:
    """A value without empty fields, at any depth: content may be a list of parts."""
    if isinstance(value, dict):
        return {name: without_gaps(each) for name, each in value.items() if each is not None}
    return [without_gaps(each) for each in value] if isinstance(value, list) else value


def with_system_prompt(messages: Conversation, system_prompt: str | None) -> Conversation:
    """Messages with what the model is told first, unless they say so themselves."""
    if system_prompt is None or messages[0]["role"] in TELLS_FIRST:
        return messages
    return [{"role": "system", "content": system_prompt}, *messages]
