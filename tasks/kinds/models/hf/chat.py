"""Prompts as a model's chat template writes them."""

from typing import Any

from tasks.errors import InvalidSpec
from tasks.kinds.models.hf.checkpoint import Checkpoint, quiet
from tasks.kinds.models.llm.conversations import Conversation


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


def chat_tokens(tokenizer: Any, conversations: list[Conversation], room: int) -> list[list[int]]:
    """Conversations as token numbers, up to where the model is to answer, or to go on.

    Raises:
        ValueError: the template does not take a conversation, or it is too long.
    """
    with quiet():  # it would advise on conversations that are set aside below
        tokens = [tokens_of(tokenizer, each) for each in conversations]
    longest = max(map(len, tokens), default=0)
    if longest > room:
        problem = "the conversation has {} tokens, and the model has room for {}; it is not cut off"
        raise ValueError(problem.format(longest, room))
    return tokens


def tokens_of(tokenizer: Any, conversation: Conversation) -> list[int]:
    """One conversation; as in transformers' pipelines the model's own last words are gone on with.

    Few models know two answers in a row.
    """
    is_begun = conversation[-1]["role"] == "assistant"
    encoded = tokenizer.apply_chat_template(
        conversation,
        add_generation_prompt=not is_begun,
        continue_final_message=is_begun,
        return_dict=True,
    )
    return list(encoded["input_ids"])
