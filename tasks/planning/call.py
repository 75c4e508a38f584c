"""A call to run a spec on an output as it stands: which run that is, and what it has to do."""

from dataclasses import dataclass
from functools import cached_property

from tasks.lease import hold, holder_of
from tasks.ledgers import ledger_of
from tasks.outputs import AtOutput
from tasks.planning.baselines import last_runs
from tasks.planning.config import (
    config_digests,
    digest,
    refuse_other_config,
)
from tasks.planning.config_parts import differing_parts
from tasks.planning.equal_configs import equals_of
from tasks.planning.held_back import as_judged
from tasks.planning.known_types import lasting_columns, refuse_unpublishable
from tasks.planning.new_inputs import NewInputs
from tasks.planning.new_versions import later_time, refuse_loss_of_times
from tasks.planning.output_as_found import (
    refuse_emptied,
    refuse_older,
)
from tasks.planning.planned_at_once import refuse_second
from tasks.planning.reader_settings import refuse_other_rows
from tasks.planning.redrive import SetAside
from tasks.planning.rewritten_files import refuse_rewritten
from tasks.planning.sharding import has_rows
from tasks.planning.unfinished import UnfinishedRuns, give_up
from tasks.protocol.applying import refuse_unmendable
from tasks.protocol.layout import RunFolder
from tasks.protocol.ledger import Snapshot
from tasks.protocol.plan_file import Plan
from tasks.protocol.table import refuse_moved
from tasks.run_folder import (
    check_schema,
    pin_schema,
    published_schema,
    run_id_of,
    save_and_reload,
    save_header,
)
from tasks.run_options import RunOptions
from tasks.spec import BatchInferenceSpec


