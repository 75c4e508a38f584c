"""A world in one thread: actors are greenlets, and every call to storage is a place to stop."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import repeat
from types import SimpleNamespace

from greenlet import getcurrent, greenlet

from tasks.protocol import applying, plan_file, publishing, records, redriving, rewriting
from tests.simulation.remembered import plan_from_bytes, plan_to_bytes, record_from_json
from tests.simulation.storage import Lost, SimLedger, SimStorage

NEVER = 10**9
HOT_CRASH_RATE = 0.1
"""Of the one kind of call that a schedule picks on."""


class Killed(BaseException):
    """The actor's process is gone; nothing but the world may catch this."""


class Violation(Exception):
    """The protocol broke a promise."""


class Actor:
    """One process: an orchestrator, a writer, somebody who rewrites inputs."""

    def __init__(self, world: "World", work: Callable[[], None], crash_rate: float) -> None:
        self.world = world
        self.work = work
        self.crash_rate = crash_rate
        self.may_die = crash_rate > 0
        self.outcome: str | None = None
        self.clock_is_off_by = 0
        self.wakes: Callable[[], None] = lambda: None
        self.glet = greenlet(self.live, parent=world.hub)

    def live(self) -> None:
        try:
            self.work()
            self.outcome = "done"
        except Killed:
            self.outcome = "killed"


class World:
    """Picks who goes next and what goes wrong, from one seed."""

    def __init__(self, seed: int, ledger: type[SimLedger] = SimLedger) -> None:
        self.random = random.Random(seed)
        self.chance = self.random.random
        self.hub = getcurrent()
        self.storage = SimStorage(self)
        self.ledger = ledger(self)
        self.runnable: list[Actor] = []
        self.current: Actor | None = None
        self.steps = 0
        self.faults_left = self.random.choice([0, 3, 10, 40])
        self.lost_rate = self.random.choice([0.0, 0.01, 0.05])
        self.hide_rate = self.random.choice([0.0, 0.0, 0.1, 0.5])
        self.hot = self.random.choice(["", "", "copy", "delete", "commit", "look", "write", "list"])
        self.jump_rate = self.random.choice([0.0, 0.0, 0.2])
        self.tally: Counter[str] = Counter()
        """What went wrong, by its name."""

    # What storage and ledger ask for.

    def before(self, call: str, path: str, lost: Lost) -> None:
        self.pause(HOT_CRASH_RATE if call == self.hot else 0)
        self.lose(lost, "requests lost")

    def after(self, call: str, path: str, lost: Lost) -> None:
        self.lose(lost, "replies lost")
        if call == self.hot or self.chance() < 0.3:
            self.pause(HOT_CRASH_RATE if call == self.hot else 0)

    def lose(self, lost: Lost, what: str) -> None:
        """The request got lost, or the reply: the caller cannot tell."""
        if self.current and self.lost_rate and self.chance() < self.lost_rate and self.fault():
            self.tally[what] += 1
            raise lost()

    def hides(self, written_at: int) -> bool:
        fresh = self.current is not None and self.hide_rate and self.steps - written_at < 60
        if not fresh or self.chance() >= self.hide_rate:
            return False
        self.tally["objects left out of a listing"] += 1
        return True

    def now(self) -> int:
        return self.steps

    # Actors.

    def pause(self, crash_rate: float = 0) -> None:
        """Somebody else's turn, perhaps; the actor may die here."""
        actor = self.current
        if actor is None:
            return
        self.hub.switch()
        if actor.may_die and self.chance() < max(actor.crash_rate, crash_rate) and self.fault():
            self.tally["crashes"] += 1
            raise Killed

    def fault(self) -> bool:
        """Whether one more thing may go wrong: in the end all must come right."""
        self.faults_left -= 1
        return self.faults_left >= 0

    def start(self, work: Callable[[], None], crash_rate: float) -> Actor:
        actor = Actor(self, work, crash_rate)
        self.runnable.append(actor)
        return actor

    def wait(self, actors: list[Actor], enough: int) -> None:
        """Sleep until so many of the actors have come to their end."""
        me = self.current
        left = min(enough, len(actors))
        if me is None or left <= 0:
            return

        def wake() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                self.runnable.append(me)

        for actor in actors:
            actor.wakes = wake
        self.runnable.remove(me)
        self.hub.switch()

    def step(self) -> None:
        """Let one actor go on to its next stop."""
        self.steps += 1
        actor = self.runnable[int(self.chance() * len(self.runnable))]
        self.current = actor
        actor.glet.switch()
        self.current = None
        if actor.outcome:
            self.runnable.remove(actor)
            actor.wakes()

    def run_until(self, done: Callable[[], bool], limit: int = 50_000) -> None:
        for _ in range(limit):
            if done():
                return
            self.step()
        raise Violation(f"no end after {limit} steps")

    # What must not differ between two runs of a seed.

    def hex(self) -> str:
        return f"{self.random.getrandbits(48):012x}"

    def clock(self) -> int:
        """Nanoseconds; clocks do not quite agree, and now and then one is set anew."""
        skew = self.random.randint(-40, 40) if self.chance() < 0.2 else 0
        if self.current and self.jump_rate and self.chance() < self.jump_rate:
            self.tally["clocks that jump"] += 1
            self.current.clock_is_off_by = self.random.randint(-(10**6), 10**6)
        return 10**9 + self.steps + skew + (self.current.clock_is_off_by if self.current else 0)

    @contextmanager
    def in_charge(self) -> Iterator[None]:
        """Names and clocks come from the seed, and nothing starts a thread."""
        names = SimpleNamespace(uuid4=lambda: SimpleNamespace(hex=self.hex()))
        time = SimpleNamespace(time_ns=self.clock, monotonic=lambda: 0.0)
        ours = [
            *((module, "uuid", names) for module in (records, rewriting, redriving)),
            (records, "time", time),
            (publishing, "waits", lambda: repeat(0.0)),
            *((module, "AT_ONCE_FROM", NEVER) for module in (records, applying)),
            (records, "from_json", record_from_json),
            (plan_file, "plan_to_bytes", plan_to_bytes),
            (plan_file, "plan_from_bytes", plan_from_bytes),
        ]
        theirs = [(module, name, getattr(module, name)) for module, name, _ in ours]
        for module, name, value in ours:
            setattr(module, name, value)
        try:
            yield
        finally:
            for module, name, value in theirs:
                setattr(module, name, value)
