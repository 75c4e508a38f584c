"""Crash trees: a run from every state that a crash of another run can leave, crash after crash.

A crash leaves nothing but what is durable. So the run that went before need not be run again:
each state is kept as it comes by, and each gets a run of its own. Crashes before any of the calls
that change nothing leave the same state; they count as schedules and are run once.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tasks.errors import InputChanged
from tasks.protocol.layout import RunFolder
from tasks.protocol.ledger import Snapshot
from tasks.protocol.plan_file import Plan
from tasks.ray_job.opening import Todo
from tests.simulation.actors import Orchestrator, Redriver
from tests.simulation.inputs import Inputs
from tests.simulation.promises import check_complete, check_folder, check_published
from tests.simulation.storage import NOTHING, Lost, PlainLedger
from tests.simulation.world import Violation, World
from tests.simulation.writing import Hands, execute

DEPTH = 3
BRANCHES = (40, 5, 3)
"""At most so many states of a run get a run of their own, by how many crashes went before."""
ROWS = (0, 1, 2, 2, 3)


@dataclass(frozen=True)
class State:
    """All that outlives a crash."""

    objects: dict[str, bytes]
    seen: Snapshot
    versions: dict[str, int]
    zombies: tuple[Callable[[], None], ...] = ()
    """Executions of dead runs that have not written yet."""


class Crashing(World):
    """Keeps the states that come by; now and then something else happens between two calls."""

    def __init__(self, seed: int, inputs: Inputs) -> None:
        super().__init__(seed, PlainLedger)
        self.inputs = inputs
        self.states: list[State] = []
        self.ways: list[int] = []
        """Before how many calls a crash leaves each of them."""
        self.zombies: list[Callable[[], None]] = []
        self.meanwhile: dict[int, Callable[[], None]] = {}
        self.calls = 0
        self.is_changed = True

    def load(self, state: State, seed: str) -> None:
        """Go on from a state; what happens next comes from the seed alone."""
        self.random.seed(seed)
        self.storage.objects = dict(state.objects)
        self.storage.written_at = dict.fromkeys(state.objects, 0)
        self.ledger.snapshot = state.seen
        self.inputs.versions = dict(state.versions)
        self.zombies = list(state.zombies)
        self.calls, self.is_changed, self.states, self.ways = 0, True, [], []
        dice = self.random
        events = [self.rewrite, self.race, self.race, self.wake, self.wake, self.redrive]
        events.append(self.maintain)
        many = dice.choice([0, 0, 1, 2])
        self.meanwhile = {dice.randint(1, 30): dice.choice(events) for _ in range(many)}
        self.lost_rate = dice.choice([0, 0, 0.03])
        self.faults_left = 3

    def state(self) -> State:
        objects, versions = dict(self.storage.objects), dict(self.inputs.versions)
        return State(objects, self.ledger.snapshot, versions, tuple(self.zombies))

    def before(self, call: str, path: str, lost: Lost) -> None:
        self.calls += 1
        self.steps += 1
        if event := self.meanwhile.pop(self.calls, None):
            event()
            self.is_changed = True
        if self.is_changed:
            self.states.append(self.state())
            self.ways.append(0)
            self.is_changed = False
        self.ways[-1] += 1
        self.lose(lost, "requests lost")

    def after(self, call: str, path: str, lost: Lost) -> None:
        self.is_changed = True
        self.lose(lost, "replies lost")

    def lose(self, lost: Lost, what: str) -> None:
        if self.lost_rate and self.chance() < self.lost_rate and self.fault():
            self.tally[what] += 1
            raise lost()

    # What may happen between two calls of a run.

    def rewrite(self) -> None:
        self.tally["inputs rewritten under a run"] += 1
        self.inputs.rewrite(self.random.choice(sorted(self.inputs.versions)))

    def race(self) -> None:
        self.tally["runs that race"] += 1
        Alone(self, self.inputs, self.random.choice("aab")).work()

    def redrive(self) -> None:
        self.tally["redrives that race"] += 1
        AloneAgain(self, self.inputs).work()

    def maintain(self) -> None:
        self.tally["versions without an entry"] += 1
        self.ledger.maintain()

    def wake(self) -> None:
        if self.zombies:
            self.tally["zombies"] += 1
            self.zombies.pop(0)()


class Alone(Orchestrator):
    """One whose write tasks run one after another, in any order; some late, some twice."""

    def attempt(self, run: RunFolder, plan: Plan, todo: list[Todo]) -> None:
        world = self.world
        assert isinstance(world, Crashing)
        for blocks in self.executions(todo):
            storage, name = world.storage, world.hex()
            hands = Hands(self.inputs, storage, run, plan, world.pause, world.chance, name)
            if world.chance() < 0.1 and world.fault():
                world.zombies.append(partial(late, hands, blocks))
            else:
                execute(hands, blocks)


class AloneAgain(Redriver, Alone):
    """The same for rows set aside."""


def late(hands: Hands, blocks: list) -> None:
    """An execution of which nobody hears any more."""
    try:
        execute(hands, blocks)
    except (InputChanged, ConnectionError):
        return


class CrashTree:
    """Everything that one seed gives."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.inputs = Inputs(seed, ROWS)
        for _ in range(1 + seed % 2):
            self.inputs.add()
        self.world = Crashing(seed, self.inputs)
        self.tally = self.world.tally
        self.schedules = 0
        self.runs = 0

    def grow(self) -> str | None:
        """What went wrong, with the states at which the runs crashed; or None."""
        at: tuple[int, ...] = ()
        todo = [(at, State({}, NOTHING, dict(self.inputs.versions)), 1)]
        with self.world.in_charge():
            while todo:
                at, state, ways = todo.pop()
                try:
                    left = self.run(state, f"{self.seed} {at}")
                except Violation as violation:
                    return f"after crashes at states {at}: violation: {violation}"
                except Exception as error:
                    return f"after crashes at states {at}: raised: {error!r}"
                self.schedules += ways
                todo += self.crashes(at, left, ways)
        return None

    def run(self, state: State, seed: str) -> list[tuple[State, int]]:
        """A run to its end, after which all promises must hold.

        Returns:
            The states that came by, but the first, and how many crashes leave each.
        """
        self.runs += 1
        self.world.load(state, seed)
        Alone(self.world, self.inputs, self.world.random.choice("aaab")).work()
        left = list(zip(self.world.states, self.world.ways, strict=True))[1:]
        self.settle()
        return left

    def settle(self) -> None:
        """Nothing disturbs any more: all is published as it is now, and stays so."""
        world = self.world
        world.meanwhile, world.lost_rate = {}, 0
        world.faults_left = 0
        Alone(world, self.inputs).work()
        seen = world.ledger.snapshot
        check_published(world.storage, seen, self.inputs)
        check_folder(world.storage, seen)
        check_complete(seen, self.inputs)
        while world.zombies:
            world.wake()
        before = dict(world.storage.objects), seen
        Alone(world, self.inputs).work()
        if before != (world.storage.objects, world.ledger.snapshot):
            raise Violation("a rerun changed something")

    def crashes(
        self, at: tuple[int, ...], left: list[tuple[State, int]], ways: int
    ) -> list[tuple[tuple[int, ...], State, int]]:
        """Some of a run's states, to go on from; how many schedules lead there."""
        if len(at) == DEPTH:
            return []
        most = BRANCHES[len(at)]
        numbers = list(range(len(left)))
        if len(numbers) > most:
            numbers = random.Random(f"{self.seed} {at} crash").sample(numbers, most)
        self.tally["crashes"] += len(numbers)
        return [((*at, n), left[n][0], ways * left[n][1]) for n in numbers]
