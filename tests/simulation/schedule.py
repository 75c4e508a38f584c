"""One schedule: runs race and die while inputs change, then all is looked at."""

from collections import Counter
from dataclasses import dataclass

from tasks.protocol.ledger import Snapshot
from tests.simulation.actors import Orchestrator, Redriver
from tests.simulation.inputs import Inputs
from tests.simulation.promises import check_complete, check_folder, check_published
from tests.simulation.storage import PlainLedger, SimLedger
from tests.simulation.world import Actor, Violation, World


@dataclass(frozen=True)
class Size:
    """How much happens in a schedule."""

    inputs: int
    """At most, to begin with."""
    rows: tuple[int, ...]
    """What an input may have."""
    runs: int
    """At most, that race."""
    changes: float
    """How often a second run on changed inputs follows the first."""
    ledger: type[SimLedger]


LARGE = Size(inputs=3, rows=(0, 1, 1, 3, 5, 8), runs=3, changes=1.0, ledger=SimLedger)
SMALL = Size(inputs=1, rows=(0, 1, 1, 2, 2, 3), runs=2, changes=0.1, ledger=PlainLedger)
"""Of some dozen steps: so many can be run that what is rare is seen too."""


def run_schedule(seed: int, size: Size = LARGE, tally: Counter[str] | None = None) -> str | None:
    """What went wrong, or None; what was done on purpose is added to the tally."""
    schedule = Schedule(seed, size)
    try:
        with schedule.world.in_charge():
            schedule.play()
    except Violation as violation:
        return f"violation: {violation}"
    except Exception as error:
        return f"raised: {error!r}"
    if tally is not None:
        tally.update(schedule.world.tally)
    return None


class Schedule:
    """A first run, a second on changed inputs, redrives, reruns that find nothing to do."""

    def __init__(self, seed: int, size: Size = LARGE) -> None:
        self.size = size
        self.world = World(seed, size.ledger)
        self.inputs = Inputs(seed, size.rows)
        self.rewriters: list[Actor] = []
        for _ in range(self.world.random.randint(1, size.inputs)):
            self.inputs.add()

    def play(self) -> None:
        self.phase(replaces=False)
        if self.world.chance() < self.size.changes:
            self.change_inputs()
            self.phase(replaces=self.world.chance() < 0.15)
        self.world.run_until(lambda: all(actor.outcome for actor in self.rewriters))
        self.world.faults_left = 0
        self.finish()
        check_complete(self.check(), self.inputs)
        for _ in range(2 if self.world.ledger.snapshot.quarantine else 0):
            self.redrive()
        self.drain()
        before = dict(self.world.storage.objects), self.world.ledger.snapshot
        self.finish()
        if before != (self.world.storage.objects, self.world.ledger.snapshot):
            raise Violation("a rerun changed something")
        self.check()

    def phase(self, *, replaces: bool) -> None:
        """Orchestrators race while inputs change; the last of them comes to its end."""
        world = self.world
        most = self.size.runs
        for _ in range(world.random.choice([0, 0, 1, most])):
            self.rewriters.append(world.start(self.rewriter, crash_rate=0))
        redrives = world.random.choice([0, 0, most - 1])
        actors = [self.orchestrate(Redriver) for _ in range(redrives)]
        runs = world.random.randint(1, most)
        world.tally["runs that race"] += runs + redrives - 1
        actors += [self.orchestrate(replaces=replaces) for _ in range(runs)]
        world.run_until(lambda: all(actor.outcome for actor in actors))
        while actors[-1].outcome != "done":
            actors.append(self.orchestrate(replaces=replaces))
            world.run_until(lambda: actors[-1].outcome is not None)
        check_published(world.storage, world.ledger.snapshot, self.inputs)

    def orchestrate(
        self, kind: type[Orchestrator] = Orchestrator, *, replaces: bool = False
    ) -> Actor:
        """Start one; when it dies, some of its writers die with it and the others live on."""
        world = self.world
        spec = "b" if world.chance() < 0.2 else "a"
        orchestrator = kind(world, self.inputs, spec, replaces)
        actor = world.start(orchestrator.work, crash_rate=world.random.choice([0.001, 0.01, 0.03]))

        def ends() -> None:
            for writer in orchestrator.writers:
                if writer.outcome:
                    continue
                if actor.outcome == "killed" and world.chance() < 0.5:
                    writer.outcome = "killed"
                    world.runnable.remove(writer)

        actor.wakes = ends
        return actor

    def rewriter(self) -> None:
        dice = self.world.random
        for _ in range(dice.randint(1, dice.choice([8, 60]))):
            self.world.pause()
        if dice.random() < 0.3:
            self.inputs.add(in_front=True)
        elif dice.random() < 0.3:
            self.world.tally["versions without an entry"] += 1
            self.world.ledger.maintain()
        else:
            self.world.tally["inputs rewritten under a run"] += 1
            self.inputs.rewrite(dice.choice(sorted(self.inputs.versions)))

    def change_inputs(self) -> None:
        """Between two runs inputs are rewritten, added and deleted."""
        dice = self.world.random
        for path in sorted(self.inputs.versions):
            if dice.random() < 0.4:
                self.inputs.rewrite(path)
        if dice.random() < 0.5:
            self.inputs.add()
        if len(self.inputs.versions) > 1 and dice.random() < 0.2:
            del self.inputs.versions[dice.choice(sorted(self.inputs.versions))]

    def finish(self) -> None:
        """A run that nothing disturbs."""
        actor = self.world.start(Orchestrator(self.world, self.inputs).work, crash_rate=0)
        self.world.run_until(lambda: actor.outcome is not None)

    def redrive(self) -> None:
        """A redrive that nothing disturbs."""
        actor = self.world.start(Redriver(self.world, self.inputs).work, crash_rate=0)
        self.world.run_until(lambda: actor.outcome is not None)
        self.check()

    def drain(self) -> None:
        """Zombies write to their end."""
        self.world.run_until(lambda: not self.world.runnable)

    def check(self) -> Snapshot:
        seen = self.world.ledger.snapshot
        check_published(self.world.storage, seen, self.inputs)
        check_folder(self.world.storage, seen)
        return seen
