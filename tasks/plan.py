"""The plan of a run: list the inputs, subtract what is published and recorded, pin the rest."""

from dataclasses import dataclass, field, replace
from functools import cached_property

from tasks.access import access_told
from tasks.counted import counted
from tasks.errors import OutputHeld
from tasks.kinds.models import Model
from tasks.lease import hold, let_go
from tasks.ledgers import ledger_of
from tasks.outputs import AtOutput, name_of_run, output_of
from tasks.planning.call import Call
from tasks.planning.notes import notes_of
from tasks.planning.output_as_found import refuse_unknown
from tasks.planning.output_trial import try_output
from tasks.planning.preflight import check_spec
from tasks.planning.sharding import num_inputs
from tasks.protocol.acceptance import Accepted, Gap, find_gap
from tasks.protocol.applying import bring_up_to_date
from tasks.protocol.delta_ledger import DeltaLedger
from tasks.protocol.layout import RunFolder
from tasks.protocol.ledger import Snapshot
from tasks.protocol.plan_file import Plan, load_plan
from tasks.protocol.records import Record
from tasks.ray_job.counts import AFTER_CUT, STAGES
from tasks.record_coverage import accepted_in, rows_settled
from tasks.run_folder import day_of, read_header, run_id_of
from tasks.run_options import RunOptions
from tasks.spec import BatchInferenceSpec
from tasks.timeouts import at_output


@dataclass(frozen=True)
class PlannedRun(AtOutput):
    """A run with its plan."""

    spec: BatchInferenceSpec
    run_key: str
    """What makes two calls the same run."""
    config: str
    """Digest of all that decides a prediction, as the ledger keeps it."""
    plan: Plan
    inputs_skipped: int
    """Published already; of a redrive, changed or gone since."""
    options: RunOptions
    """How to plan it again, should an input change."""
    replaces: bool
    """Whether it makes a complete new version."""
    rows_before: int
    """Rows that earlier attempts had settled when this run was planned."""
    attempts_before: int
    """Number of the last one when this call began, 0 before the first: what they did is not the
    call's."""
    notes: list[str]
    """What whoever runs it should know of what is published already."""
    known_records: dict[str, Record] = field(
        default_factory=dict, repr=False, compare=False, kw_only=True
    )
    """Those that were read, by path: a large run has many, and asks for all of them some times."""
    left_out: str = field(default="", kw_only=True)
    """Files beside the inputs that are none for their endings."""

    @property
    def run(self) -> RunFolder:
        """The run's folder."""
        return self.output.run(run_id_of(self.run_key))

    @property
    def name(self) -> str:
        """The run's name on a cluster."""
        return name_of_run(self.spec, self.run.run_id)

    @property
    def is_cut(self) -> bool:
        """Whether its rows are kept by a job of its own before another one predicts."""
        options = self.options
        wanted = self.spec.stages.preprocess.materialize
        return wanted and options.limit is None and not options.redrive

    @property
    def stages(self) -> tuple[str, ...]:
        """What its own job does."""
        return AFTER_CUT if self.is_cut else STAGES

    @cached_property
    def ledger(self) -> DeltaLedger:
        """The output's ledger."""
        return ledger_of(self.spec)

    @property
    def pinned_model(self) -> Model:
        """The model as planned: its weights are those whose fingerprint the plan has."""
        return self.spec.model.pinned(self.plan.pins["fingerprints"]["model"])

    @property
    def planned_on(self) -> str:
        """Day on which the run was first planned.

        Raises:
            InvalidSpec: the run's header is damaged.
        """
        return day_of(read_header(self.storage, self.run))

    @property
    def nothing_to_do(self) -> bool:
        """Whether every input is published already."""
        return len(self.plan.shards) == 0 and not self.replaces

    @property
    def summary(self) -> str:
        """What there is to do, in a line."""
        known = self.plan.pins["known_rows"]
        rows = f", {counted(known, 'row')}" if known is not None else ""
        done = f" ({counted(self.rows_before, 'row')} done before)" if self.rows_before else ""
        why = "changed or gone since" if self.options.redrive else "published already"
        told = f"{num_inputs(self.plan):,} to do{rows}{done}, {self.inputs_skipped:,} {why}"
        return f"{told}; {self.left_out}" if self.left_out else told

    def hold(self) -> None:
        """Say that this process works on the run; to be said again and again."""
        hold(self.storage, self.run, self.options.flow_runs)

    def let_go(self) -> None:
        """Say that this process works on the run no more."""
        let_go(self.storage, self.run)

    def refuse_given_up(self) -> None:
        """Refuse to go on with what somebody has given up, or to publish it over what they have.

        Raises:
            OutputHeld: says how that was, and what to do.
        """
        given_up = self.storage.stat(self.run.abandoned) is not None
        if given_up and not self.is_published():
            raise OutputHeld(
                f"run {self.run.run_id} was given up, with --restart or for another spec's run, "
                "and is not published: run again to predict what is still unpublished"
            )

    def is_published(self) -> bool:
        """Whether the ledger has the run."""
        return self.ledger.look().version_of(self.run_key) is not None

    def accepted(self) -> Accepted:
        """What the records cover now."""
        grows = self.spec.sink.takes_new_columns
        where = self.storage, self.run, self.plan, self.is_published
        return accepted_in(*where, takes_new_columns=grows, known=self.known_records)

    def gap(self, accepted: Accepted, *, retry_rejected: bool) -> Gap:
        """What they do not cover."""
        return find_gap(self.plan, accepted, retry_rejected=retry_rejected)


