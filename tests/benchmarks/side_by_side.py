"""Runs contenders in turn on the same inputs, new ones each round, and compares what they say."""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.benchmarks.contenders import (
    ROOT,
    Contender,
    Job,
    contender,
    install_daft,
    workload_named,
)
from tests.benchmarks.fairness import read_through, seconds_ahead
from tests.benchmarks.process_tree import run
from tests.benchmarks.ratios import NEAR, PAIRS_FOR_INTERVAL, Ratio
from tests.benchmarks.workloads.workload import Size, Target
from tests.chaos.session import session

ROUNDS = 3
FIGURES = (
    ("whole run, s", "whole", 1),
    ("steady, s", "steady", 1),
    ("CPU, s", "cpu", 1),
    ("private memory at most, MiB", "memory", 1 << 20),
)


@dataclass(frozen=True)
class Run:
    """One run of one contender."""

    rows: int
    whole: float
    """Seconds by the clock, from the start of its process to the end."""
    steady: float
    """Seconds from the first batch to the last that comes out of a model.

    Preparing the first counts, where one worker prepares and predicts, and of ours always.
    """
    cpu: float
    """User and system seconds of all its processes."""
    memory: int
    """Bytes at their most, without what processes share."""
    gpu_busy: float | None = None
    """Share of the steady time in which GPUs were busy; None where nobody has measured it."""


@dataclass(frozen=True)
class Round:
    """One run of each contender on the same inputs; their outputs agree."""

    workload: str
    size: Size
    seed: int
    runs: dict[str, Run]

    @classmethod
    def of_line(cls, line: str) -> "Round":
        """As it was stored."""
        found = json.loads(line)
        return cls(**{**found, "runs": {name: Run(**each) for name, each in found["runs"].items()}})


@dataclass(frozen=True)
class Options:
    """How a row is to be run."""

    size: Size = "whole"
    rounds: int | None = None
    """None: three; ten where a target is near parity."""
    resume: Path | None = None
    """File of the rounds that are done, a line each; they are not run again."""
    cluster: str | None = None
    """Ours; None: of a small run inline, as `run` advises, else local."""

    @property
    def ours(self) -> str:
        """The contender that is ours."""
        return self.cluster or self.usual

    @property
    def usual(self) -> str:
        """The same where nobody has named one."""
        return "inline" if self.size == "small" else "local"

    @property
    def title(self) -> str:
        """What a row's heading says beside its name."""
        parts = [self.size if self.size != "whole" else "", self.ours]
        return "".join(f", {each}" for each in parts if each and each != self.usual)


def measure(
    workload: str,
    contenders: Sequence[Contender],
    rounds: int,
    size: Size,
    folder: Path,
    resume: Path | None = None,
) -> list[Round]:
    """Run all contenders so many times, in alternating order.

    Args:
        workload: the name of its module.
        contenders: the first is the one that the others' outputs are compared with.
        rounds: each has inputs of its own.
        size: how many inputs.
        folder: for inputs, weights and outputs.
        resume: file of rounds that are done; each that is new is added.

    Raises:
        AssertionError: outputs differ.
        RuntimeError: a contender failed.
    """
    names = {each.name for each in contenders}
    done = [
        each
        for each in stored(resume)
        if (each.workload, each.size) == (workload, size) and names <= {*each.runs}
    ][:rounds]
    if len(done) == rounds:
        return done
    with surroundings(contenders, folder) as environment:
        for seed in range(len(done), rounds):
            order = contenders if seed % 2 == 0 else contenders[::-1]
            made = one_round(workload, order, seed, size, folder, environment)
            print(json.dumps(asdict(made)), flush=True)
            if resume:
                with resume.open("a") as file:
                    file.write(json.dumps(asdict(made)) + "\n")
            done.append(made)
    return done


@contextmanager
def surroundings(contenders: Sequence[Contender], folder: Path) -> Iterator[dict[str, str]]:
    """What contenders need to run: a Prefect server for ours, Daft for Daft's."""
    needs_daft = any(each.name.startswith("daft") for each in contenders)
    paths = [str(ROOT), *([install_daft(folder / "daft")] if needs_daft else [])]
    paths += [each for each in os.environ.get("PYTHONPATH", "").split(":") if each]
    environment = {"PYTHONPATH": ":".join(paths), "RAY_TMPDIR": str(folder)}
    if not any(each.is_ours for each in contenders):
        yield environment
        return
    with session(folder) as prefect:
        yield prefect.environment | environment


def stored(resume: Path | None) -> list[Round]:
    """Rounds of earlier calls."""
    if resume is None or not resume.exists():
        return []
    return [Round.of_line(line) for line in resume.read_text().splitlines()]


