"""Counts a text's tokens with a tokenizer of Hugging Face's, from a folder or the Hub."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from tasks.errors import InvalidSpec
from tasks.kinds.models.hf.folder import local_folder
from tasks.kinds.models.hf.hub import NAME as HUB_NAME
from tasks.kinds.steps.chunking.spans import Span, spans

FILE = "tokenizer.json"
FIELD = "steps.chunk_text.tokenizer"


class TokenSpans:
    """Cuts texts into chunks of so many tokens, those that the model adds included."""

    def __init__(self, file: Path, size: int, overlap: int) -> None:
        from tokenizers import Tokenizer

        self.tokenizer = Tokenizer.from_file(str(file))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.size, self.overlap = size - self.tokenizer.num_special_tokens_to_add(False), overlap

    def __call__(self, text: str) -> Iterator[Span]:
        """A text's chunks.

        Raises:
            ValueError: a single character is longer than a chunk.
        """
        offsets = self.tokenizer.encode(text, add_special_tokens=False).offsets
        # Of the tokens of one character, only the first has a place of its own.
        starts = sorted({0, *(start for start, _ in offsets)} - {len(text)})
        return spans(text, [*starts, len(text)], self.size, self.overlap, self.excess)

    def excess(self, chunk: str) -> int:
        """By how many tokens a chunk is too long: cut in the middle of a word, it may have more."""
        return len(self.tokenizer.encode(chunk, add_special_tokens=False).ids) - self.size


def check_tokenizer(name: str) -> None:
    """See that a folder holds a tokenizer; the Hub is not asked.

    Raises:
        InvalidSpec: it does not, or the name can be none on the Hub.
    """
    folder = local_folder(name)
    if folder is None:
        if not HUB_NAME.fullmatch(name):
            problem = "is neither a folder here nor a name on the Hugging Face Hub"
            raise InvalidSpec.at(FIELD, name, problem)
    elif not (folder / FILE).is_file():
        problem = f"has no {FILE}; give a folder that a tokenizer's save_pretrained wrote"
        raise InvalidSpec.at(FIELD, name, problem)


def tokenizer_file(name: str, revision: str) -> Path:
    """The tokenizer's file on this node.

    Raises:
        InvalidSpec: the Hub does not know it, or is out of reach.
    """
    folder = local_folder(name)
    if folder is not None:
        return folder / FILE
    from transformers.utils.hub import cached_file

    try:
        return Path(cached_file(name, FILE, revision=revision))
    except OSError as error:
        problem = (
            f"at revision {revision!r} cannot be had; where the Hugging Face Hub is out of reach, "
            f"give a folder. {' '.join(str(error).split())}"
        )
        raise InvalidSpec.at(FIELD, name, problem) from error


def digest(name: str, revision: str) -> str:
    """Changes when the tokenizer does."""
    return hashlib.sha256(tokenizer_file(name, revision).read_bytes()).hexdigest()[:16]
