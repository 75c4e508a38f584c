"""Judge, audit, then commit: all rows or none."""

import logging
import time
from contextlib import suppress
from functools import partial
from typing import Any

from tasks.errors import BatchInferenceError, RowsMissing, RunStopped
from tasks.plan import PlannedRun
from tasks.planning.config import config_digests, model_digest
from tasks.planning.equal_configs import equals_of
from tasks.planning.new_versions import refuse_later
from tasks.planning.reader_settings import reading_of
from tasks.planning.sharding import has_rows
from tasks.planning.unfinished import leave_word
from tasks.protocol.acceptance import Accepted
from tasks.protocol.ledger import Snapshot
from tasks.protocol.publication import Keys, Publication
from tasks.protocol.publishing import publish
from tasks.protocol.rewriting import as_they_are
from tasks.publishing.history import with_history
from tasks.publishing.judging import pass_gates
from tasks.publishing.rejections import check_budget
from tasks.publishing.row_keys import keys_of
from tasks.ray_job.follower_heartbeat import STOPPED
from tasks.ray_job.output_schema import find_pinned, pinned
from tasks.ray_job.writing import QUARANTINE
from tasks.record_coverage import count_rows
from tasks.run import last_job
from tasks.run_folder import pin_schema, published_schema, read_header

logger = logging.getLogger(__name__)


def publish_planned(planned: PlannedRun) -> int:
    """Publish a run whose records cover its plan; return the output's version.

    Raises:
        ErrorBudgetExceeded: too many rows were set aside; says which errors and which rows.
        GateFailed: a gate does not let the rows pass; says what each gate found.
        InvalidSpec: others have changed the output's table.
        KeysRepeated: two rows have the same key, and replace published ones by it.
        OutputHeld: another run has published the same inputs meanwhile, or another model's
            predictions; or somebody gave this run up.
        RunStopped: somebody has left word meanwhile that the run is to stop.
        RowsMissing: a record that came late has left a gap, or has other types; another attempt
            closes it.
    """
    pin_published_types(planned)
    schema, accepted = schema_hex(planned), planned.accepted()
    check_budget(planned, accepted)
    keys = keys_of(planned, accepted)
    judged = pass_gates(planned, accepted, keys) if brings_rows_to_judge(planned) else {}
    check_table(planned)
    planned.refuse_given_up()
    refuse_stopped(planned)
    if schema_hex(planned) != schema:
        raise RowsMissing("a late writer had rows that do not fit the output's types: run again")
    what = publication(planned, accepted, keys, details(planned, schema) | judged)
    try:
        version = publish(planned.storage, planned.ledger, planned.output, what)
    except RowsMissing:
        pin_published_types(planned)  # if others have published since, the next attempt must know
        raise
    try:
        leave_word(planned.spec, planned.run)  # to one taken for lost: nobody looks for it now
    except (BatchInferenceError, OSError) as error:
        logger.warning(
            "published, but jobs that no run follows could not be told to stop: %s", error
        )
    return version


def publication(
    planned: PlannedRun, accepted: Accepted, keys: Keys | None, details: dict[str, Any]
) -> Publication:
    """What a run is about to publish.

    Args:
        planned: the run.
        accepted: of its records.
        keys: of its rows, where these take the place of others.
        details: for the ledger.
    """
    sink, fingerprints = planned.spec.sink, planned.plan.pins["fingerprints"]
    configs = config_digests(planned.spec, fingerprints, planned.options.limit)
    return Publication(
        run_key=planned.run_key,
        run=planned.run,
        plan=planned.plan,
        accepted=accepted,
        suffix=sink.suffix,
        drop_rows=sink.drop_rows,
        drop_rejections=QUARANTINE.drop_rows,
        replaces=planned.replaces,
        drops_others=planned.replaces and drops_others(planned),
        check=partial(refuse_outdone, planned),
        amend_rejections=with_history(planned) if planned.plan.redrives else as_they_are,
        keys=keys,
        rows=count_rows(accepted),
        configs=equals_of(planned.storage, planned.output, configs),
        details=details,
    )


