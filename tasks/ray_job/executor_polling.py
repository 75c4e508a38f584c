"""How often Ray's executor looks round: less often while nothing ends.

A look costs it some milliseconds whatever it finds, ten times a second: on a machine of two cores,
a fiftieth of all the work of a job whose batches take seconds.
"""

from dataclasses import dataclass
from typing import Any

from ray.data._internal.execution import streaming_executor_state

SHORTEST_SECONDS, LONGEST_SECONDS = 0.1, 0.5
"""Between two looks. A replica has its next batch in hand, and is not kept waiting by the longest:
where batches take less than that, something ends between any two looks."""
LONGER = 1.5


@dataclass
class PollInterval:
    """Seconds until the executor's next look."""

    seconds: float = SHORTEST_SECONDS
    events: int = 0
    """Tasks begun and ended, and what came of them, at the last look."""

    def follow(self, executor: Any, *, is_predicting: bool) -> None:
        """Wait longer where nothing has happened since the last look.

        Args:
            executor: Ray's.
            is_predicting: whether rows have come out of the model; until they have, a replica that
                is ready has nothing in hand.
        """
        events = sum(events_of(operator.metrics) for operator in executor._topology)
        is_still = is_predicting and events == self.events
        longer = min(LONGEST_SECONDS, LONGER * self.seconds)
        self.seconds = longer if is_still else SHORTEST_SECONDS
        self.events = events
        streaming_executor_state.WAIT_FOR_TASK_COMPLETION_TIMEOUT_S = self.seconds


def events_of(metrics: Any) -> int:
    """What has happened in one of Ray's operators, as a number that only grows."""
    return int(
        metrics.num_tasks_submitted
        + metrics.num_tasks_finished
        + metrics.num_task_outputs_generated
    )
