"""Which keys are published, of a table whose rows replace those of their key."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.kinds.tables.types import comparable
from tasks.publishing.row_keys import AT, RowKeys, groups
from tasks.verifying.sample import Sample


@dataclass(frozen=True)
class PublishedKeys:
    """The keys of all published rows, read past."""

    sample: Sample

    def are_published(self, keys: list[tuple[Any, ...]]) -> list[bool]:
        """Whether rows of some keys are published, whichever input they are of."""
        if not keys:
            return []
        sample, names = self.sample, self.sample.spec.sink.row_key
        there = RowKeys(sample.reader, sample.output, [], names)
        kinds = [comparable(sample.reader.schema.field(name).type) for name in names]
        columns = [
            pa.array(each, kind) for each, kind in zip(zip(*keys, strict=True), kinds, strict=True)
        ]
        wanted = pa.table(columns, names=there.numbered)
        wanted = wanted.append_column(AT, pa.array(np.arange(len(keys))))
        found = np.zeros(len(keys), dtype=bool)
        for group in groups([*sample.seen.files.values()]):
            rows = there.read([there.published(file) for file in group], names)
            held = wanted.join(rows, there.numbered, join_type="left semi")
            found[held[AT].to_numpy()] = True
        return found.tolist()
