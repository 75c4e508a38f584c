"""Texts of more tokens than a model can read: set aside, or cut off and said so."""

from typing import Any

from tasks.kinds.models.hf.checkpoint import quiet
from tasks.kinds.models.hf.options import TOKENS_APART, HuggingFaceOptions, Task

NEEDS_ALL: tuple[Task, ...] = ("text-generation", "translation")
"""What they write goes on from a text's end, or is to be all of it in another language."""

IN_ROWS = "The step chunk_text makes several rows of them"
IN_WINDOWS = "With model.options.stride it reads all of them, in windows that share so many tokens"


class TooLong:
    """What becomes of a text that is too long, where the spec says nothing of it."""

    def __init__(self, tokenizer: Any, room: int, task: Task, options: HuggingFaceOptions) -> None:
        self.tokenizer, self.room = tokenizer, room
        self.sets_aside = task in NEEDS_ALL
        self.way_out = IN_WINDOWS if task in TOKENS_APART else IN_ROWS
        self.is_settled = options.max_length == room  # of more, the spec does not know of the rest
        """Whether there is nothing more to say: the spec has said it, or it has been said."""

    def look_at(self, texts: list[list[str]], lengths: list[int]) -> None:
        """Look at texts whose tokens were cut off after so many as there is room for.

        Says once that some are cut off, where they are.

        Args:
            texts: of each row; and, of pairs, those of their second column.
            lengths: of each row, in tokens.

        Raises:
            ValueError: one is, and must not be.
        """
        if self.is_settled:
            return
        full = [at for at, length in enumerate(lengths) if length >= self.room]
        longest = max(self.lengths([[each[at] for at in full] for each in texts]), default=0)
        if longest <= self.room:
            return
        if self.sets_aside:
            raise ValueError(
                f"the text has {longest} tokens, but the model has room for {self.room}; it is "
                f"not cut off. Shorten it in a step, or set model.options.max_length: {self.room} "
                "to cut off longer texts"
            )
        print(
            f"texts longer than {self.room} tokens are cut off there, since the model reads no "
            f"more. {self.way_out}; if that is intended, set model.options.max_length: {self.room}",
            flush=True,
        )
        self.is_settled = True

    def lengths(self, texts: list[list[str]]) -> list[int]:
        """How many tokens texts have in all."""
        with quiet():  # it would say that they are too long
            found = self.tokenizer(*texts)["input_ids"] if texts[0] else []
            return [len(each) for each in found]
