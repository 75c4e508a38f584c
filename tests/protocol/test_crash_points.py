"""Crash at every call to storage and ledger, one after the other; a rerun must mend all of it."""

from dataclasses import dataclass
from typing import NamedTuple

import pytest

from tasks.protocol.layout import RunFolder
from tasks.protocol.plan_file import Plan
from tasks.ray_job.opening import Todo
from tests.simulation.actors import Orchestrator, blocks_left
from tests.simulation.inputs import Content, Inputs
from tests.simulation.promises import (
    check_complete,
    check_folder,
    check_published,
    children_of,
    read_all,
)
from tests.simulation.storage import Lost
from tests.simulation.world import Killed, World
from tests.simulation.writing import Block, Hands, execute

BEFORE, AFTER, LOST_REQUEST, LOST_REPLY = "before", "after", "lost request", "lost reply"


class Fault(NamedTuple):
    """What happens at one call, once."""

    call: int
    how: str


class Tape(World):
    """Counts calls, and lets one of them go wrong."""

    def __init__(self, fault: Fault | None) -> None:
        super().__init__(seed=0)
        self.fault_to_come = fault
        self.calls = -1
        self.changes: list[int] = []
        """Calls that have a reply to lose."""

    def before(self, call: str, path: str, lost: Lost) -> None:
        self.calls += 1
        self.strike(BEFORE, LOST_REQUEST, lost)

    def after(self, call: str, path: str, lost: Lost) -> None:
        self.changes.append(self.calls)
        self.strike(AFTER, LOST_REPLY, lost)

    def strike(self, crash: str, loss: str, lost: Lost) -> None:
        fault = self.fault_to_come
        if fault and fault.call == self.calls and fault.how in (crash, loss):
            self.fault_to_come = None
            raise Killed if fault.how == crash else lost()


@dataclass
class Scripted(Orchestrator):
    """Cuts blocks the same way every time; the story's first attempt goes badly."""

    def attempt(self, run: RunFolder, plan: Plan, todo: list[Todo]) -> None:
        """The first loses a write, rejects what is flaky, and has an input rewritten after it."""
        assert isinstance(self.inputs, StoryInputs)
        self.inputs.attempts += 1
        is_first = self.inputs.attempts == 1
        blocks = [piece for each in todo for piece in in_twos(blocks_left(each, self.inputs))]
        tasks = [blocks[at::3] for at in range(min(3, len(blocks)))]
        storage, dice = self.world.storage, 0.9 if is_first else 0.1
        hands = Hands(self.inputs, storage, run, plan, lambda: None, lambda: dice, "once")
        try:
            for task in tasks[:-1] if is_first else tasks:
                execute(hands, task)
        finally:
            if is_first:
                self.inputs.versions["in/b"] = 2


def in_twos(block: Block) -> list[Block]:
    rows = [block.rows[at : at + 2] for at in range(0, len(block.rows), 2)]
    pieces = [Block(block.shard, two, False) for two in rows]
    return pieces + ([Block(block.shard, (), True)] if block.ends else [])


class StoryInputs(Inputs):
    """Three inputs, the last of them empty; they outlive every crash, as does the count."""

    def __init__(self) -> None:
        super().__init__(seed=0)
        self.attempts = 0
        self.versions = {"in/a": 1, "in/b": 1, "in/c": 1}
        rows = {"in/a": ("oorkc", "orro"), "in/b": ("ofk", "krof"), "in/c": ("", "")}
        for path, contents in rows.items():
            for version, letters in enumerate(contents, start=1):
                content = Content(letters, knows_length=path == "in/a", ends=True, split=0)
                self.known[path, f"v{version}"] = content


class Story:
    """A run of two attempts with an input rewritten between them, then a run on another."""

    def __init__(self, fault: Fault | None) -> None:
        self.inputs = StoryInputs()
        self.tape = Tape(fault)

    def tell(self) -> None:
        with self.tape.in_charge():
            self.come_through()
            self.inputs.versions["in/a"] = 2
            self.come_through()

    def come_through(self) -> None:
        """Run; after a crash run again."""
        try:
            Scripted(self.tape, self.inputs).work()
        except Killed:
            Scripted(self.tape, self.inputs).work()
        check_folder(self.tape.storage, self.tape.ledger.snapshot)

    def result(self) -> tuple[set, set]:
        """Rows published and set aside, after a look at all the promises."""
        seen, storage = self.tape.ledger.snapshot, self.tape.storage
        check_published(storage, seen, self.inputs)
        check_folder(storage, seen)
        check_complete(seen, self.inputs)
        published = children_of(read_all(storage, seen.files))
        aside = read_all(storage, seen.quarantine)
        return {row[:3] for row in published}, {tuple(value[:3]) for value in aside}


@pytest.fixture(scope="module")
def undisturbed() -> Story:
    story = Story(None)
    story.tell()
    return story


def test_story_has_all_that_can_happen(undisturbed: Story) -> None:
    published, aside = undisturbed.result()
    assert {("in/a", "v2", 0), ("in/b", "v2", 0), ("in/b", "v2", 2)} <= published
    assert aside == {("in/a", "v2", 1), ("in/a", "v2", 2), ("in/b", "v2", 1)}
    # The second attempt finds that its input was rewritten; the fourth is the second run.
    assert undisturbed.inputs.attempts == 4
    assert undisturbed.tape.ledger.snapshot.version == 2
    assert undisturbed.tape.calls > 80


@pytest.mark.parametrize("how", [BEFORE, AFTER, LOST_REQUEST, LOST_REPLY])
def test_every_crash_is_mended(undisturbed: Story, how: str) -> None:
    changes = undisturbed.tape.changes
    calls = changes if how in (AFTER, LOST_REPLY) else range(undisturbed.tape.calls + 1)
    for call in calls:
        story = Story(Fault(call, how))
        story.tell()
        assert story.tape.fault_to_come is None
        assert story.result() == undisturbed.result(), f"{how} call {call}"
        check_rerun(story, f"{how} call {call}")


def check_rerun(story: Story, fault: str) -> None:
    """Another run finds nothing to do."""
    before = dict(story.tape.storage.objects), story.tape.ledger.snapshot
    with story.tape.in_charge():
        Scripted(story.tape, story.inputs).work()
    assert before == (story.tape.storage.objects, story.tape.ledger.snapshot), fault
