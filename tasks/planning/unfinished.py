"""Runs that build on the output as it is and are not published: whose they are, who is at work."""

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tasks.errors import BatchInferenceError, InvalidSpec, OutputHeld, Unreachable
from tasks.kinds.clusters import InlineCluster
from tasks.lease import holder_of
from tasks.outputs import AtOutput, first_job_of, output_of
from tasks.planning.config_parts import A_REDRIVE
from tasks.planning.unfinished_errors import of_a_run, of_another_spec, of_another_time
from tasks.protocol.asked_at_once import asked_at_once
from tasks.protocol.layout import RunFolder
from tasks.protocol.ledger import Snapshot
from tasks.protocol.plan_file import load_plan
from tasks.ray_job.job import Job, without_result
from tasks.record_coverage import rows_settled
from tasks.run_folder import read_header
from tasks.spec import BatchInferenceSpec


@dataclass(frozen=True)
class UnfinishedRuns(AtOutput):
    """Those of an output as it stands."""

    spec: BatchInferenceSpec
    """One with the output."""
    seen: Snapshot
    """What is published."""

    def headers(self) -> list[dict[str, Any]]:
        """Runs that build on the output as it is and are not published."""
        headers = []
        for header in self.unpublished():
            if header["ledger_version"] == self.seen.version:
                given_up = self.storage.stat(self.run_of(header).abandoned) is not None
                headers.append({**header, "abandoned": given_up})
        return headers

    def unpublished(self) -> Iterator[dict[str, Any]]:
        """Runs that are not published, whatever they build on."""
        # All that published runs have left, of years perhaps, is not gone through.
        left = sorted(self.storage.folders(self.output.runs) - self.seen.run_ids)
        # Of those that were given up there may be hundreds, and a plan asks for them some times.
        return filter(None, asked_at_once(self.header_of, left))

    def header_of(self, run_id: str) -> dict[str, Any] | None:
        """What a run is; None where it does not say."""
        with suppress(FileNotFoundError):
            return read_header(self.storage, self.output.run(run_id))
        return None

    def run_of(self, header: dict[str, Any]) -> RunFolder:
        """A run's folder."""
        return self.output.run(header["run_id"])

    def is_left_alone(self, header: dict[str, Any]) -> bool:
        """Whether nobody is at work on a run."""
        return holder_of(self.storage, self.run_of(header)) is None

    def given_up(self, *, restart: bool, redrive: bool) -> list[str]:
        """Runs given up on this version of the output, and those that are to be.

        A redrive that nobody is at work on is in no other run's way: its rows are set aside still.

        Args:
            restart: whether all of them are to be.
            redrive: whether it is a redrive that asks.

        Raises:
            OutputHeld: somebody is at work on one that is to be given up with `restart`.
        """
        headers = self.headers()
        if restart:
            for header in headers:
                self.refuse_live(self.run_of(header))
        return sorted(
            header["run_id"]
            for header in headers
            if restart or header["abandoned"] or (not redrive and self.is_dead_redrive(header))
        )

    def is_dead_redrive(self, header: dict[str, Any]) -> bool:
        """Whether a run is a redrive that nobody is at work on."""
        return bool(header["call"].get("redrive")) and self.is_left_alone(header)

    def without_rows(self, call: dict[str, Any], scheduled_time: str | None) -> list[str]:
        """Runs of the same inputs that have settled no row, and nobody is at work on.

        Whoever mends what they failed on, such as a model's code or how the source is read, need
        not say that such a run is to be given up: there is nothing in it. Nor need who is told to
        make a new version. A run of another scheduled time has inputs that no other one takes.

        Args:
            call: options of who asks.
            scheduled_time: that who asks is of, where its paths name one.
        """
        return [
            header["run_id"]
            for header in self.headers()
            if not header["abandoned"]
            and header["call"] in (call, {**call, "replace_output": False})
            and header.get("scheduled_time") == scheduled_time
            and place_of(header["spec"].get("source", {})) == place_of(self.spec.source.as_json())
            and self.is_left_alone(header)
            and not self.settled_by(self.run_of(header))
        ]

    def settled_by(self, run: RunFolder) -> int:
        """Rows that a run has settled, at most: its own spec says whether all of them count."""
        plan = load_plan(self.storage, run)
        return rows_settled(self.storage, run, plan, takes_new_columns=True) if plan else 0

    def begun(self) -> dict[str, str | None]:
        """Runs that are not given up either, and where the page of each lies, if any.

        One that was killed or held back: the next run goes on with it, or says what differs.
        """
        runs = [self.run_of(each) for each in self.headers() if not each["abandoned"]]
        return {run.run_id: run.page if self.storage.stat(run.page) else None for run in runs}

    def has_begun(self, flow_run: str) -> bool:
        """Whether a flow run, or one that it has started, has begun a run here or published one."""
        known = [*self.unpublished(), *self.seen.entries.values()]
        return any(flow_run in each.get("flow_runs", ()) for each in known)

    def refuse_live(self, run: RunFolder) -> None:
        """Raise OutputHeld where somebody is at work on a run."""
        if holder := holder_of(self.storage, run):
            known = holder.flow_runs[:1]
            error = OutputHeld(
                f"{self.output.path} is held by run {run.run_id}, at work in "
                f"{holder}{f' for flow run {known[0]}' if known else ''}; wait for it or stop it"
            )
            error.flow_runs = holder.flow_runs
            error.is_over = lambda: holder_of(self.storage, run) is None
            raise error

    def refuse_others(
        self,
        run_key: str,
        given_up: list[str],
        what_differs: Callable[[str], tuple[list[str], list[str]]],
        scheduled_time: str | None,
        after: tuple[str, ...],
    ) -> None:
        """Refuse to start beside another spec's run, or this one's in another process.

        Args:
            run_key: of the run that is asked for.
            given_up: runs that are in nobody's way.
            what_differs: of source and options, and of what decides a prediction, from a run's.
            scheduled_time: that who asks is of, where its paths name one.
            after: scheduled times whose runs are finished after it, by whoever asks.

        Raises:
            OutputHeld: it is at work.
            UnfinishedRun: it is not; says what differs, and the ways out.
        """
        for header in self.headers():
            if header["run_id"] in given_up:
                continue
            run, is_this_run = self.run_of(header), header["run_key"] == run_key
            # Its job is gone on with by whoever asks, but not out of another process.
            if not is_this_run or isinstance(self.spec.cluster, InlineCluster):
                self.refuse_live(run)
            if is_this_run:
                continue
            others, parts = what_differs(run.run_id)
            time = header.get("scheduled_time")
            of_several = bool(scheduled_time) and not time
            time = None if time == scheduled_time else time
            is_of_source = bool(others) and all(each.startswith("source.") for each in others)
            if not (time and is_of_source and not parts):
                done, differs = self.settled_by(run), others + parts
                if differs == [A_REDRIVE] and not (time or header["call"].get("redrive")):
                    raise of_a_run(self.output, run, done)
                raise of_another_spec(self.output, run, differs, done, time, of_several=of_several)
            if time not in after:
                raise of_another_time(self.output, run, time)


