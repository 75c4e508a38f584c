"""What a search has found, as Markdown with pictures and as figures."""

import json
from dataclasses import dataclass
from typing import Any

from tasks.counted import counted
from tasks.kinds.sinks.json_texts import json_text
from tasks.reporting.page import joined, pairs, section
from tasks.reporting.redaction import block, cell, hide_credentials, scrub, table
from tasks.reporting.samples import (
    SHOWN_COLUMNS,
    ends_of,
    inputs_among,
    picture,
    shorten,
    thumbnail,
)
from tasks.searching.index import IndexedVectors, IndexState
from tasks.searching.published import Nearest, PublishedVectors, Row
from tasks.searching.query import MediaQuery, Query, shortened

SHOWN_MATCHES = 50


CHANGED = (
    "of this output are no longer in the table as published: others have deleted, updated or "
    "compacted rows, so what is found here may be deleted there"
)


@dataclass(frozen=True)
class Search:
    """A query, where it was looked for, and what was found."""

    vectors: PublishedVectors
    query: Query
    nearest: Nearest
    seconds: dict[str, float]
    """By what they were spent on: query, search."""

    @property
    def matches(self) -> list[tuple[str, str, Row]]:
        """Rank, score and row, the best first."""
        pairs = zip(self.nearest.scores, self.nearest.rows, strict=True)
        return [(str(n), f"{score:.4f}", row) for n, (score, row) in enumerate(pairs, 1)]

    @property
    def output(self) -> str:
        """Where was searched, as it may be shown."""
        return str(hide_credentials(self.vectors.spec.sink.path))

    @property
    def given(self) -> str:
        """The query as it was written, as it may be shown."""
        return str(hide_credentials(self.query.given))

    @property
    def index(self) -> IndexState | None:
        """The index that was used, if one was."""
        return self.vectors.state if isinstance(self.vectors, IndexedVectors) else None

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "state": "searched",
            "output": self.output,
            "version": self.vectors.seen.version,
            "column": self.vectors.column,
            "query": shortened(self.given),
            "query_as": self.query.media,
            "rows": {
                "searched": self.nearest.num_searched,
                "without_vector": self.nearest.num_without,
            },
            "files_changed_by_others": self.vectors.changed_by_others,
            "index": self.index and {"recall": self.index.recall, "files": len(self.index.files)},
            "seconds": self.seconds,
            "matches": [
                {"rank": rank, "score": score, "row": plain(row)}
                for rank, (score, row) in enumerate(
                    zip(self.nearest.scores, self.nearest.rows, strict=True), 1
                )
            ],
        }


def plain(row: Row) -> Row:
    """A row as JSON has it; of bytes, however deep, only how many there are."""
    found: Row = json.loads(json_text(without_bytes(row)))
    return found


def without_bytes(value: Any) -> Any:
    """A value with sizes in the place of bytes: a struct may hold an image file."""
    if isinstance(value, dict):
        return {name: without_bytes(each) for name, each in value.items()}
    if isinstance(value, list | tuple):  # a map's entries are tuples
        return list(map(without_bytes, value))
    return shorten(value) if isinstance(value, bytes) else value


def search_page(search: Search) -> str:
    """The page of a search."""
    spec, nearest = search.vectors.spec, search.nearest
    left = len(nearest.rows) - SHOWN_MATCHES
    return joined(
        f"# {spec.name}: nearest {len(nearest.rows):,} of {counted(nearest.num_searched, 'row')}",
        section("Query", query_part(search)),
        section("Matches", matches_table(search), f"and {left:,} more" if left > 0 else ""),
        section("Searched", pairs(figures(search))),
    )


def query_part(search: Search) -> str:
    """The query as a person knows it."""
    query, given = search.query, search.given
    if isinstance(query, MediaQuery) and isinstance(query.content, bytes):
        return joined(picture(query.content), block(given))
    return block(shortened(given) if query.media == "vector" else given)


def figures(search: Search) -> dict[str, str]:
    """Where and how long it was searched."""
    changed = search.vectors.changed_by_others
    return {
        "output": f"{search.output}, version {search.vectors.seen.version}",
        "rows": f"{search.nearest.num_searched:,}, {how(search.index)}",
        "without a vector": f"{search.nearest.num_without:,}",
        **({"changed": f"{counted(changed, 'file')} {CHANGED}"} if changed else {}),
        "seconds": ", ".join(f"{name} {each:.2f}" for name, each in search.seconds.items()),
    }


def how(index: IndexState | None) -> str:
    """How they were searched."""
    if index is None:
        return "each compared by its cosine"
    return (
        f"by an index that finds {index.recall:.0%} of the ten nearest in a trial; its matches and "
        "all that came since compared by their cosine"
    )


def matches_table(search: Search) -> str:
    """Ranks, scores and rows; images as pictures."""
    if not search.matches:
        return "no row has a vector to compare with"
    names = ends_of(list(search.matches[0][2]), SHOWN_COLUMNS)
    images = pictures(search.vectors, [row for _, _, row in search.matches[:SHOWN_MATCHES]])
    lines = [
        [rank, score, *([image] if any(images) else []), *(shown(search, row[n]) for n in names)]
        for (rank, score, row), image in zip(search.matches, images, strict=False)
    ]
    return table(["", "score", *(["image"] if any(images) else []), *names], lines)


def shown(search: Search, value: object) -> str:
    """A value in a cell."""
    return cell(scrub(shorten(value), search.vectors.spec))


def pictures(vectors: PublishedVectors, rows: list[Row]) -> list[str]:
    """Thumbnails of rows that were made of images; of all others empty."""
    source = vectors.spec.source
    if not source.has_media or not all("path" in row for row in rows):
        return [""] * len(rows)
    inputs = vectors.seen.of("input", ["path"])["path"]
    known = inputs_among(source, [row["path"] for row in rows], inputs)
    return [thumbnail(source, row["path"], known) for row in rows]
