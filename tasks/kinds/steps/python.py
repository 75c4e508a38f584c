"""Your own function or class as a step."""

from typing import ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ConfigDict, Field

from tasks.errors import UserCodeBroke
from tasks.kinds import columns, user_code
from tasks.kinds.media import decode_media_columns, encode_untouched
from tasks.kinds.steps.step import Function, Step
from tasks.protocol.batch import ROW


class PythonStep(Step):
    """Runs your own code over batches of rows."""

    model_config = ConfigDict(title="Your own code")
    is_heavy: ClassVar[bool] = True
    kind: Literal["python"] = "python"
    function: str = Field(
        description="Import path of a function or class, as in my_package.cleaning:normalise. "
        "What it returns is what there is: columns it leaves out are gone."
    )
    init: user_code.Init = Field(
        default={}, description="Arguments of the class, or of the function beside the batch."
    )
    batch_format: user_code.BatchFormat = Field(
        default="numpy", description="What a batch is: a dict of NumPy arrays, or a pandas frame."
    )
    with_row_ids: bool = Field(
        default=False,
        description="Hand row ids over in the column __row. Code that returns it may leave rows "
        "out (they are filtered) or repeat an id (one row in, many out).",
    )

    def check(self) -> None:
        """See that the code is there."""
        user_code.check_use("steps.python.function", self.function, self.init)

    @property
    def own_code(self) -> dict[str, list[str]]:
        """Itself."""
        return {"steps.python.function": [self.function]}

    def build(self) -> Function:
        """The code as a function over tables."""
        function = user_code.made("steps.python.function", self.function, self.init)

        def run(rows: pa.Table) -> pa.Table:
            decoded = decode_media_columns(rows)
            returned = user_code.call(function, decoded, self.batch_format, self.with_row_ids)
            if ROW not in returned.column_names:
                refuse_reordered(decoded, returned)
            return encode_untouched(rows, decoded, returned)

        return run


def refuse_reordered(rows: pa.Table, returned: pa.Table) -> None:
    """A column that came back in another order shows that rows were reordered.

    Unless another one, whose values are all different, came back as it was: then its values were
    changed, as where truth values become their contrary.

    Raises:
        UserCodeBroke: names the column.
    """
    if len(returned) != len(rows):
        return  # the adapter says so
    names = [name for name in columns.visible(rows) if name in returned.column_names]
    same = [name for name in names if columns.same_values(rows[name], returned[name])]
    for name in names:
        if name not in same and is_permutation(rows[name], returned[name]):
            if any(tells_rows_apart(rows[each]) for each in same):
                return
            raise UserCodeBroke(
                f"the step returned the column {name!r} in another order: set with_row_ids and "
                "return __row, so that rows keep their ids"
            )


def tells_rows_apart(column: pa.ChunkedArray) -> bool:
    """Whether no two rows have the same value in a column."""
    try:
        return bool(pc.count_distinct(column, mode="all").as_py() == len(column))
    except pa.ArrowNotImplementedError:
        return False


def is_permutation(sent: pa.ChunkedArray, back: pa.ChunkedArray) -> bool:
    """Whether two columns hold the same values in another order."""
    try:
        back = back.cast(sent.type)
        first, second = sent.take(pc.sort_indices(sent)), back.take(pc.sort_indices(back))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return False
    return columns.same_values(first, second)
