"""Orchestrators that run the protocol's own code, with Ray's habits below them."""

from collections import defaultdict
from dataclasses import dataclass, field
from functools import lru_cache, partial

from tasks.errors import InputChanged, OutputHeld, StaleLedger
from tasks.protocol.acceptance import Accepted, Gap, accept, find_gap
from tasks.protocol.applying import bring_up_to_date
from tasks.protocol.ids import as_ids, row_id
from tasks.protocol.layout import OutputFolder, RunFolder
from tasks.protocol.ledger import Snapshot
from tasks.protocol.plan_file import (
    Plan,
    Shard,
    first_plan,
    load_plan,
    save_plan,
    shard_table,
    shards_of,
    supersede,
)
from tasks.protocol.publication import Publication
from tasks.protocol.publishing import publish
from tasks.protocol.records import load_records
from tasks.protocol.redrive_shards import lines_of, redrive_plan, runs_of
from tasks.ray_job.opening import Todo, todo_of
from tests.simulation.inputs import Inputs
from tests.simulation.world import Actor, Violation, World
from tests.simulation.writing import Block, Hands, drop_rows, execute

OUTPUT = OutputFolder("out")
ROUNDS = 60
TROUBLE = (ConnectionError, StaleLedger, InputChanged, OutputHeld)


@dataclass
class Orchestrator:
    """One process that plans, runs attempts and publishes."""

    world: World
    inputs: Inputs
    spec: str = "a"
    replaces: bool = False
    writers: list[Actor] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)

    @property
    def way(self) -> str:
        """What of the way it works is in a run's key."""
        return "r" if self.replaces else ""

    def work(self) -> None:
        """Try until it is published, or there is nothing to do."""
        seen: Snapshot | None = None
        for _ in range(ROUNDS):
            try:
                if seen is None or self.world.chance() < 0.5:
                    seen = bring_up_to_date(self.world.storage, self.world.ledger, OUTPUT)
                self.session(seen)
                return
            except TROUBLE as error:
                self.trouble.append(repr(error))
                if isinstance(error, OutputHeld):
                    seen = None
        raise Violation(f"not published after {ROUNDS} rounds: {self.trouble[-3:]}")

    def session(self, seen: Snapshot) -> None:
        """One run on top of what was seen: attempts until nothing is left, then publish."""
        key = f"{self.spec}{self.way}{seen.version}"
        run = OUTPUT.run(f"run-{key}")
        plan = self.settle_plan(run, seen)
        if plan is None:
            return
        accepted = self.take(run, plan)
        for number in range(ROUNDS):
            if number and not find_gap(plan, accepted, retry_rejected=False):
                break
            todo = todo_left(plan, find_gap(plan, accepted, retry_rejected=True))
            check_todo(todo, accepted, self.inputs)
            if todo:
                self.attempt(run, plan, todo)
                accepted = self.take(run, plan)
        else:
            raise Violation(f"a gap is left after {ROUNDS} attempts")
        what = Publication(key, run, plan, accepted, ".json", drop_rows, drop_rows, self.replaces)
        version = publish(self.world.storage, self.world.ledger, OUTPUT, what)
        if self.world.ledger.snapshot.entries.get(version, {}).get("run_key") != key:
            raise Violation(f"run {key} believes that it is published as version {version}")

    def settle_plan(self, run: RunFolder, seen: Snapshot) -> Plan | None:
        """The plan in force for what lies there now; None where nothing is to be done."""
        storage = self.world.storage
        old = load_plan(storage, run)
        new = self.plan(old, seen)
        if new is None or new is old:
            return new
        save_plan(storage, run, new)
        found = load_plan(storage, run)
        # A listing may leave out what is fresh: then the older plan is no reason to forget ours.
        return found if found and len(found.ancestors) >= len(new.ancestors) else new

    def plan(self, old: Plan | None, seen: Snapshot) -> Plan | None:
        """The old plan where it still fits, or one that supersedes it."""
        shards = self.unpublished(seen)
        if not shards:
            return None
        if old and sorted(contents(shards)) == sorted(contents(shards_of(old.shards))):
            return old
        if old is None:
            return plan_of(tuple(shards), seen.version)
        return supersede(old, shard_table(shards), {"ledger_version": seen.version})

    def unpublished(self, seen: Snapshot) -> list[Shard]:
        found = self.inputs.shards()
        if self.replaces:
            return found
        lines = seen.inputs.select(["path", "identity"]).to_pydict()
        done = set(zip(lines["path"], lines["identity"], strict=True))
        return [shard for shard in found if (shard.path, shard.identity) not in done]

    def take(self, run: RunFolder, plan: Plan) -> Accepted:
        return accept(load_records(self.world.storage, run), plan)

    def attempt(self, run: RunFolder, plan: Plan, todo: list[Todo]) -> None:
        """Write tasks on what is left; wait for most of them, or give up waiting.

        Raises:
            InputChanged: a reader saw an input that is not the plan's.
        """
        world = self.world
        changed: list[InputChanged] = []

        def writer(blocks: list[Block]) -> None:
            name = world.hex()
            hands = Hands(self.inputs, world.storage, run, plan, world.pause, world.chance, name)
            try:
                execute(hands, blocks)
            except InputChanged as error:
                changed.append(error)

        writers = [
            world.start(partial(writer, blocks), crash_rate=0.03)
            for blocks in self.executions(todo)
        ]
        self.writers += writers
        gives_up = world.chance() < 0.1
        world.tally["attempts given up"] += gives_up
        world.wait(writers, int(world.chance() * len(writers)) if gives_up else len(writers))
        world.tally["zombies"] += sum(writer.outcome is None for writer in writers)
        if changed:
            raise changed[0]

    def executions(self, todo: list[Todo]) -> list[list[Block]]:
        """What Ray makes of what is left: tasks, some run twice, cut anew, or lost."""
        dice, tally = self.world.random, self.world.tally
        left = [blocks_left(each, self.inputs) for each in todo]
        made = []
        for blocks in self.tasks(left):
            made.append(blocks)
            if dice.random() < 0.15:
                tally["executions repeated"] += 1
                made.append(blocks)
            if dice.random() < 0.1:
                tally["executions cut anew"] += 1
                made.append(dice.choice(self.tasks(left)))
            if dice.random() < 0.1:
                tally["blocks in two executions"] += 1
                made[-1] = made[-1] + dice.choice(self.tasks(left))
            if dice.random() < 0.05 and self.world.fault():
                tally["executions lost"] += 1
                made.pop(dice.randrange(len(made)))
        dice.shuffle(made)
        return made

    def tasks(self, todo: list[Block]) -> list[list[Block]]:
        """Blocks cut at random, one to three a write task."""
        dice = self.world.random
        blocks = [piece for block in todo for piece in self.cut(block)]
        dice.shuffle(blocks)
        tasks = []
        while blocks:
            size = dice.randint(1, 3)
            tasks.append(blocks[:size])
            del blocks[:size]
        return tasks

    def cut(self, block: Block) -> list[Block]:
        dice = self.world.random
        pieces, at = [], 0
        while at < len(block.rows):
            size = dice.randint(1, 4)
            pieces.append(Block(block.shard, block.rows[at : at + size], False))
            at += size
        if block.ends:
            pieces.append(Block(block.shard, (), True))
        return pieces


