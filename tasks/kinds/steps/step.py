"""What every step does: build a function over tables that keeps every row, or says which not."""

from collections.abc import Callable

import pyarrow as pa

from tasks.kinds.kind import Kind

Function = Callable[[pa.Table], pa.Table]
"""Gets rows with their ids in `__row`. Returns as many rows in the same order, or rows with
`__row`: ids left out are filtered, ids repeated are one row's children."""


class Step(Kind):
    """A CPU step before the model's own preprocessing."""

    def check(self) -> None:
        """Find what is wrong without doing anything expensive.

        Raises:
            InvalidSpec: says which field, and the way out.
        """

    def code_digest(self) -> str:
        """Digest of the user's code that the step runs; empty where there is none."""
        return ""

    def build(self) -> Function:
        """The step as a function; called once in each worker process."""
        raise NotImplementedError