@dataclass(frozen=True)
class Call(AtOutput):
    """What is asked for, and what is published already."""

    spec: BatchInferenceSpec
    options: RunOptions
    fingerprints: dict[str, str]
    """Of weights and code."""
    seen: Snapshot
    """What is published."""

    @cached_property
    def unfinished(self) -> UnfinishedRuns:
        """Runs on the output that are not published."""
        return UnfinishedRuns(self.spec, self.seen)

    @property
    def replaces(self) -> bool:
        """Whether it makes a complete new version, and its flow run has not made it already."""
        makes_one = self.options.makes_new_version(self.spec)
        return makes_one and not (self.own_versions or self.later_time)

    @property
    def is_outdone(self) -> bool:
        """Whether its rows were to be all there is, and later ones have taken their place."""
        own = self.own_versions
        was_replaced = self.spec.sink.mode == "replace" and bool(own) and max(own) < self.seen.base
        return was_replaced or self.later_time is not None

    @cached_property
    def later_time(self) -> str | None:
        """The scheduled time of what is published, where that is later and is to stay."""
        return later_time(self.spec, self.options, self.seen)

    @cached_property
    def own_versions(self) -> list[int]:
        """Versions that the flow run has published, or another one for it.

        The run of an earlier night, which it may have finished first, is not its own.
        """
        own, time = self.options.flow_runs[:1], self.options.scheduled_iso
        return [
            version
            for version, entry in self.seen.entries.items()
            if any(each in entry.get("flow_runs", ()) for each in own)
            and entry.get("scheduled_time", time) == time
        ]

    @cached_property
    def configs(self) -> tuple[str, str]:
        """Digests of all that decides a prediction: the one to publish, and earlier releases'."""
        return config_digests(self.spec, self.fingerprints, self.options.limit)

    @cached_property
    def equal_configs(self) -> tuple[str, ...]:
        """Those, and the digests of configs that were seen to give the same rows."""
        return equals_of(self.storage, self.output, self.configs)

    def refuse_other_config(self) -> None:
        """Refuse to mix two configs' predictions; a new version has none to mix, a redrive may."""
        if not (self.replaces or self.is_outdone or self.options.redrive):
            limit, begun = self.options.limit, self.unfinished.begun
            refuse_other_rows(self.seen, self.spec.source, begun)
            refuse_other_config(self.seen, self.equal_configs, limit, self.differs, begun)

    def differs(self, run_id: str) -> tuple[list[str], list[str]]:
        """In what it differs from the call that planned a run: source and options, and config."""
        run, now = self.output.run(run_id), self.fingerprints
        return differing_parts(self.storage, run, self.spec, now, self.options.call)

    def refuse_no_baseline(self) -> None:
        """Refuse gates of which it is known that they will have nothing to compare with."""
        if not self.options.redrive:
            last_runs(self.spec, self.seen)

    def refuse_loss_of_times(self) -> None:
        """Refuse to replace what other scheduled times have published by the rows of some.

        A part of the rows is a trial, and by `sink.mode: replace` each time takes the last's place.
        What a backfill would drop it has looked for itself, but a night may have published since.
        """
        options = self.options
        is_meant = options.limit is not None or self.spec.sink.mode == "replace"
        is_of_range = options.is_backfill and bool(options.timed_inputs)
        if self.replaces and (options.shares_output or is_of_range) and not is_meant:
            refuse_loss_of_times(self.spec, self.seen, is_of_range=is_of_range)

    def refuse_emptied(self) -> None:
        """Refuse to add to an output that is gone; a new version needs nothing of it."""
        if not self.replaces:
            refuse_emptied(self.storage, self.output, self.seen)

    @cached_property
    def given_up(self) -> list[str]:
        """Runs on this version of the output that are not to be gone on with."""
        return sorted([*self.left_behind, *self.without_rows])

    @cached_property
    def left_behind(self) -> list[str]:
        """Those of them that somebody has given up, or asks to."""
        restart = self.options.restart and not self.has_restarted
        return self.unfinished.given_up(restart=restart, redrive=self.options.redrive)

    @cached_property
    def without_rows(self) -> list[str]:
        """Those of them that another spec has begun and that have come to nothing."""
        own = [self.output.run(run_id_of(key)) for key in self.run_keys(self.left_behind)]
        if any(self.storage.stat(run.header) for run in own):
            return []  # it is gone on with, whatever else there is
        found = self.unfinished.without_rows(self.options.call, self.options.scheduled_iso)
        return [run_id for run_id in found if run_id not in self.left_behind]

    @property
    def has_restarted(self) -> bool:
        """Whether the flow run has given up before what it was to: it goes on with what it has."""
        return any(map(self.unfinished.has_begun, self.options.flow_runs[:1]))

    def give_up(self) -> None:
        """Mark these runs, now that nothing speaks against the one that takes their place.

        Raises:
            OutputHeld: somebody has gone on with one of them while the inputs were listed.
        """
        runs = [self.output.run(run_id) for run_id in self.given_up]
        left = [run for run in runs if self.storage.stat(run.abandoned) is None]
        for run in left:
            self.unfinished.refuse_live(run)
        for run in left:
            give_up(self.spec, run)

    def end_without_inputs(self, run: RunFolder, old: Plan | None) -> None:
        """Leave no unfinished run in others' way where nothing is left to do.

        Args:
            run: its folder.
            old: the plan of an earlier attempt, all of whose inputs have gone since.

        Raises:
            OutputHeld: somebody is at work on one that was to be given up.
        """
        if self.options.restart:
            self.give_up()
        if old and not self.replaces and holder_of(self.storage, run) is None:
            give_up(self.spec, run)

    def run_key(self) -> str:
        """What makes two calls the same run; that of one which an earlier release has begun.

        Jobs and clusters are named after it, so that it is of one output.
        """
        key, earlier = self.run_keys(self.given_up)
        if earlier == key or self.storage.stat(self.output.run(run_id_of(earlier)).header) is None:
            return key
        return earlier

    def run_keys(self, given_up: list[str]) -> tuple[str, str]:
        """What would name the run with these given up; by this release and by earlier ones."""
        kind_of_work = SetAside if self.options.redrive else NewInputs
        what = kind_of_work.key(self.spec)
        rest = [self.output.path, what, self.seen.version, self.replaces, given_up]
        now, earlier = self.configs
        return digest([now, *rest]), digest([earlier, *rest])

    def refuse_other_run(self, run_key: str) -> None:
        """Refuse to start beside another spec's unfinished run."""
        times = (self.options.scheduled_iso, self.options.finished_after)
        self.unfinished.refuse_others(run_key, self.given_up, self.differs, *times)

    def find_work(self, old: Plan | None) -> NewInputs | SetAside:
        """What the run is to do; `old` is the plan of an earlier attempt at it."""
        if self.options.redrive:
            return SetAside.find(self.spec, self.seen)
        return NewInputs.find(
            self.spec,
            self.seen,
            replaces=self.replaces,
            limit=self.options.limit,
            is_outdone=self.is_outdone,
            old=old,
        )

    def plan(self, work: NewInputs | SetAside, old: Plan | None, run: RunFolder) -> Plan:
        """The work as a plan that the output has a place for.

        Args:
            work: what is to be done.
            old: the plan of an earlier attempt.
            run: its folder.

        Raises:
            SchemaMismatch: a column cannot be what is published.
        """
        pins = {
            "fingerprints": self.fingerprints,
            "ledger_version": self.seen.version,
            "limit": self.options.limit,
        }
        schema = published_schema(self.seen, self.replaces)
        lasting = lasting_columns(self.spec, schema)
        plan = as_judged(self.spec, run, old) if self.options.accept else None
        plan = plan or work.plan(old, pins, lasting, lambda: self.unfinished.settled_by(run) > 0)
        if len(plan.shards):
            refuse_older(self.storage, self.output, ledger_of(self.spec), self.seen)
            # A plan of an earlier release may not say which columns are empty.
            is_new = old is None or plan.pins.get("reader") != old.pins.get("reader")
            if is_new and has_rows(plan.shards):
                refuse_unpublishable(self.spec, plan.pins.get("reader"), schema)
        may_leave = self.rows_may_leave(plan)
        if not self.replaces and (may_leave or plan.redrives):
            refuse_rewritten(self.unfinished, ledger_of(self.spec), plan)
        if self.replaces or may_leave:
            refuse_moved(self.output.table, self.seen)
        elif len(plan.shards):
            refuse_unmendable(self.storage, self.output, self.seen)
        return plan

    def rows_may_leave(self, plan: Plan) -> bool:
        """Whether published rows may have to make room for the plan's."""
        if self.spec.sink.row_key:
            return bool(len(plan.shards) and self.seen.files)
        return not self.options.redrive and self.seen.holds(plan.shards["path"])

    def settle(self, plan: Plan, run: RunFolder, run_key: str, *, save: bool) -> Plan:
        """See that the plan's rows will fit what is published; leave it in the run's folder.

        The runs that it takes the place of are given up first: those who find this one's header
        and not their marks would take it for another spec's.

        Returns:
            The plan in force, should another one have been made at the same time.

        Raises:
            OutputHeld: somebody has gone on with one of these meanwhile, or begun another run.
        """
        schema = published_schema(self.seen, self.replaces)
        check_schema(self.spec, self.storage, run, schema)
        if not save:
            return plan
        hold(self.storage, run, self.options.flow_runs)
        self.give_up()
        plan = save_and_reload(self.storage, run, plan)
        options, version = self.options, self.seen.version
        whose = (options.flow_runs, options.scheduled_iso)
        if save_header(self.storage, run, run_key, options.call, self.spec, version, *whose):
            refuse_second(self.unfinished, run, self.differs)
        grows = self.spec.sink.takes_new_columns
        pin_schema(self.storage, run, schema, takes_new_columns=grows)
        return plan
