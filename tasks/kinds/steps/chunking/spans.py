"""Cuts a text where it is best cut: after a paragraph, a line, a sentence, a word, or anywhere."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

Span = tuple[int, int]
"""Where a chunk begins and ends in its text, in characters."""

BREAKS = (
    re.compile(r"\n[^\S\n]*\n\s*"),  # a paragraph
    re.compile(r"\n"),
    re.compile(r"[.!?\u2026][\"'\u201d\u2019)\]]*\s+|[\u3002\uff01\uff1f]"),  # a sentence
    re.compile(r"\s+"),
)


def spans(
    text: str,
    marks: Sequence[int],
    size: int,
    overlap: int,
    excess: Callable[[str], int] = lambda chunk: 0,
) -> Iterator[Span]:
    """Spans that cover a text, in order.

    Each is cut at the best place in its second half.

    Args:
        text: the whole.
        marks: where each unit of it begins, in characters, and its length; the first is 0.
        size: units in a chunk, at most.
        overlap: units of a chunk that are repeated in the next, at most: whole words where the
            text has any.
        excess: by how many units a chunk is too long when it is measured alone.

    Raises:
        ValueError: a single unit is too long.
    """
    start, end, last = 0, 0, len(marks) - 1
    while start < last:
        # Beyond the chunk before: one that lay within it would say nothing new.
        units = range(end + 1, min(start + size, last) + 1)
        end = end_of(text, marks, start, units, excess)
        yield marks[start], marks[end]
        start = last if end == last else restart(text, marks, max(start + 1, end - overlap), end)


def end_of(
    text: str, marks: Sequence[int], start: int, units: range, excess: Callable[[str], int]
) -> int:
    """The unit before which a chunk ends, one of `units`; earlier while it is too long.

    Raises:
        ValueError: a single unit is too long.
    """
    limit = units[-1]
    while True:
        at_end = limit == len(marks) - 1
        end = limit if at_end else min(limit, max(units[0], best_break(text, marks, start, limit)))
        over = excess(text[marks[start] : marks[end]])
        if over <= 0:
            return end
        if end == start + 1:
            raise ValueError(f"{text[marks[start] : marks[end]]!r} alone is longer than a chunk")
        limit = max(start + 1, end - over)


def best_break(text: str, marks: Sequence[int], start: int, limit: int) -> int:
    """The last break of the best sort in the second half; `limit` where there is none."""
    low, high = marks[(start + limit) // 2], marks[limit]
    for pattern in BREAKS:
        ends = [found.end() for found in pattern.finditer(text, low, high)]
        if ends:
            return bisect_right(marks, ends[-1]) - 1
    return limit


def restart(text: str, marks: Sequence[int], earliest: int, end: int) -> int:
    """Where the next chunk begins: at the first word from `earliest`, or right there."""
    for at in range(earliest, end):
        unit = text[marks[at] : marks[at + 1]]  # a token may hold the space before its word
        if unit.strip() and (unit[0].isspace() or text[marks[at] - 1].isspace()):
            return at
    return earliest
