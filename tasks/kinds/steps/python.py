"""Your own function or class as a step."""

from typing import ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ConfigDict, Field

from tasks.errors import UserCodeBroke
from tasks.kinds import columns, user_code
from tasks.kinds.column_types import is_plain_number
from tasks.kinds.media import decode_media_columns, encode_untouched
from tasks.kinds.steps.step import Function, Step
from tasks.kinds.unchanged_values import alike
from tasks.kinds.user_batches import BatchFormat, gets_encoded_media
from tasks.protocol.batch import ROW

WITHOUT_ORDER = (
    *(pa.types.is_nested, pa.types.is_dictionary, pa.types.is_null, pa.types.is_float16),
    *(pa.types.is_string_view, pa.types.is_binary_view, pa.types.is_interval),
)
"""Types of columns that Arrow orders no rows by, beside others."""


class PythonStep(Step):
    """Runs your own code over batches of rows."""

    model_config = ConfigDict(title="Your own code")
    is_heavy: ClassVar[bool] = True
    kind: Literal["python"] = "python"
    function: str = Field(
        description="Import path of a function or class, as in my_package.cleaning:normalise. Its "
        "result replaces the batch: columns it leaves out are gone."
    )
    init: user_code.Init = Field(
        default={}, description="Arguments of the class, or of the function besides the batch."
    )
    batch_format: BatchFormat = Field(
        default="numpy",
        description="What a batch is: a dict of NumPy arrays, a pandas frame, or an Arrow table "
        "(pyarrow), for which nothing is converted: images and sounds are the bytes of their "
        "files.",
    )
    with_row_ids: bool = Field(
        default=False,
        description="Pass row ids in the column __row. Code that returns it may leave rows out "
        "(they are filtered) or repeat an id (one row in, many out). An id is of one run: verify, "
        "redrive and other runs number rows anew, so seed random numbers from a column.",
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
            as_they_are = gets_encoded_media(self.batch_format)
            decoded = rows if as_they_are else decode_media_columns(rows)
            returned = user_code.call(function, decoded, self.batch_format, self.with_row_ids)
            if ROW not in returned.column_names:
                refuse_reordered(decoded, returned)
            return encode_untouched(rows, decoded, returned)

        return run


def refuse_reordered(rows: pa.Table, returned: pa.Table) -> None:
    """A column that came back in another order shows that rows were reordered.

    Unless the columns that came back as they were tell otherwise: where rows had changed places,
    its values would stand beside the same ones of these. Truth values that become their contrary do
    not, half of which being true is no rare chance.

    Raises:
        UserCodeBroke: names the column.
    """
    if len(returned) != len(rows):
        return  # the adapter says so
    there = {*returned.column_names}
    names = [name for name in columns.visible(rows) if name in there]
    same = {name for name in names if columns.same_values(rows[name], returned[name])}
    left = [name for name in names if name in same]
    beside = [name for name in left if can_be_ordered(rows.schema.field(name).type)]
    for name in names:
        if name not in same and all(
            is_permutation(rows.select(some), returned.select(some))
            for some in ([name], [*beside, name])  # the first alone tells nearly always
        ):
            raise UserCodeBroke(
                f"the step returned the column {name!r} in another order: set with_row_ids and "
                "return __row, so that rows keep their ids"
            )


def can_be_ordered(kind: pa.DataType) -> bool:
    """Whether Arrow can order rows by a column of a type beside others."""
    return not (isinstance(kind, pa.BaseExtensionType) or any(is_(kind) for is_ in WITHOUT_ORDER))


def is_permutation(sent: pa.Table, back: pa.Table) -> bool:
    """Whether two tables hold the same rows in another order."""
    pairs = [*zip(back.columns, sent.columns, strict=True)]
    try:
        back = pa.table([column.cast(given.type) for column, given in pairs], sent.column_names)
        if not all(map(same_ends, sent.columns, back.columns)):
            return False  # quickly, as nearly always where a column is computed anew
        first, second = in_order(sent), in_order(back)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return False
    return all(map(columns.same_values, first.columns, second.columns))


def same_ends(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    """Whether two columns of one type may hold the same, by their smallest and largest number."""
    if not is_plain_number(one.type):
        return True
    found = [[*pc.min_max(each).as_py().values()] for each in (one, other)]
    return alike(*found)


def in_order(rows: pa.Table) -> pa.Table:
    """Rows sorted by all of their columns."""
    # By number, since Arrow takes some names, such as "a.b", for paths.
    numbered = rows.rename_columns([str(number) for number in range(rows.num_columns)])
    return numbered.sort_by([(name, "ascending") for name in numbered.column_names])
