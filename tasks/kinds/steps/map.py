"""Your own function over one row at a time."""

from typing import ClassVar, Literal

import pyarrow as pa
from pydantic import ConfigDict, Field

from tasks.kinds import user_code
from tasks.kinds.media import decode_media_columns, encode_untouched
from tasks.kinds.row_functions import call_on_rows, one_row, several_rows
from tasks.kinds.steps.step import Function, Step


class MapStep(Step):
    """Runs your own code over one row at a time, as Ray's `map` and `flat_map`."""

    model_config = ConfigDict(title="Your own code, row by row")
    is_heavy: ClassVar[bool] = True
    kind: Literal["map"] = "map"
    function: str = Field(
        description="Import path of a function or class, as in my_package.cleaning:normalise. It "
        "gets a dict of a row's columns and returns one: columns it leaves out are gone. Code over "
        "batches (kind: python) is much faster where rows are many and small."
    )
    init: user_code.Init = Field(
        default={}, description="Arguments of the class, or of the function besides the row."
    )
    returns_list: bool = Field(
        default=False,
        description="The function returns a list of such dicts, as for Ray's flat_map: all of them "
        "are published, or none; an empty list filters the row.",
    )

    def check(self) -> None:
        """See that the code is there."""
        user_code.check_use("steps.map.function", self.function, self.init)

    @property
    def own_code(self) -> dict[str, list[str]]:
        """Itself."""
        return {"steps.map.function": [self.function]}

    def build(self) -> Function:
        """The code as a function over tables."""
        function = user_code.made("steps.map.function", self.function, self.init)
        made = several_rows if self.returns_list else one_row

        def run(rows: pa.Table) -> pa.Table:
            decoded = decode_media_columns(rows)
            return encode_untouched(rows, decoded, call_on_rows(function, decoded, made))

        return run
