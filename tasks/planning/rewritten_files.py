"""Published files that others have rewritten, of which a run would have to keep some rows."""

from tasks.planning.unfinished import UnfinishedRuns
from tasks.protocol.ledger import Ledger, Snapshot
from tasks.protocol.ledger_lines import LedgerFile
from tasks.protocol.plan_file import Plan
from tasks.protocol.redriving import less_rows
from tasks.protocol.rewriting import changed, holding, without_inputs


def refuse_rewritten(here: UnfinishedRuns, ledger: Ledger, plan: Plan) -> None:
    """Refuse what could not be published, while nothing is predicted yet.

    By sizes, which a listing tells. What others rewrite in a table has other names, and its log
    says so.

    Args:
        here: the output as it was looked at.
        ledger: the output's.
        plan: of what is to be run.

    Raises:
        InvalidSpec: names the first one that is gone or rewritten, and the ways out.
    """
    storage, output, seen = here.storage, here.output, here.seen
    kept = partly_kept(seen, plan) if output.table is None else []
    if not kept:
        return
    folders = {output.quarantine if file.line == "quarantine" else output.path for file in kept}
    sizes = {stat.path: stat.size for folder in folders for stat in storage.list(folder)}
    for file in kept:
        path = file.target(output)
        if sizes.get(path) == file.size:
            continue
        if ledger.look().version != seen.version:
            return  # others have published since: where that is in the way, publishing says so
        restart = " --restart" if here.begun() else ""
        anew = f"run with --replace-output{restart}, which predicts every input again"
        raise changed(path, sizes.get(path), file, anew)


def partly_kept(seen: Snapshot, plan: Plan) -> list[LedgerFile]:
    """Published files that lose some rows to a plan's, but not all."""
    if plan.redrives:
        files = less_rows(seen.quarantine.values(), plan.rows_aside)
    else:
        gone = holding(seen, plan)
        all_files = [*seen.files.values(), *seen.quarantine.values()]
        files = [(f, without_inputs(f, gone[f.run_id])) for f in all_files if f.run_id in gone]
    return [file for file, keep in files if keep.any() and not keep.all()]
