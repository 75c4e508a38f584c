"""One schedule: runs race and die while inputs change, then all is looked at."""

from tasks.protocol.ledger import Snapshot
from tests.simulation.actors import Orchestrator, Redriver
from tests.simulation.inputs import Inputs
from tests.simulation.promises import check_complete, check_folder, check_published
from tests.simulation.world import Actor, Violation, World


def run_schedule(seed: int) -> str | None:
    """What went wrong, or None."""
    schedule = Schedule(seed)
    try:
        with schedule.world.in_charge():
            schedule.play()
    except Violation as violation:
        return f"violation: {violation}"
    except Exception as error:
        return f"raised: {error!r}"
    return None


class Schedule:
    """A first run, a second on changed inputs, redrives, reruns that find nothing to do."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.inputs = Inputs(seed)
        self.rewriters: list[Actor] = []
        for _ in range(self.world.random.randint(1, 3)):
            self.inputs.add()

    def play(self) -> None:
        self.phase(replaces=False)
        self.change_inputs()
        self.phase(replaces=self.world.chance() < 0.15)
        self.world.run_until(lambda: all(actor.outcome for actor in self.rewriters))
        self.world.faults_left = 0
        self.finish()
        check_complete(self.check(), self.inputs)
        self.redrive()
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
        for _ in range(world.random.choice([0, 0, 1, 3])):
            self.rewriters.append(world.start(self.rewriter, crash_rate=0))
        actors = [self.orchestrate(Redriver) for _ in range(world.random.choice([0, 0, 2]))]
        actors += [self.orchestrate(replaces=replaces) for _ in range(world.random.randint(1, 3))]
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

        def dies() -> None:
            for writer in orchestrator.writers:
                if actor.outcome == "killed" and not writer.outcome and world.chance() < 0.5:
                    writer.outcome = "killed"
                    world.runnable.remove(writer)

        actor.wakes = dies
        return actor

    def rewriter(self) -> None:
        dice = self.world.random
        for _ in range(dice.randint(1, dice.choice([8, 60]))):
            self.world.pause()
        if dice.random() < 0.3:
            self.inputs.add(in_front=True)
        else:
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