@lru_cache(maxsize=4096)
def plan_of(shards: tuple[Shard, ...], ledger_version: int) -> Plan:
    """A first plan: worlds are many, their first plans are few."""
    return first_plan(shard_table(shards), {"ledger_version": ledger_version})


def check_todo(todo: list[Todo], accepted: Accepted, inputs: Inputs) -> None:
    """An attempt opens no done shard, redoes no settled row and retries every rejection."""
    rows: set[int] = set()
    for left in todo:
        block, number = blocks_left(left, inputs), left.shard.number
        if not block.rows and (not block.ends or number in accepted.ends.shards):
            raise Violation(f"{left.shard} is done and opened again")
        rows |= {row_id(number, row) for row in block.rows}
    if again := rows & set(accepted.settled.ids().tolist()):
        raise Violation(f"settled rows are done again: {sorted(again)}")
    if missed := set(accepted.rejected.ids().tolist()) - rows:
        raise Violation(f"rejected rows are not tried again: {sorted(missed)}")


def contents(shards: list[Shard]) -> list[tuple[str, str, int]]:
    return [(shard.path, shard.identity, shard.start or 0) for shard in shards]


def todo_left(plan: Plan, gap: Gap) -> list[Todo]:
    """Shards to read, and what to leave out, as the pipeline gets them."""
    if not gap:
        return []
    table = gap.todo(plan)
    todo = partial(todo_of, {"reader": {}, "readers": defaultdict(dict)})
    return list(map(todo, shards_of(table), table.to_pylist()))


def blocks_left(todo: Todo, inputs: Inputs) -> Block:
    """The rows of a shard that are left to do."""
    content = inputs.content(todo.shard.path, todo.shard.identity)
    rows = range(len(content.rows_of(todo.shard)))
    ids = as_ids(row_id(todo.shard.number, row) for row in rows)
    left = todo.takes(ids).tolist()
    return Block(todo.shard, tuple(row for row in rows if left[row]), content.ends)


@dataclass
class Redriver(Orchestrator):
    """One that does again what published runs have set aside."""

    @property
    def way(self) -> str:
        return "d"

    def plan(self, old: Plan | None, seen: Snapshot) -> Plan | None:
        runs = runs_of(self.world.storage, OUTPUT, seen, seen.rows_aside)
        try:
            lines = [line for run in runs for line in lines_of(run)]
        except FileNotFoundError as error:
            # A listing may leave out what is fresh: for ever, and this is never published.
            raise ConnectionError(str(error)) from error
        same = [each for each in lines if self.inputs.identity(each["path"]) == each["identity"]]
        plan = redrive_plan(old, same, {"ledger_version": seen.version})
        return plan if len(plan.shards) else None
