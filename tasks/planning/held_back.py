"""A run that gates have held back, which somebody accepts."""

import logging

from tasks.outputs import output_of
from tasks.protocol.acceptance import find_gap
from tasks.protocol.layout import RunFolder
from tasks.protocol.plan_file import Plan
from tasks.record_coverage import accepted_in
from tasks.spec import BatchInferenceSpec

logger = logging.getLogger(__name__)


def as_judged(spec: BatchInferenceSpec, run: RunFolder, plan: Plan | None) -> Plan | None:
    """The plan of a run whose rows are all done and have been judged; None where it is not.

    Whoever accepts a run has seen what its gates found, of these rows and no others: inputs that
    came since are nobody's to accept.

    Args:
        spec: of who accepts it.
        run: its folder.
        plan: as an earlier attempt has left it.
    """
    storage, _ = output_of(spec)
    if plan is None or storage.stat(run.gates) is None:
        return None
    accepted = accepted_in(storage, run, plan, takes_new_columns=spec.sink.takes_new_columns)
    if find_gap(plan, accepted, retry_rejected=False):
        return None
    logger.info(
        "what was held back is accepted as its gates have judged it; whatever has changed at the "
        "source since is left to the next run"
    )
    return plan
