"""What the records of a run cover."""

from collections.abc import Callable

from tasks.protocol.acceptance import Accepted, accept
from tasks.protocol.layout import RunFolder
from tasks.protocol.plan_file import Plan
from tasks.protocol.records import Record, load_records, with_files
from tasks.protocol.storage import FsspecStorage
from tasks.ray_job.output_schema import of_pinned_schema


def rows_settled(
    storage: FsspecStorage, run: RunFolder, plan: Plan, *, takes_new_columns: bool
) -> int:
    """Rows that a run has predicted or left out, and need not be done again."""
    if not len(plan.shards):
        return 0
    return len(accepted_in(storage, run, plan, takes_new_columns=takes_new_columns).settled)


def accepted_in(
    storage: FsspecStorage,
    run: RunFolder,
    plan: Plan,
    is_published: Callable[[], bool] = lambda: False,
    *,
    takes_new_columns: bool,
    known: dict[str, Record] | None = None,
) -> Accepted:
    """What a run's records cover, less those whose files are gone: their rows are done again.

    So it is where the output was deleted under a job, which recorded what it had staged before;
    and stores may delete what is old. A file of another size is none: somebody has cut it short.

    Args:
        storage: of the output.
        run: the run's folder.
        plan: the plan in force.
        is_published: whether files have left the staging folder for the output.
        takes_new_columns: whether rows may lack columns that came later.
        known: records that were read before, by path; gets the others.
    """
    records = load_records(storage, run, known)
    records = of_pinned_schema(storage, run, records, takes_new_columns=takes_new_columns)
    # In this order: what others publish meanwhile is not taken for gone.
    staged = with_files(storage, run, records)
    if len(staged) < len(records) and is_published():
        staged = records
    return accept(staged, plan)


def count_rows(accepted: Accepted) -> dict[str, int]:
    """Rows by what became of them; written counts children one by one.

    Of an upsert the ledger's entry says more: which of the rows newer ones have superseded.
    """
    written = sum(file.rows for record in accepted.records for file in record.files)
    rejected, filtered = len(accepted.rejected), accepted.num_filtered
    read = len(accepted.settled) + rejected
    return {"read": read, "written": written, "rejected": rejected, "filtered": filtered}
