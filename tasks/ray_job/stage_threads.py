"""Stages side by side in one process: a thread each, with one batch on its way to the next."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from tasks.errors import RunStopped
from tasks.protocol.batch import RowBatch
from tasks.ray_job.blame import Function
from tasks.ray_job.stage_error import raised_by

Slot = deque[RowBatch | None]
"""What a stage has ready for the next: nothing, a batch, or None, which is the end."""


class StageThreads:
    """Stages in a line; where one fails, those before it stop, and those after it end their work.

    What has come through the failed stage is then recorded, and is not done again.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.error: BaseException | None = None
        self.stages: list[str] = []
        self.threads: list[threading.Thread] = []
        self.working = set[int]()
        """Stages that have not ended, by number."""
        self.halted = -1
        """The last stage that is to stop, with all before it."""
        self.is_forgotten = False
        self.is_loading = False
        """Whether a stage has its model to load."""

    def add(self, stage: str, work: Iterable[RowBatch]) -> Iterator[RowBatch]:
        """Start a stage.

        Args:
            stage: its name.
            work: what it does; drawn from in its own thread, a batch ahead of the next stage.

        Returns:
            What it yields, for the next stage.
        """
        slot: Slot = deque()
        number = len(self.stages)
        arguments = (number, work, slot)
        thread = threading.Thread(target=self.run, args=arguments, name=stage, daemon=True)
        self.stages.append(stage)
        self.threads.append(thread)
        self.working.add(number)
        thread.start()
        return self.taken(slot, number + 1)

    def run(self, number: int, work: Iterable[RowBatch], slot: Slot) -> None:
        """What a stage's thread does."""
        try:
            with with_event_loop():
                for batch in work:
                    self.put(slot, batch, number)
        except BaseException as error:
            self.fail(number, error)
        with self.changed:
            self.changed.wait_for(lambda: self.halted > number or not slot)
            slot.append(None)
            self.working.remove(number)
            self.changed.notify_all()

    def put(self, slot: Slot, batch: RowBatch, number: int) -> None:
        """Hand a stage's batch over, once there is room.

        Raises:
            RunStopped: the stage was halted.
        """
        with self.changed:
            self.changed.wait_for(lambda: self.halted >= number or not slot)
            self.refuse_if_halted(number)
            slot.append(batch)
            self.changed.notify_all()

    def taken(self, slot: Slot, number: int) -> Iterator[RowBatch]:
        """What is handed to a stage, to its end.

        Raises:
            RunStopped: the stage was halted.
        """
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.halted >= number or slot)
                self.refuse_if_halted(number)
                batch = slot.popleft()
                self.changed.notify_all()
            if batch is None:
                return
            yield batch

    def stoppable(self, stage: str, function: Function) -> Function:
        """A stage's function, which is not called any more once the stage is halted."""

        def call(rows: pa.Table) -> pa.Table:
            self.refuse_if_halted(self.stages.index(stage))
            return function(rows)

        return call

    def refuse_if_halted(self, number: int) -> None:
        """Let a stage go on, or end it.

        Raises:
            RunStopped: it was halted.
        """
        if self.halted >= number:
            raise RunStopped("a later stage has failed, or somebody stopped the job")

    def fail(self, number: int, error: BaseException) -> None:
        """A stage has failed; of several errors the first one counts."""
        self.halt(raised_by(self.stages[number], error), number)

    def halt(self, error: BaseException, number: int | None = None) -> None:
        """Stop the stages up to one, or all."""
        with self.changed:
            self.error = None if self.is_forgotten else self.error or error
            self.halted = max(self.halted, len(self.stages) if number is None else number)
            self.changed.notify_all()

    def is_over(self, within_seconds: float) -> bool:
        """Wait until all stages have ended, or are not waited for any more; but not longer.

        Raises:
            BaseException: what halted them.
        """
        with self.changed:
            self.changed.wait_for(lambda: not self.working or self.is_given_up, within_seconds)
            if self.error and self.is_given_up:
                raise self.error
            return not self.working

    @property
    def is_given_up(self) -> bool:
        """Whether only stages are left that were told to stop: a call that hangs may do for ever.

        What is to come through those after a failed one has come through by then.
        """
        return self.error is not None and all(each <= self.halted for each in self.working)

    def forget(self) -> None:
        """Let go of what has ended the stages: its traceback holds the model and its last batch.

        Whoever follows the job keeps this object, as do those who show how far it is.
        """
        with self.changed:
            self.is_forgotten, self.error = True, None

    def join(self, within_seconds: float) -> None:
        """Wait for the threads of stages that are over or halted; a call is not interrupted."""
        until = time.monotonic() + within_seconds
        for thread in self.threads:
            thread.join(max(0.0, until - time.monotonic()))


@contextmanager
def with_event_loop() -> Iterator[None]:
    """A block in which `asyncio.get_event_loop` finds one, as in a process's main thread.

    There user code is called on Ray; what asks for one must not fail in this process alone.
    """
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        yield
    finally:
        asyncio.set_event_loop(None)
        loop.close()
