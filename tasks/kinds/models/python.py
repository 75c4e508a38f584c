"""Any class with `__call__(batch)`, as Ray's batch-inference guides print them."""

import hashlib
import json
from typing import Any, ClassVar, Literal

import pyarrow as pa
from pydantic import ConfigDict, Field

from tasks.errors import UserCodeBroke
from tasks.kinds import columns, user_code
from tasks.kinds.models.model import Function, Model, Placement
from tasks.protocol.batch import ROW


class PythonModel(Model):
    """Your own class: made once in each replica, called with each batch."""

    model_config = ConfigDict(title="Your own class", populate_by_name=True)
    kind: Literal["python"] = "python"
    class_: str = Field(
        alias="class",
        description="Import path of the class, as in my_package.models:Predictor.",
    )
    init: dict[str, Any] = Field(default={}, description="Arguments of the class.")
    batch_format: user_code.BatchFormat = Field(
        default="numpy",
        description="What a batch is: a dict of NumPy arrays, or a pandas frame.",
    )
    with_row_ids: bool = Field(
        default=False,
        description="Hand row ids over in the column __row; code that returns it may reorder "
        "rows and change input columns; children of one row stay in their order.",
    )
    batch_size: ClassVar[int | None] = 64

    def check(self) -> None:
        """See that the class is there."""
        user_code.check_reference("model.class", self.class_)

    def code_digest(self) -> str:
        """Digest of the class's module or package."""
        return user_code.digest("model.class", self.class_)

    def fingerprint(self) -> str:
        """Digest of the arguments; the code has a digest of its own."""
        content = json.dumps([self.class_, self.init, self.batch_format], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def predictor(self, placement: Placement) -> Function:
        """An instance of the class, called with batches in its format."""
        instance = user_code.load("model.class", self.class_)(**self.init)

        def predict(rows: pa.Table) -> pa.Table:
            returned = user_code.call(instance, rows, self.batch_format, self.with_row_ids)
            if ROW not in returned.column_names:
                refuse_changed(rows, returned)
            return returned

        return predict


def refuse_changed(rows: pa.Table, returned: pa.Table) -> None:
    """Input columns that come back must be what was sent: rows may have been reordered.

    Raises:
        UserCodeBroke: names the column.
    """
    for name in set(rows.column_names) & set(returned.column_names):
        if len(rows) == len(returned) and not columns.same_values(rows[name], returned[name]):
            raise UserCodeBroke(
                f"the model returned the input column {name!r} with other values: give the "
                "prediction a name of its own, or set with_row_ids and return __row if rows were "
                "reordered on purpose"
            )
