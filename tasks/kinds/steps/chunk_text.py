"""Long texts as rows of one chunk each."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

import pyarrow as pa
from pydantic import ConfigDict, Field, ValidationInfo, field_validator

from tasks.errors import InvalidSpec
from tasks.kinds.column_types import is_text
from tasks.kinds.columns import children
from tasks.kinds.steps.chunking.spans import Span, spans
from tasks.kinds.steps.chunking.tokens import TokenSpans, check_tokenizer, digest, tokenizer_file
from tasks.kinds.steps.step import Function, Step, column_to_cut, of_no_row

CHUNK, START = "chunk", "chunk_start"
Cutter = Callable[[str], Iterator[Span]]
"""Says where a text's chunks begin and end."""


class ChunkTextStep(Step):
    """Cuts a text into chunks, a row each; all of them are published, or none.

    Together they are the whole text. Each ends after a paragraph if one ends in its second half,
    otherwise after a line, a sentence or a word. `chunk` numbers them, `chunk_start` is where one
    begins, in characters. A text of only spaces has no chunks and is filtered.
    """

    model_config = ConfigDict(title="Chunk texts")
    kind: Literal["chunk_text"] = "chunk_text"
    column: str = Field(
        default="text",
        description="Column of the text, afterwards of the chunk. Other columns are repeated.",
    )
    size: int = Field(
        default=1_000,
        ge=16,
        description="Maximum length of a chunk: in characters, or in tokens if a tokenizer is "
        "named, including those that the model adds.",
    )
    overlap: int = Field(
        default=0,
        ge=0,
        description="How much of a chunk's end the next one repeats, at most, in whole words if "
        "possible; at most half the size.",
    )
    tokenizer: str | None = Field(
        default=None,
        min_length=1,
        description="To count tokens instead of characters: the model's name on the Hugging Face "
        "Hub, or a folder with its tokenizer.json that every node can read.",
    )
    revision: str = Field(
        default="main",
        min_length=1,
        description="Revision of the tokenizer on the Hub, preferably a commit.",
    )

    @field_validator("overlap")
    @classmethod
    def _leaves_room(cls, overlap: int, info: ValidationInfo) -> int:
        if "size" in info.data and overlap > info.data["size"] // 2:
            raise ValueError("must be at most half of size")
        return overlap

    def check(self) -> None:
        """See that the tokenizer's folder holds one."""
        if self.tokenizer is not None:
            check_tokenizer(self.tokenizer)

    def code_digest(self) -> str:
        """Digest of the tokenizer: with another, chunks differ."""
        return digest(self.tokenizer, self.revision) if self.tokenizer else ""

    @property
    def reads(self) -> dict[str, list[str]]:
        """The column that is cut."""
        return {"column": [self.column]}

    def build(self) -> Function:
        """The step as a function."""
        return partial(self.chunk, self.cutter())

    def schema_after(self, schema: pa.Schema) -> pa.Schema:
        """Two more; the tokenizer is not loaded for them."""
        return of_no_row(partial(self.chunk, lambda _: iter(())), schema)

    def chunk(self, cut: Cutter, rows: pa.Table) -> pa.Table:
        """Rows of one chunk each.

        Args:
            cut: what `cutter` makes.
            rows: with whole texts.

        Raises:
            InvalidSpec: the column is not there, holds no text, or a new column's name is taken.
            ValueError: a row has none.
        """
        parents: list[int] = []
        found: list[tuple[str, int, int]] = []
        for parent, text in enumerate(self.texts(rows)):
            kept = [each for each in cut(text) if text[slice(*each)].strip()]
            found += [(text[slice(*each)], at, each[0]) for at, each in enumerate(kept)]
            parents += [parent] * len(kept)
        chunks, numbers, starts = zip(*found, strict=True) if found else ((), (), ())
        field = pa.field(self.column, pa.string())
        rows = children(rows, parents, field, pa.array(chunks, pa.string()))
        rows = rows.append_column(CHUNK, pa.array(numbers, pa.int32()))
        return rows.append_column(START, pa.array(starts, pa.int64()))

    def cutter(self) -> Cutter:
        """What cuts one text."""
        if self.tokenizer is not None:
            file = tokenizer_file(self.tokenizer, self.revision)
            return TokenSpans(file, self.size, self.overlap)
        return lambda text: spans(text, range(len(text) + 1), self.size, self.overlap)

    def texts(self, rows: pa.Table) -> list[str]:
        """The column's texts; errors as `chunk`."""
        column = column_to_cut(self.kind, rows, self.column, {CHUNK, START})
        if not is_text(column.type):
            problem = f"is {column.type}, not text"
            raise InvalidSpec.at("steps.chunk_text.column", self.column, problem)
        return column.to_pylist()