def refuse_outdone(planned: PlannedRun, seen: Snapshot) -> None:
    """Publish nothing over what others have published since the run was planned and is to stay.

    Args:
        planned: the run.
        seen: what is published by now: who gives the run up does so before it publishes.

    Raises:
        OutputHeld: they have given the run up, or theirs are the rows of a later time.
    """
    if planned.replaces:  # else whoever has published inputs of its own is in its way, and no other
        planned.refuse_given_up()
    refuse_later(planned.spec, planned.options, seen)


def drops_others(planned: PlannedRun) -> bool:
    """Whether a complete new version is all there is to be, whatever others publish meanwhile.

    So it is with `sink.mode: replace`, and of a trial's first rows.
    """
    return planned.spec.sink.mode == "replace" or planned.options.limit is not None


def refuse_stopped(planned: PlannedRun) -> None:
    """Publish nothing where somebody has stopped the run since its last job ended.

    Gates look at all rows, which may take minutes.

    Raises:
        RunStopped: there is word of that.
    """
    job = last_job(planned.storage, planned.run)
    if job and planned.storage.stat(job.stopped_file) and not planned.is_published():
        raise RunStopped(STOPPED)


def pin_published_types(planned: PlannedRun) -> None:
    """See that the run's rows are of the types of what others have published since it was planned.

    Raises:
        RowsMissing: they are not, and are made anew by another attempt.
    """
    seen = planned.ledger.look()
    if seen.version_of(planned.run_key) or planned.plan.redrives:
        return
    schema, grows = published_schema(seen, planned.replaces), planned.spec.sink.takes_new_columns
    if pin_schema(planned.storage, planned.run, schema, takes_new_columns=grows):
        raise RowsMissing(
            "another run has published rows of other types since this one began: run again to "
            "make its rows in those types"
        )


def details(planned: PlannedRun, schema: str | None) -> dict[str, Any]:
    """What the ledger keeps of a run beside its rows, for later runs and for whoever asks."""
    spec, redrives = planned.spec, planned.plan.redrives
    fingerprint = planned.plan.pins["fingerprints"]["model"]
    return {
        # A redrive may use another model, on purpose: it is no measure for later runs.
        "config": None if redrives else planned.config,
        "reading": None if redrives else reading_of(spec.source),
        "name": spec.name,
        "published_at": time.time(),
        "flow_runs": flow_runs_of(planned),
        "scheduled_time": planned.options.scheduled_iso,
        "model": fingerprint,
        "model_digest": model_digest(spec.model, fingerprint),
        "schema": schema,
        "table": table.kind if (table := planned.output.table) else None,
    }


def flow_runs_of(planned: PlannedRun) -> list[str]:
    """Flow runs that have worked on a run: the one that publishes it, and the one that began it.

    That one may be started again, and is not to do once more what another has done for it.
    """
    header: dict[str, Any] = {}
    with suppress(FileNotFoundError):  # there is none without inputs
        header = read_header(planned.storage, planned.run)
    return list(dict.fromkeys([*planned.options.flow_runs, *(header.get("flow_runs") or ())]))


def brings_rows_to_judge(planned: PlannedRun) -> bool:
    """Whether the run is one that gates are about.

    What a redrive brings in is a handful of rows, and the rest of its run has passed them. And
    where inputs have only gone from a table, there is nothing new.
    """
    shards = planned.plan.shards
    return not planned.plan.redrives and (has_rows(shards) or not len(shards))


def check_table(planned: PlannedRun) -> None:
    """See that the output's table, where it is one, still takes the rows, before it is decided.

    Raises:
        InvalidSpec: others have changed its columns, or what parts it, since the run was planned.
    """
    schema = pinned(planned.storage, planned.run) if planned.output.table else None
    if schema is not None and not planned.ledger.look().version_of(planned.run_key):
        planned.spec.sink.check()
        planned.spec.sink.schema_for(schema)


def schema_hex(planned: PlannedRun) -> str | None:
    """The run's output schema, as the ledger keeps it for the next run."""
    found = find_pinned(planned.storage, planned.run)
    return planned.storage.read(found).hex() if found else None
