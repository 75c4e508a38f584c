"""An Iceberg table as the place where an output's files are published."""

import os
import re
from collections.abc import Iterator, Set
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar

import pyarrow as pa

from tasks.errors import InvalidSpec, StaleTable, Unreachable
from tasks.kinds.column_types import inner
from tasks.kinds.tables.footers import once
from tasks.kinds.tables.iceberg import open_catalog, planned
from tasks.kinds.tables.iceberg_files import KnownFiles, OnlyFooter, data_file, only_footer
from tasks.kinds.tables.iceberg_time import step_back_of
from tasks.kinds.tables.types import plain, plain_schema, strict_field
from tasks.protocol.table import VERSIONS_LOOKED_BACK, TableChange, TableState

HADOOPS_S3 = re.compile("^s3[an]://")
APPLIED = "prefect-ray-data.applied."
"""A property of the table for each ledger: properties outlive the snapshots that are expired."""
MERGED = {"commit.manifest-merge.enabled": "true"}
"""Iceberg's own default, which pyiceberg has not: else each look reads a manifest of each night."""


@dataclass(frozen=True)
class IcebergOutput:
    """A catalog's table whose location is the output's folder."""

    kind: ClassVar[str] = "iceberg"
    place: str
    location: str
    identifier: tuple[str, ...]
    catalog: dict[str, str]
    storage_options: dict[str, Any]
    partition_by: tuple[str, ...]
    known: dict[str, OnlyFooter] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    """Data files by path: each is opened once, however often is committed."""

    @property
    def embedded(self) -> str | None:
        """File of the catalog that lies beside the output; None where another one is named."""
        return None if self.catalog else f"{self.location}.catalog.db"

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """The catalog."""
        properties = self.catalog
        if self.embedded:
            os.makedirs(os.path.dirname(self.embedded), exist_ok=True)
            properties = {"type": "sql", "uri": f"sqlite:///{self.embedded}"}
        with closing(open_catalog("sink.catalog", properties, self.storage_options)) as catalog:
            yield catalog

    @contextmanager
    def loaded(self) -> Iterator[Any]:
        """The table, while its catalog is open; None where there is none.

        Raises:
            InvalidSpec: the catalog's table of that name lies elsewhere, or was removed.
            Unreachable: the catalog or the storage did not answer.
        """
        if self.embedded and not os.path.exists(self.embedded):
            yield None
            return
        with errors_of(self.place), self.opened() as catalog:
            try:
                table = load(catalog, self.identifier)
            except FileNotFoundError as error:
                where = self.embedded or "its catalog"
                problem = (
                    f"is a table in {where}, but its files are gone ({error}): if it was moved, "
                    "move it back, since Iceberg stores absolute paths; otherwise remove it "
                    "there too"
                )
                raise InvalidSpec.at("sink.path", self.place, problem) from error
            if table is not None and bare(table.location()).rstrip("/") != bare(self.location):
                problem = f"is at {table.location()}, not at sink.path: use another table or path"
                raise InvalidSpec.at("sink.table", ".".join(self.identifier), problem)
            yield table

    def schema(self) -> pa.Schema | None:
        """The table's columns; None where there is no table."""
        with self.loaded() as table:
            if table is None:
                return None
            fields = table.schema().as_arrow()
            return pa.schema(
                [strict_field(pa.field(each.name, own_type(each.type)), each) for each in fields]
            )

    def format_version(self) -> int:
        """Of the format that the table is written in; 0 where there is no table."""
        with self.loaded() as table:
            return 0 if table is None else int(table.format_version)

    def refuse_step_back(self) -> None:
        """See, before anything is predicted, that a change could be committed.

        Raises:
            InvalidSpec: this machine's clock is behind that of whoever changed the table last.
        """
        with self.loaded() as table:
            step_back = table and step_back_of(table, self.place)
        if step_back:
            raise InvalidSpec(f"sink.path: {step_back}")

    def partition_columns(self) -> list[str] | None:
        """Columns that part it, with what is done to them; None where there is no table."""
        with self.loaded() as table:
            if table is None:
                return None
            schema = table.schema()
            pairs = [
                (schema.find_column_name(e.source_id), e.transform) for e in table.spec().fields
            ]
            return [name if str(how) == "identity" else f"{how}({name})" for name, how in pairs]

    def look(self, ledger_id: str) -> TableState:
        """Read the table's metadata and manifests."""
        with self.loaded() as table:
            if table is None:
                return TableState(0, frozenset())
            applied = int(table.properties.get(APPLIED + ledger_id, 0))
            files = self.standing(table)
            return TableState(applied, files, table.metadata_location)

    def files(self, table: Any, snapshot_id: int | None = None) -> dict[str, Any]:
        """The table's data files, now or of a snapshot, by their paths below the output."""
        return {path: task.file for path, task in self.scanned(table, snapshot_id).items()}

    def standing(self, table: Any, snapshot_id: int | None = None) -> frozenset[str]:
        """Their paths; a file of which others have deleted rows is another one by now."""
        return frozenset(
            f"{path} with deleted rows" if task.delete_files else path
            for path, task in self.scanned(table, snapshot_id).items()
        )

    def scanned(self, table: Any, snapshot_id: int | None) -> dict[str, Any]:
        """What a reader of the table opens, by its path below the output.

        Raises:
            InvalidSpec: others have deleted rows by value.
        """
        tasks = planned(table.scan(snapshot_id=snapshot_id), "sink.path", self.place)
        folder = f"{bare(self.location)}/"
        return {bare(each.file.file_path).removeprefix(folder): each for each in tasks}

    def way_back(self, files: Set[str]) -> str | None:
        """The call that rolls back to the last snapshot with these files; None if it is expired."""
        from pyiceberg.table.snapshots import ancestors_of

        with self.loaded() as table:
            if table is None:
                return None
            older = ancestors_of(table.current_snapshot(), table.metadata)
            for snapshot in islice(older, VERSIONS_LOOKED_BACK):
                if files <= self.standing(table, snapshot.snapshot_id):
                    back = f"rollback_to_snapshot({snapshot.snapshot_id})"
                    return f"table.manage_snapshots().{back}.commit()"
        return None

    def commit(self, change: TableChange, seen: TableState) -> None:
        """Add and remove files in one transaction on top of what was seen."""
        if seen.version is None and change.schema is None:
            return  # neither a table nor a row to make one for
        version = self.create(change) if seen.version is None else seen.version
        with self.loaded() as table:
            if table is None or table.metadata_location != version:
                raise StaleTable(f"{self.place} has changed since it was read")
            self.commit_on(table, change)

    def create(self, change: TableChange) -> str:
        """Make the table, without rows; return its version."""
        from pyiceberg.transforms import IdentityTransform

        assert change.schema is not None
        with errors_of(self.place), self.opened() as catalog:
            catalog.create_namespace_if_not_exists(self.identifier[:-1])
            transaction = catalog.create_table_transaction(
                self.identifier, plain_schema(change.schema), self.location, properties=MERGED
            )
            with transaction.update_spec() as spec:
                for name in self.partition_by:
                    spec.add_field(name, IdentityTransform(), name)
            return str(transaction.commit_transaction().metadata_location)

    def commit_on(self, table: Any, change: TableChange) -> None:
        """Commit to the table as it was loaded; files' statistics come from their footers."""
        from pyiceberg.table import TableProperties

        if step_back := step_back_of(table, self.place):
            raise StaleTable(step_back)
        # In this process only: a retry of pyiceberg's would not look whether another publisher of
        # the same entry was faster.
        table.metadata.properties[TableProperties.COMMIT_NUM_RETRIES] = "0"
        live = self.files(table) if change.removed else {}
        gone = [live[each.path] for each in change.removed if each.path in live]
        transaction = table.transaction()
        # Whoever reads the table may know no other scheme than its own.
        home = self.location if table.location().startswith("file:") else table.location()
        paths = [f"{home.rstrip('/')}/{file.path}" for file in change.added]
        once(self.known, paths, lambda path: only_footer(table.io.new_input(path)))
        known = KnownFiles(self.known)
        if change.added:
            assert change.schema is not None
            # Of columns that are there it would say again that they may be empty: those that must
            # not be would be so no more, and one that identifies rows stops the transaction.
            there = {each.name for each in transaction.table_metadata.schema().fields}
            new = [each for each in plain_schema(change.schema) if each.name not in there]
            with transaction.update_schema() as update:
                update.union_by_name(pa.schema(new))
            if transaction.table_metadata.name_mapping() is None:
                mapping = transaction.table_metadata.schema().name_mapping.model_dump_json()
                transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping})
        transaction.set_properties({APPLIED + change.ledger_id: str(change.version)})
        if change.added or gone:
            about = {"run-id": change.run_id, "ledger-version": str(change.version)}
            update = transaction.update_snapshot(snapshot_properties=about)
            # Who follows a table by what is appended may fail at any other snapshot, as Spark does.
            with update.overwrite() if gone else update.merge_append() as files:
                for path in paths:
                    metadata = transaction.table_metadata
                    listed = data_file(known, metadata, path, self.partition_by, self.place)
                    files.append_data_file(listed)
                for file in gone:
                    files.delete_data_file(file)
        transaction.commit_transaction()


