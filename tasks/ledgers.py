"""The ledgers of outputs."""

from tasks.outputs import output_of
from tasks.protocol.delta_ledger import DeltaLedger
from tasks.spec import BatchInferenceSpec


def ledger_of(spec: BatchInferenceSpec) -> DeltaLedger:
    """The output's ledger."""
    storage, output = output_of(spec)
    return DeltaLedger(storage.url_of(output.ledger), spec.sink.storage_options)
