"""Prompts as a model's chat template writes them."""

from typing import Any

import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.kinds.models.arrays import column_of
from tasks.kinds.models.hf.checkpoint import Checkpoint

Message = dict[str, Any]


def check_template(checkpoint: Checkpoint) -> None:
    """See that the tokenizer comes with a template.

    Raises:
        InvalidSpec: it does not.
    """
    if checkpoint.tokenizer().chat_template is None:
        problem = (
            f"needs a chat template, and the tokenizer of {checkpoint.name} has none; leave it out "
            "to hand the prompts on as they are, or give a model that was trained to chat"
        )
        raise InvalidSpec.at("model.options.chat", True, problem)


def chat_tokens(tokenizer: Any, conversations: list[list[Message]], room: int) -> list[list[int]]:
    """Conversations as token numbers, up to where the model is to answer.

    Raises:
        ValueError: the template does not take a conversation, or it is too long.
    """
    if not conversations:
        return []
    encoded = tokenizer.apply_chat_template(
        conversations, add_generation_prompt=True, return_dict=True
    )
    longest = max(map(len, encoded["input_ids"]))
    if longest > room:
        problem = "the conversation has {} tokens, and the model has room for {}; it is not cut off"
        raise ValueError(problem.format(longest, room))
    return list(encoded["input_ids"])


def conversations_of(rows: pa.Table, column: str, system_prompt: str | None) -> list[list[Message]]:
    """Each row's messages: a text is what the user says.

    Raises:
        ValueError: a row has no text and no messages.
    """
    return [
        with_system_prompt(messages_of(value, column), system_prompt)
        for value in column_of(rows, column).to_pylist()
    ]


def messages_of(value: object, column: str) -> list[Message]:
    """One row's messages.

    Raises:
        ValueError: it holds something else.
    """
    if isinstance(value, str) and value:
        return [{"role": "user", "content": value}]
    messages = [known(each) for each in value] if isinstance(value, list) else []
    if not messages or not all({"role", "content"} <= each.keys() for each in messages):
        what = "is empty" if not value else "holds something else"
        problem = f"column {column!r} {what} in this row; a text or messages of "
        raise ValueError(f"{problem}{{role, content}} are wanted")
    return messages


def known(message: object) -> Message:
    """A message's fields; Arrow gives all rows those that any row has, empty where they lack."""
    fields = message.items() if isinstance(message, dict) else ()
    return {name: value for name, value in fields if value is not None}


def with_system_prompt(messages: list[Message], system_prompt: str | None) -> list[Message]:
    """Messages with what the model is told first, unless they say so themselves."""
    if system_prompt is None or messages[0]["role"] == "system":
        return messages
    return [{"role": "system", "content": system_prompt}, *messages]
