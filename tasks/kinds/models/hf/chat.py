"""Prompts as a model's chat template writes them."""

import re
from inspect import signature
from typing import Any

import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.kinds.models.hf.checkpoint import Checkpoint, quiet
from tasks.kinds.models.hf.options import HuggingFaceOptions
from tasks.kinds.models.llm.conversations import Conversation, conversations_of
from tasks.kinds.models.llm.dated_templates import dated_template, days_of

FOR_TEMPLATES = {"tools", "documents"}
"""Arguments of `apply_chat_template` that it hands on to the template."""


def check_template(checkpoint: Checkpoint, given: dict[str, Any]) -> None:
    """See that the tokenizer comes with a template, which takes the arguments.

    Args:
        checkpoint: with the tokenizer.
        given: arguments of the template: what it does not know it would pass over.

    Raises:
        InvalidSpec: it does not.
    """
    tokenizer = checkpoint.tokenizer()
    if tokenizer.chat_template is None:
        problem = (
            f"needs a chat template, but the tokenizer of {checkpoint.name} has none; leave it "
            "out to use the prompts as they are, or use a model trained for chat"
        )
        raise InvalidSpec.at("model.options.chat", True, problem)
    known = {*re.findall(r"\w+", str(tokenizer.chat_template))}
    taken = {*signature(tokenizer.apply_chat_template).parameters} - FOR_TEMPLATES
    for name in given:
        if name in taken or name not in known:
            what = "is set by this kind of model" if name in taken else "is not in the template"
            problem = f"{what}: give names that the chat template of {checkpoint.name} uses"
            raise InvalidSpec.at("model.options.chat_template_kwargs", name, problem)


class ChatTokens:
    """Conversations as token numbers, up to where the model is to answer, or to go on."""

    def __init__(self, tokenizer: Any, room: int, options: HuggingFaceOptions) -> None:
        self.tokenizer, self.room = tokenizer, room
        self.system_prompt, self.given = options.system_prompt, options.chat_template_kwargs

    def of(self, rows: pa.Table, column: str) -> list[list[int]]:
        """The tokens of each row's conversation.

        Raises:
            ValueError: the template does not take a conversation, or it is too long.
        """
        conversations = conversations_of(rows, column, self.system_prompt)
        with quiet():  # it would advise on conversations that are set aside below
            tokens = [*map(self.tokens_of, conversations, days_of(rows))]
        longest = max(map(len, tokens), default=0)
        if longest > self.room:
            problem = f"the conversation has {longest} tokens, but the model has room for"
            raise ValueError(f"{problem} {self.room}; it is not cut off")
        return tokens

    def tokens_of(self, conversation: Conversation, day: str | None) -> list[int]:
        """One conversation; of the model's own last words, as in pipelines, the rest is asked for.

        Few models know two answers in a row.
        """
        is_begun = conversation[-1]["role"] == "assistant"
        encoded = self.tokenizer.apply_chat_template(
            conversation,
            chat_template=dated_template(self.tokenizer, self.given.get("tools"), day),
            add_generation_prompt=not is_begun,
            continue_final_message=is_begun,
            return_dict=True,
            **self.given,
        )
        return list(encoded["input_ids"])
