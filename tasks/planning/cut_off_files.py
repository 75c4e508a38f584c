"""Files that could not be read to their end: a redrive leaves what stands for the rest of them.

How many rows come there nobody knows, and none of them is in the quarantine. Were that one line
tried again, and the file could be read further by now, all the others would count as done.
"""

import io
import logging
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.counted import counted
from tasks.errors import InvalidSpec
from tasks.kinds.sources.source import REST_OF_FILE
from tasks.protocol.asked_at_once import fetched
from tasks.protocol.ids import IdRuns, RowsByRun, by_run, row_of
from tasks.protocol.layout import OutputFolder
from tasks.protocol.ledger import Snapshot
from tasks.protocol.ledger_lines import LedgerFile
from tasks.protocol.read_back import decoded
from tasks.protocol.rewriting import read_published
from tasks.protocol.storage import FsspecStorage

logger = logging.getLogger(__name__)

COLUMNS = ["source", "error_type"]


def rows_to_redrive(storage: FsspecStorage, output: OutputFolder, seen: Snapshot) -> RowsByRun:
    """Rows in the quarantine, by the run that set them aside; less what stands for others too.

    A file of which nothing could be read is done again as a whole.

    Args:
        storage: of the output.
        output: its folders.
        seen: what is published.
    """
    files = [*seen.quarantine.values()]
    left, sources = list[tuple[str, IdRuns]](), set[str]()
    for file, lines in zip(files, fetched(partial(lines_of, storage, output), files), strict=True):
        ids = file.ids.ids()
        if lines is not None:
            types = lines["error_type"].to_numpy(zero_copy_only=False)
            is_rest = (types == REST_OF_FILE) & (row_of(ids) > 0)
            sources |= {*lines["source"].filter(pa.array(is_rest)).to_pylist()}
            ids = ids[~is_rest]
        left.append((file.run_id, IdRuns.of(ids)))
    if sources:
        logger.warning(
            "%s could not be read to the end, the first %s: which rows are missing nobody knows, "
            "so a redrive leaves them. Write the file anew, as a copy of itself, and run, or use "
            "--replace-output",
            counted(len(sources), "file"),
            min(sources),
        )
    return {run_id: ids for run_id, ids in by_run(left).items() if len(ids)}


def lines_of(storage: FsspecStorage, output: OutputFolder, file: LedgerFile) -> pa.Table | None:
    """What a quarantine file says of its rows; None where others have damaged or removed it.

    That is logged: its rows are tried as all are.
    """

    def lines(content: bytes) -> pa.Table:
        found = pq.read_table(io.BytesIO(content), columns=COLUMNS)
        if len(found) != file.rows:
            raise ValueError(f"it has {len(found)} rows, but {file.rows} were published")
        return found

    try:
        content = read_published(storage, output, file)
        return decoded(file.target(output), content, lines, "Restore it from a copy")
    except (FileNotFoundError, InvalidSpec) as error:
        logger.warning("whether rows set aside stand for the rest of a file is unknown: %s", error)
        return None