def place_of(source: dict[str, Any]) -> list[Any]:
    """Where a source lies: a database's path leads to all of its tables.

    Args:
        source: as JSON.
    """
    return [source.get(name) for name in ("path", "table", "split_name")]


def give_up(spec: BatchInferenceSpec, run: RunFolder) -> None:
    """Mark a run as one that nobody goes on with; jobs of it that nobody follows stop themselves.

    Args:
        spec: one with the run's output.
        run: its folder.
    """
    storage, _ = output_of(spec)
    if storage.stat(run.abandoned) is not None:
        return
    leave_word(spec, run)
    # Last: who is cut short before this tells the jobs once more.
    storage.write(run.abandoned, b"")


def leave_word(spec: BatchInferenceSpec, run: RunFolder) -> None:
    """Tell jobs of a run that is over that they are to stop, those that nobody has seen end.

    Args:
        spec: one with the run's output.
        run: its folder.
    """
    storage, _ = output_of(spec)
    paths = [stat.path for stat in storage.list(f"{run.path}/attempts")]
    if storage.stat(run.prepared):
        paths.append(run.prepared)
    tell(jobs_left(spec, paths))


def tell(jobs: Collection[Job]) -> None:
    """Leave word for jobs that they are to stop, hundreds perhaps; each looks for it itself."""
    for _ in asked_at_once(lambda job: job.storage.write(job.stopped_file, b""), jobs):
        pass


def jobs_left(
    spec: BatchInferenceSpec, paths: list[str], errors: list[BatchInferenceError] | None = None
) -> list[Job]:
    """Jobs that have left no result, alive or not; of cut runs both.

    Where it is damaged which first job was that of a run that is given up, it is passed over: it
    was told to stop before the run was marked.

    Args:
        spec: one with their output.
        paths: what lies in the folders of their runs.
        errors: gets why first jobs of cut runs cannot be found, where the others are wanted then.

    Raises:
        BatchInferenceError: a first job cannot be found, and no list is given.
    """
    storage, _ = output_of(spec)
    jobs = without_result(storage, paths)
    for pointer in [path for path in paths if path.endswith("/prepared.json")]:
        try:
            elsewhere, run = first_job_of(spec, storage, pointer)
            attempts = elsewhere.list(f"{run.path}/attempts")
            jobs += without_result(elsewhere, [each.path for each in attempts])
        except (InvalidSpec, OSError) as error:
            known = error if isinstance(error, InvalidSpec) else Unreachable(f"{pointer}: {error}")
            if known is error and f"{pointer.rpartition('/')[0]}/abandoned" in paths:
                continue
            if errors is None:
                raise known from error
            errors.append(known)
    return jobs
