"""Cuts CSV text into records: a line end within quotes does not end one."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Self

import numpy as np
import numpy.typing as npt

from tasks.kinds.sources.compressed import DamagedFile
from tasks.kinds.sources.source import ROWS_PER_READ, BadRow
from tasks.kinds.sources.text import (
    BYTES_PER_BLOCK,
    LONGEST_LINE,
    LongLine,
    bad_row,
    too_long,
    universal,
    whole_lines,
)

NEWLINE = ord("\n")
UNCLOSED = "a quote is opened in this line and not closed"


@dataclass(frozen=True)
class Block:
    """Records to be parsed in one go."""

    data: bytes
    """Each with a newline."""
    ends: npt.NDArray[np.int64]
    """Where each ends in it."""

    @classmethod
    def of(cls, records: Sequence[bytes]) -> Self:
        """Some records."""
        ends = np.cumsum([len(record) + 1 for record in records])
        return cls(b"".join(record + b"\n" for record in records), ends)

    def __len__(self) -> int:
        return len(self.ends)

    def records(self) -> list[bytes]:
        """One by one, without their newlines."""
        ends = self.ends.tolist()
        return [self.data[start : end - 1] for start, end in pairwise([0, *ends])]


class FileRecords(Iterator[bytes | BadRow]):
    """Records of a file: the first of them one by one, what is left many at once."""

    def __init__(self, found: Iterator[Block | BadRow]) -> None:
        self.found = found
        self.held: list[bytes | BadRow] = []
        """Those that come next, the last one first."""

    def __next__(self) -> bytes | BadRow:
        while not self.held:
            each = next(self.found)
            self.held += [each] if isinstance(each, BadRow) else each.records()[::-1]
        return self.held.pop()

    def put_back(self, record: bytes | BadRow) -> None:
        """Have a record come next, where it is one."""
        if record:
            self.held.append(record)

    def many_at_once(self) -> Iterator[Block | BadRow]:
        """What is left."""
        yield from together(reversed(self.held))
        yield from self.found


class Records:
    """Cuts a file's lines into records: a line end within quotes does not end one."""

    def __init__(self, delimiter: str, quote: str) -> None:
        d, q = (re.escape(each.encode()) for each in (delimiter, quote))
        # Possessive, so that no line takes more than linear time.
        closing = rb"(?:[^%b]|%b%b)*+%b" % (q, q, q, q)
        field = rb"(?:%b%b[^%b]*+|(?!%b)[^%b]*+)" % (q, closing, d, q, d)
        self.quote = quote.encode()
        self.beside_quotes = np.frombuffer(b"\n" + delimiter.encode() + self.quote, np.uint8)
        self.held: list[bytes] = []
        self.size = 0
        """Lines of a record that is not whole yet, and their bytes."""
        self.whole = re.compile(rb"%b(?:%b%b)*+" % (field, d, field))
        self.rest = re.compile(rb"%b(?:%b%b)*+\r?" % (closing, d, field))
        self.amiss = re.compile(rb"%b(?!%b|\r?\Z)" % (closing, d))

    def split(self, found: Iterator[bytes]) -> Iterator[Block | BadRow]:
        """The records in blocks of a file, many at once; blank lines are none."""
        rest = b""
        try:
            for block in whole_lines(found):
                if not (self.held or isinstance(block, LongLine)):
                    block, rest = rest + block, b""
                    plain = self.plain(block)
                    if plain is not None:
                        yield from [plain[0]] if len(plain[0]) else []
                        rest = plain[1]
                        continue
                lines = [block] if isinstance(block, LongLine) else block.split(b"\n")[:-1]
                yield from self.one_by_one([*rest.split(b"\n")[:-1], *lines])
                rest = b""
            yield from self.one_by_one(rest.split(b"\n")[:-1])
            yield from together(self.alone(self.held))
        except DamagedFile as error:
            yield BadRow(error, is_rest=True)

    def plain(self, block: bytes) -> tuple[Block, bytes] | None:
        """The whole records of a block, and the beginning of another one.

        None where that takes a look at each line: where a quote is neither the first nor the last
        of a value and is not doubled, or a line is blank.
        """
        has_returns = b"\r" in block
        if has_returns:
            block = block.replace(b"\r\n", b"\n")
            if b"\r" in block:
                return None
        if len(block) > LONGEST_LINE:
            return None
        content = np.frombuffer(block, np.uint8)
        newlines = ends = np.flatnonzero(content == NEWLINE)
        if self.quote in block:
            quotes = np.flatnonzero(content == self.quote[0])
            # What lies before the first byte is the last one, a newline as before any other line.
            beside = content[np.concatenate([quotes[::2] - 1, quotes[1::2] + 1])]
            if not np.isin(beside, self.beside_quotes).all():
                return None
            ends = newlines[np.searchsorted(quotes, newlines) % 2 == 0]
        if (has_returns and len(ends) < len(newlines)) or (np.diff(ends, prepend=-1) == 1).any():
            return None
        end = ends[-1] + 1 if len(ends) else 0
        return Block(block[:end], ends + 1), block[end:]

    def one_by_one(self, lines: list[bytes]) -> Iterator[Block | BadRow]:
        """The records of lines, of which the last may not be whole yet."""
        return together(chain.from_iterable(map(self.with_line, lines)))

    def with_line(self, line: bytes) -> Iterator[bytes | BadRow]:
        """The records that a line is the last one of."""
        self.size += len(line) + 1
        if self.held and self.amiss.match(line):
            # A quote that closes a value stands at its end: the one that was opened is
            # astray, and would swallow the rows from there to here.
            yield from self.alone(self.held)
            self.held, self.size = [], len(line) + 1
        if isinstance(line, LongLine) or self.size > LONGEST_LINE:
            yield from self.alone([*self.held, line])
        elif not (self.rest.fullmatch(line) if self.held else self.is_whole(line)):
            self.held.append(line)
            return
        elif line.rstrip(b"\r") or self.held:
            yield b"\n".join([*self.held, line]).removesuffix(b"\r")
        self.held, self.size = [], 0

    def is_whole(self, line: bytes) -> bool:
        """Whether all quotes that are opened in a line are closed in it."""
        return self.quote not in line or self.whole.fullmatch(line) is not None

    def alone(self, lines: list[bytes]) -> Iterator[bytes | BadRow]:
        """Lines after a quote that is never closed: each is taken for a record."""
        for line in lines:
            if isinstance(line, LongLine):
                yield too_long(line)
            elif not self.is_whole(line):
                yield bad_row(UNCLOSED, line)
            elif line.rstrip(b"\r"):
                yield line.removesuffix(b"\r")


def line_ends(found: Iterator[bytes]) -> Iterator[bytes]:
    """Blocks whose lines end in newlines: old files that know only carriage returns are mended.

    In others a carriage return stays: within quotes it is part of a value.
    """
    first = next(found, b"")
    together = chain([first], found)
    yield from universal(together) if b"\r" in first and b"\n" not in first else together


def together(records: Iterable[bytes | BadRow]) -> Iterator[Block | BadRow]:
    """Records to be parsed in one go, and bad rows between them."""
    batch: list[bytes] = []
    size = 0
    for record in records:
        if isinstance(record, BadRow) or len(batch) == ROWS_PER_READ or size > BYTES_PER_BLOCK:
            if batch:
                yield Block.of(batch)
            batch, size = [], 0
        if isinstance(record, BadRow):
            yield record
        else:
            batch.append(record)
            size += len(record)
    if batch:
        yield Block.of(batch)
