"""Cuts CSV text into records: a line end within quotes does not end one."""

import re
from collections.abc import Iterator
from itertools import chain

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

UNCLOSED = "a quote is opened in this line and not closed"


class Records:
    """Cuts lines into records: a line end within quotes does not end one."""

    def __init__(self, delimiter: str, quote: str) -> None:
        d, q = (re.escape(each.encode()) for each in (delimiter, quote))
        # Possessive, so that no line takes more than linear time.
        closing = rb"(?:[^%b]|%b%b)*+%b" % (q, q, q, q)
        field = rb"(?:%b%b[^%b]*+|(?!%b)[^%b]*+)" % (q, closing, d, q, d)
        self.quote = quote.encode()
        self.whole = re.compile(rb"%b(?:%b%b)*+" % (field, d, field))
        self.rest = re.compile(rb"%b(?:%b%b)*+\r?" % (closing, d, field))
        self.amiss = re.compile(rb"%b(?!%b|\r?\Z)" % (closing, d))

    def split(self, found: Iterator[bytes]) -> Iterator[bytes | BadRow]:
        """The records in blocks of a file; blank lines are none."""
        held: list[bytes] = []
        size = 0
        try:
            for line in lines_of(found):
                size += len(line) + 1
                if held and self.amiss.match(line):
                    # A quote that closes a value stands at its end: the one that was opened is
                    # astray, and would swallow the rows from there to here.
                    yield from self.alone(held)
                    held, size = [], len(line) + 1
                if isinstance(line, LongLine) or size > LONGEST_LINE:
                    yield from self.alone([*held, line])
                elif not (self.rest.fullmatch(line) if held else self.is_whole(line)):
                    held.append(line)
                    continue
                elif line.rstrip(b"\r") or held:
                    yield b"\n".join([*held, line]).removesuffix(b"\r")
                held, size = [], 0
            yield from self.alone(held)
        except DamagedFile as error:
            yield BadRow(error, is_rest=True)

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


def lines_of(found: Iterator[bytes]) -> Iterator[bytes]:
    """Lines without their newlines."""
    for block in whole_lines(found):
        if isinstance(block, LongLine):
            yield block
        else:
            yield from block.split(b"\n")[:-1]


def batches(records: Iterator[bytes | BadRow]) -> "Iterator[list[bytes] | BadRow]":
    """Records to be parsed in one go, and bad rows between them."""
    batch: list[bytes] = []
    size = 0
    for record in records:
        if isinstance(record, BadRow) or len(batch) == ROWS_PER_READ or size > BYTES_PER_BLOCK:
            if batch:
                yield batch
            batch, size = [], 0
        if isinstance(record, BadRow):
            yield record
        else:
            batch.append(record)
            size += len(record)
    if batch:
        yield batch
