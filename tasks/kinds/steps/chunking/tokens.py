"""Counts a text's tokens with a tokenizer of Hugging Face's, from a folder or the Hub."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tasks.errors import InvalidSpec
from tasks.kinds.models.hf import hub
from tasks.kinds.models.hf.folder import local_folder
from tasks.kinds.steps.chunking.spans import Span, spans

FILE = "tokenizer.json"
FIELD = "steps.chunk_text.tokenizer"


class TokenSpans:
    """Cuts texts into chunks of so many tokens, those that the model adds included."""

    def __init__(self, file: Path, size: int, overlap: int) -> None:
        self.tokenizer = load_tokenizer(file)
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
        hub.check_name(name, FIELD)
    elif not (folder / FILE).is_file():
        problem = f"has no {FILE}; give a folder that a tokenizer's save_pretrained wrote"
        raise InvalidSpec.at(FIELD, name, problem)
    else:
        load_tokenizer(folder / FILE)


def load_tokenizer(file: Path) -> Any:
    """What a tokenizer.json describes.

    Raises:
        InvalidSpec: it is cut off, or describes none.
    """
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises no narrower one
        problem = f"cannot be read as a tokenizer ({error}); save or download it again"
        raise InvalidSpec.at(FIELD, str(file), problem) from error


def tokenizer_file(name: str, revision: str) -> Path:
    """The tokenizer's file on this node.

    Raises:
        InvalidSpec: the Hub does not know it, or it has no such file.
        Unreachable: the Hub does not answer.
    """
    folder = local_folder(name)
    found = hub.download(name, FILE, revision, FIELD) if folder is None else folder / FILE
    if found is None:
        raise InvalidSpec.at(FIELD, name, f"has no {FILE} at revision {revision!r}")
    return found


def digest(name: str, revision: str) -> str:
    """Changes when the tokenizer does."""
    return hashlib.sha256(tokenizer_file(name, revision).read_bytes()).hexdigest()[:16]