@contextmanager
def errors_of(place: str) -> Iterator[None]:
    """What pyiceberg, its catalogs and their clients raise, in this project's words.

    Raises:
        StaleTable: the catalog refused a commit.
        Unreachable: catalog or storage did not answer, perhaps after a commit.
    """
    from pyiceberg import exceptions as ice
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (
        ice.CommitFailedException,
        ice.ValidationException,
        ice.TableAlreadyExistsError,
    ) as error:
        raise StaleTable(f"{place} did not take the transaction: {error}") from error
    except (ice.RESTError, SQLAlchemyError, OSError) as error:
        raise Unreachable(f"sink: the table {place} cannot be reached: {error}") from error


def load(catalog: Any, identifier: tuple[str, ...]) -> Any:
    """A catalog's table; None where it has none of that name."""
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

    try:
        return catalog.load_table(identifier)
    except (NoSuchTableError, NoSuchNamespaceError):
        return None


def own_type(kind: pa.DataType) -> pa.DataType:
    """A table's type as those of rows are written, but for bytes of a length: ours have none."""
    return kind if any(map(is_of_a_length, inner(kind))) else plain(kind)


def is_of_a_length(kind: pa.DataType) -> bool:
    """Whether values are so many bytes, as those of UUIDs are."""
    return isinstance(kind, pa.BaseExtensionType) or pa.types.is_fixed_size_binary(kind)


def bare(path: str) -> str:
    """A path as it is written here, whoever wrote it: Hadoop has its own schemes for S3."""
    return HADOOPS_S3.sub("s3://", path).removeprefix("file://")
