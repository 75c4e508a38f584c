"""How rows are read: by which of the source's settings published ones were, and by which now."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from tasks.errors import InvalidSpec, shown
from tasks.kinds.sources.source import Source
from tasks.planning.config_parts import DEFAULT
from tasks.planning.unfinished_errors import giving_up
from tasks.protocol.ledger import Snapshot

WHICH_INPUTS = {
    *("path", "exclude", "on_empty", "shuffle_seed", "storage_options", "catalog", "endings"),
    *("version", "as_of", "snapshot", "tag", "split_name", "split_above_mib"),
}
"""Fields of a source that decide which inputs there are, not what is read of them."""
TELLS_OF_INPUTS = {
    *("columns", "types", "null_values", "partition_columns", "version_column"),
    *("delimiter", "quote_char", "column_names", "skip_lines", "verify_checksums"),
    *("csv.encoding", "text.encoding"),  # not a video's, which makes other pictures
}
"""Fields that say what inputs are like. They are mended when another input comes that is not: what
was read before stays, and whoever wants it anew says so."""


@dataclass(frozen=True)
class Change:
    """A setting that published rows were read by, and another value now."""

    kind: str
    field: str
    was: Any
    now: Any
    version: int
    """The newest that was read by it."""
    run_id: str

    @property
    def makes_other_rows(self) -> bool:
        """Whether rows of then and now are not to be mixed."""
        return not {self.field, f"{self.kind}.{self.field}"} & TELLS_OF_INPUTS

    def __str__(self) -> str:
        was, now = (each if each == DEFAULT else shown(each) for each in (self.was, self.now))
        then = f"version {self.version} (run {self.run_id})"
        return f"source.{self.field} was {was} in {then}, now {now}"


def reading_of(source: Source) -> dict[str, Any]:
    """What decides which rows an input gives, as the ledger keeps it, where it is not default."""
    return source.identity(WHICH_INPUTS)


def changes(seen: Snapshot, source: Source) -> list[Change]:
    """What differs from the newest version of what is published that a source of this kind fed.

    Of what earlier releases have published, and of redrives, nothing is known.
    """
    now = reading_of(source)
    for version, entry in sorted(seen.entries.items(), reverse=True):
        was = entry.get("reading") or {}
        if version >= seen.base and was.get("kind") == now["kind"]:
            return [
                Change(kind, field, was.get(field, DEFAULT), now.get(field, DEFAULT), version, run)
                for kind, run in [(now["kind"], entry["run_id"])]
                for field in sorted(was.keys() | now.keys())
                if was.get(field, DEFAULT) != now.get(field, DEFAULT)
            ]
    return []


def other_rows(seen: Snapshot, source: Source) -> Change | None:
    """The first change by which rows of then and now are not to be mixed."""
    return next((each for each in changes(seen, source) if each.makes_other_rows), None)


def refuse_other_rows(seen: Snapshot, source: Source, begun: Callable[[], Collection[str]]) -> None:
    """Never mix rows that were read in two ways in one output.

    Args:
        seen: what is published.
        source: the spec's.
        begun: the unfinished runs.

    Raises:
        InvalidSpec: names the field, and the way out.
    """
    if change := other_rows(seen, source):
        flag, gives_up = giving_up(is_begun=bool(begun()))
        raise InvalidSpec(
            f"{change}: rows read in two ways are not mixed. Set it back, or `batch-inference "
            f"backfill SPEC{flag}` (or --replace-output{flag}) {gives_up}predicts every input "
            "again, or use another sink.path"
        )


def notes(seen: Snapshot, source: Source) -> list[str]:
    """What to tell of changes that leave published rows as they are."""
    return [
        f"{each}: published rows stay as they were read; --replace-output reads all of them again"
        for each in changes(seen, source)
        if not each.makes_other_rows
    ]
