"""The ledgers of outputs."""

from tasks.protocol.delta_ledger import DeltaLedger
from tasks.ray_job.job import output_of
from tasks.spec import BatchInferenceSpec


def ledger_of(spec: BatchInferenceSpec) -> DeltaLedger:
    """The output's ledger."""
    storage, output = output_of(spec)
    url = output.ledger if storage.is_local else storage.filesystem.unstrip_protocol(output.ledger)
    return DeltaLedger(url, spec.sink.storage_options)
