"""One round: a run is struck, brought to its end, and looked at from all sides."""

import os
import random
import signal
from collections import Counter
from dataclasses import dataclass

from tasks.run_options import RunOptions
from tasks.spec_parts import ErrorBudget
from tests.soak.drawn import Round, Strike
from tests.soak.oracle import Fate, first_rows
from tests.soak.oracle import count as count_fates
from tests.soak.orchestrator import FROM_WITHIN, UNFORESEEN
from tests.soak.promises import Found, check, has_manifest, of
from tests.soak.published import Output
from tests.soak.results import Struck
from tests.soak.scene import Scene
from tests.soak.specs import spec_of
from tests.soak.stand import Run
from tests.soak.strikes import failing_now_and_then, strike

HELD_BACK, HELD = 3, 4
FAILING_STORAGE = {0, 1, UNFORESEEN}
NONE = Strike("none")


class BrokenPromise(AssertionError):
    """A run ended as it should not."""


@dataclass
class Turn:
    """One round of a case."""

    scene: Scene
    round: Round
    struck: Struck

    def __post_init__(self) -> None:
        self.site, self.action = self.scene.site, self.round.action
        self.promise = self.scene.promise
        self.limit = None
        path = self.site.output
        if self.action == "limit":
            rows = sum(len(file.rows) for file in self.scene.lying.in_order)
            self.limit = random.Random(self.scene.case.seed).randint(1, max(1, rows))
            # An output of its own: of one that is there no first row is predicted again.
            path = f"{self.site.url}/first{self.limit}-{len(self.scene.result.struck)}"
        self.output = self.scene.output(path)
        sink = {**spec_of(self.scene.case, self.site)["sink"], "path": path}
        self.raw = spec_of(self.scene.case, self.site, sink=sink)
        if self.action == "redrive":  # as the flow does
            self.raw["errors"] = {"max_rejected_fraction": 1.0}

    @property
    def options(self) -> RunOptions:
        """How the run is called."""
        return RunOptions(
            replace_output=self.action == "replace",
            redrive=self.action == "redrive",
            limit=self.limit,
        )

    def take(self) -> None:
        """Change inputs, strike, change inputs, finish, look."""
        scene = self.scene
        scene.put(self.round.before)
        if self.action == "redrive":
            self.site.mended.touch()
            self.promise.is_mended = True
        version = self.version
        self.strike()
        if self.version > version:
            self.keep()
        scene.put(self.round.between, self.round.removed)
        version = self.version
        self.finish()
        self.keep()
        self.look(reported=self.version > version)

    @property
    def version(self) -> int:
        """How many entries the ledger has."""
        return len(of(self.output.lines(), "entry"))

    def keep(self) -> None:
        """What lies there is published by now."""
        if self.limit is None:
            self.promise.keep(self.action, self.scene.lying)

    def start(self, what: Strike = NONE, options: RunOptions | None = None) -> Run:
        """Start it once."""
        self.struck.runs += 1
        return self.scene.start(self.raw, options or self.options, what)

    def strike(self) -> None:
        """Start it, and let happen what is to happen."""
        what = self.round.strike
        if what.fault == "none":
            return
        if what.fault == "race":
            runs = [self.start(), self.start()]
            self.struck.has_hit = all(run.is_alive for run in runs)
            for run in runs:
                self.must_end(run, {0, HELD})
        elif what.fault == "S3":
            proxy = self.scene.stand.proxy
            proxy.behave, before = failing_now_and_then(random.Random(what.moment)), proxy.faults
            self.must_end(self.start(), FAILING_STORAGE)
            proxy.behave = lambda asked: None
            self.struck.has_hit = proxy.faults > before
        elif what.fault in FROM_WITHIN:
            self.strike_within(what)
        else:
            run, rows = self.start(), self.rows_to_do()
            self.struck.kills += strike(self.scene.stand, run, what, self.site, rows)
            self.struck.has_hit = self.struck.kills > 0
            self.must_end(run, {0, -signal.SIGKILL})

    def strike_within(self, what: Strike) -> None:
        """A fault at one of the process's own calls."""
        run = self.start(what)
        allowed = {"killed": {0, -signal.SIGKILL}, "storage error": FAILING_STORAGE}
        if what.fault == "stopped":
            self.struck.has_hit = run.await_stop()
            if self.struck.has_hit:
                self.must_end(self.start(), {0, HELD})
                assert run.process.pid
                os.kill(run.process.pid, signal.SIGCONT)
            self.must_end(run, {0, HELD})
            return
        code = self.must_end(run, allowed[what.fault])
        self.struck.kills += code == -signal.SIGKILL
        self.struck.has_hit = code == -signal.SIGKILL or "as it was told to" in run.said()

    def must_end(self, run: Run, allowed: set[int]) -> int:
        """Wait for a run's end.

        Raises:
            BrokenPromise: it is not one of those it may have.
            TimeoutError: it does not come.
        """
        code = run.wait()
        if code not in {*allowed, *({HELD_BACK} if self.may_be_held_back else ())}:
            raise BrokenPromise(f"{self.struck.words}: exit code {code}: {run.said()}")
        return code

    def to_do(self) -> list[Fate]:
        """What becomes of the rows that a run would do now."""
        return [fate for fates in self.files_to_do() for fate in fates]

    def files_to_do(self) -> list[list[Fate]]:
        """The same by file."""
        lying = self.scene.lying
        if self.limit is not None:  # of an output of its own
            return first_rows(list(map(self.promise.fates, lying.in_order)), self.limit)
        return self.promise.coming(self.action, lying)

    def rows_to_do(self) -> int:
        """Rows that the model would be handed."""
        return sum(len(fate.rows) for fate in self.to_do())

    @property
    def is_over_budget(self) -> bool:
        """Whether more rows, or more files, would be set aside than may be."""
        rows, budget = self.to_do(), self.raw["errors"]["max_rejected_fraction"]
        counts, damaged = count_fates(rows), sum(fate.is_file for fate in rows)
        is_over = counts["rejected"] > budget * counts["read"]
        return is_over or damaged > budget * len(self.files_to_do())

    @property
    def may_be_held_back(self) -> bool:
        """Whether, at some point, too many of the rows seen by then may have been set aside.

        Where nobody knows the total, a run is stopped early on the share of those.
        """
        budget = self.raw["errors"]["max_rejected_fraction"]
        seen = ErrorBudget().minimum_rows
        return self.is_over_budget or count_fates(self.to_do())["rejected"] > budget * seen

    def finish(self) -> None:
        """Run it to its end, undisturbed; where it is held back, with a larger budget.

        Raises:
            BrokenPromise: it was held back and should not, or the other way round.
        """
        code = self.must_end(self.start(), {HELD_BACK} if self.is_over_budget else {0})
        if code == HELD_BACK:
            self.raw = {**self.raw, "errors": {"max_rejected_fraction": 1.0}}
            self.must_end(self.start(), {0})

    def look(self, *, reported: bool) -> None:
        """See what is published, and that another run does nothing.

        Args:
            reported: whether the run that came to its end has published, and so left a manifest.

        Raises:
            BrokenPromise: something does not hold.
        """
        found = self.found()
        is_missing = reported and not has_manifest(self.output)
        found.note(is_missing, "the last run has left no manifest")
        self.struck.rows, self.struck.lost = found.rows, found.lost
        self.struck.doubled = found.doubled
        if not self.promise.makes_new_version(self.action) and not self.is_more_there:
            before = self.output.fingerprint()
            options = RunOptions(limit=self.limit)
            self.must_end(self.start(options=options), {0})
            found.note(self.output.fingerprint() != before, "another run was no no-op")
        if found.problems:
            raise BrokenPromise(f"{self.struck.words}: {' | '.join(found.problems)}")

    @property
    def is_more_there(self) -> bool:
        """Whether another run finds inputs that a redrive has left to it."""
        return self.action == "redrive" and bool(self.promise.new(self.scene.lying))

    def found(self) -> Found:
        """What a look shows."""
        case = self.scene.case
        if self.limit is not None:
            return check_first(self.output, self.to_do())
        versions = {each.action for each in case.rounds} & {"replace", "redrive"}
        counts = case.pipeline.mode == "append" and not versions
        return check(self.output, self.promise, counts=counts)


def check_first(output: Output, fates: list[Fate]) -> Found:
    """What a run over the first rows has published: those, and no others."""
    wanted, there = Counter(row for fate in fates for row in fate.rows), output.rows
    found = Found(there.total(), (wanted - there).total(), (there - wanted).total())
    found.note(wanted != there, f"{found.lost} of the first rows lost, {found.doubled} too many")
    return found