def make_plan(
    spec: BatchInferenceSpec, options: RunOptions | None = None, *, save: bool = True
) -> PlannedRun:
    """Plan a run, or pick up the unfinished one; nothing expensive is started.

    Args:
        spec: what to run.
        options: how it was called.
        save: whether to leave the plan in the run's folder; else nothing is written there.

    Raises:
        InvalidSpec: the spec does not fit its inputs, its output or this machine.
        SchemaMismatch: a column of its inputs cannot be what is published.
        UnfinishedRun: another spec's run is unfinished here.
        OutputHeld: another spec's run is at work here.
        Unreachable: a storage or the cluster does not answer, or does not let this user in.
    """
    with access_told(spec):
        return find_plan(spec, options or RunOptions(), save=save)


def find_plan(spec: BatchInferenceSpec, options: RunOptions, *, save: bool) -> PlannedRun:
    """What `make_plan` does, but for what it tells of files that this user may not read."""
    fingerprints = check_spec(spec)
    call = Call(spec, options, fingerprints, output_as_it_stands(spec, try_it=save))
    with at_output(spec):
        call.refuse_no_baseline()
        call.refuse_other_config()
        call.refuse_loss_of_times()
        call.refuse_emptied()
        run_key = call.run_key()
        run = call.output.run(run_id_of(run_key))
        old = load_plan(call.storage, run)
    work = call.find_work(old)
    with at_output(spec):
        call.refuse_other_run(run_key)
    plan = call.plan(work, old, run)
    with at_output(spec):
        if len(plan.shards):
            plan = call.settle(plan, run, run_key, save=save)
        elif save:
            call.end_without_inputs(run, old)
        notes = notes_of(call) if len(plan.shards) or not options.redrive else []
        grows = spec.sink.takes_new_columns
        rows_before = rows_settled(call.storage, run, plan, takes_new_columns=grows)
        # Numbers skip those of which a cluster remembers another job.
        attempts = call.storage.folders(f"{run.path}/attempts")
        attempts_before = max((int(name) for name in attempts if name.isdecimal()), default=0)
    return PlannedRun(
        spec=spec,
        run_key=run_key,
        config=call.configs[0],
        plan=plan,
        inputs_skipped=work.skipped,
        # To give up unfinished runs twice would give up this one.
        options=replace(options, restart=False),
        replaces=call.replaces,
        rows_before=rows_before,
        attempts_before=attempts_before,
        notes=notes,
        left_out=work.left_out,
    )


def output_as_it_stands(spec: BatchInferenceSpec, *, try_it: bool) -> Snapshot:
    """What is published, all of it in its place.

    Args:
        spec: what to run.
        try_it: whether to see that an output that is not there yet can be made.

    Raises:
        InvalidSpec: it lies in a bucket that is not there.
        Unreachable: the ledger's storage does not answer, or does not let this user in.
    """
    storage, output = output_of(spec)
    ledger = ledger_of(spec)
    with at_output(spec):
        seen = bring_up_to_date(storage, ledger, output)
        if seen.version == 0:
            refuse_unknown(storage, output, ledger)
    if seen.version == 0 and try_it:
        try_output(storage, output, ledger)
    return seen
