"""What says which entries of a ledger are in a Lance dataset."""

from typing import Any

from tasks.kinds.tables.lance import transaction_of
from tasks.protocol.table import TableChange

APPLIED = "prefect-ray-data.applied."
"""Key of a ledger's last entry: in the dataset's schema, and in each of our transactions."""


def mark(change: TableChange) -> dict[str, str]:
    """What says that an entry is in the dataset."""
    return {APPLIED + change.ledger_id: str(change.version)}


def marked(dataset: Any, change: TableChange) -> Any:
    """The dataset's schema, with our mark where its columns are still numbered in order."""
    from lance.schema import LanceSchema

    metadata = {**(dataset.schema.metadata or {}), **mark(change)}
    schema = LanceSchema.from_pyarrow(dataset.schema.with_metadata(metadata))
    return schema if is_in_order(dataset) else dataset.lance_schema


def is_in_order(dataset: Any) -> bool:
    """Whether columns have the numbers that a new dataset would give them: none was dropped."""
    from lance.schema import LanceSchema

    new = LanceSchema.from_pyarrow(dataset.schema)
    return [*map(leaves, new.fields())] == [*map(leaves, dataset.lance_schema.fields())]


def leaves(field: Any) -> list[int]:
    """Ids of a field's innermost fields: those that have a column in a file."""
    inner = field.children()
    return [each for child in inner for each in leaves(child)] if inner else [field.id()]


def last_applied(dataset: Any, key: str) -> tuple[int, bool]:
    """The last entry that is known to be in the dataset, and whether a later one may be.

    Our first transaction leaves a mark in the schema, as does each that only adds; where there is
    one, a later transaction may have removed fragments.
    """
    noted = int((dataset.schema.metadata or {}).get(key.encode(), 0))
    if not noted:
        return 0, False
    for version in range(dataset.version, 0, -1):
        try:
            transaction = transaction_of(dataset, version)
        except (OSError, ValueError):
            return noted, True  # of a version that was cleaned away
        properties = (transaction and transaction.transaction_properties) or {}
        if key in properties:
            return max(noted, int(properties[key])), False
    return noted, False