def one_round(
    workload: str,
    contenders: Sequence[Contender],
    seed: int,
    size: Size,
    folder: Path,
    environment: dict[str, str],
) -> Round:
    """Make inputs, run each contender on them, compare, and clear up."""
    module, place = workload_named(workload), folder / f"{workload}-{seed}"
    inputs, weights = place / "inputs", place / "weights"
    inputs.mkdir(parents=True)
    weights.mkdir()
    module.make_weights(weights, seed)
    module.make_inputs(inputs, module.SIZES[size], seed)
    runs = {}
    for each in contenders:
        job = Job(module, inputs, weights, place / each.name)
        read_through(inputs)
        runs[each.name] = one_run(each, job, environment)
        print(f"{workload} {size} {seed} {each.name}: {runs[each.name]}", flush=True)
    own = [each.name for each in contenders if each.is_ours]
    first = min(own, default=contenders[0].name)
    reference = pq.read_table(place / first).sort_by(module.KEY)
    for name in runs.keys() - {first}:  # one by one: all at once may be more than there is memory
        output = pq.read_table(place / name).sort_by(module.KEY)
        assert_same_keys(reference, output, module.KEY, name)
        module.compare(reference, output)
    shutil.rmtree(place)
    return Round(workload, size, seed, runs)


def one_run(which: Contender, job: Job, environment: dict[str, str]) -> Run:
    """Run one contender to its end."""
    used = run(which.command(job), environment, job.output.with_suffix(".log"))
    told = used.told
    if which.is_ours:
        rows = told["rows"]["written"]
        steady = told["seconds"]["steady"] + seconds_ahead(job.output, told["run_id"])
        gpu_busy = told["stages"]["infer"].get("gpu_busy")
    else:
        rows, steady, gpu_busy = told["rows"], told["last"] - told["first"], None
    return Run(rows, used.seconds, steady, used.cpu, used.memory, gpu_busy)


def assert_same_keys(ours: pa.Table, theirs: pa.Table, key: str, name: str) -> None:
    """See that both have the same rows, each once."""
    assert len(ours) == len(theirs), f"{name} wrote {len(theirs)} rows, and not {len(ours)}"
    assert ours[key].equals(theirs[key].cast(ours[key].type)), f"{name} wrote other rows"


def row(families: Sequence[str], workload: str, folder: Path, options: Options) -> list[str]:
    """Ours beside other ways, all in each round: the lines for RESULTS.md."""
    module = workload_named(workload)
    targets = {
        family: [each for each in module.TARGETS.get(family, ()) if each.size == options.size]
        for family in families
    }
    near = any(abs(each.at_least - 1) <= 2 * NEAR for all_ in targets.values() for each in all_)
    rounds = options.rounds or (PAIRS_FOR_INTERVAL if near else ROUNDS)
    contenders = [contender(name, workload) for name in (options.ours, *families)]
    done = measure(workload, contenders, rounds, options.size, folder, options.resume)
    rows = done[0].runs[options.ours].rows
    lines = [
        f"{rows:,} rows ({options.size}), {rounds} alternating rounds, new inputs each, outputs "
        "compared in each; medians; ratios: theirs over ours, median (lowest to highest)."
        + (" Ours with `cluster: inline`." if options.ours == "inline" else "")
    ]
    for family in families:
        lines += ["", *comparison(options.ours, family, targets[family], done)]
    return [*lines, *of_gpus([each.runs[options.ours] for each in done])]


def of_gpus(runs: Sequence[Run]) -> list[str]:
    """How busy ours kept GPUs, and what of CPUs it took for that; nothing where there are none."""
    busy = [each.gpu_busy for each in runs if each.gpu_busy is not None]
    if not busy:
        return []
    rows = float(np.median([each.rows / each.steady for each in runs]))
    cores_ = float(np.median([each.cpu / each.whole for each in runs]))
    return [
        "",
        f"{name_of_gpu()}: ours kept it {np.median(busy):.1%} busy, with {rows:,.0f} rows a second "
        f"in the steady state, on {cores_:.1f} of {os.cpu_count()} cores.",
    ]


def name_of_gpu() -> str:
    """As its maker has it."""
    import torch

    return str(torch.cuda.get_device_name())


def comparison(
    own: str, family: str, targets: Sequence[Target], rounds: Sequence[Round]
) -> list[str]:
    """A table of ours beside one other way."""
    lines = [
        f"| what | ours | {family} | ratio | target | |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for what, name, unit in FIGURES:
        pairs = [(getattr(r.runs[own], name), getattr(r.runs[family], name)) for r in rounds]
        ratio = Ratio(tuple(theirs / ours for ours, theirs in pairs))
        ours, theirs = (float(np.median(each)) / unit for each in zip(*pairs, strict=True))
        wanted = [each.at_least for each in targets if each.measure == name]
        judged = f"≥ {wanted[0]:g} | {ratio.verdict(wanted[0])}" if wanted else " | "
        lines.append(f"| {what} | {ours:,.1f} | {theirs:,.1f} | {ratio} | {judged} |")
    return lines
