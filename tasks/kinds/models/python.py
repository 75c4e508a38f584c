"""Any class with `__call__(batch)` or function, as Ray's batch-inference guides print them."""

import hashlib
import json
from typing import Annotated, Any, ClassVar, Literal, Self

import pyarrow as pa
from pydantic import ConfigDict, Field

from tasks.errors import InvalidSpec, UserCodeBroke
from tasks.kinds import columns, user_code, user_rows
from tasks.kinds.models.file_model import FileModel
from tasks.kinds.models.model import Function, Media, Model, Placement, refuse_dtype
from tasks.kinds.user_batches import TO_USER, BatchFormat, gets_encoded_media
from tasks.protocol.batch import ROW


class Weights(FileModel):
    """A file or folder that user code loads."""

    place_field: ClassVar[str] = "model.weight_files"


class PythonModel(Model):
    """Your own class, created once per replica and called with each batch; or a function."""

    model_config = ConfigDict(title="Your own code", populate_by_name=True)
    kind: Literal["python"] = "python"
    class_: str = Field(
        alias="class",
        description="Import path of a class, as in my_package.models:Predictor, whose instance is "
        "called with each batch. Or of a function: one that takes a batch is called with each; one "
        "that takes none, such as load_model(), returns what to call.",
    )
    init: user_code.Init = Field(
        default={}, description="Arguments of the class, or of the function besides the batch."
    )
    weight_files: list[Annotated[str, Field(min_length=1)]] = Field(
        default=[],
        description="Files and folders that your code loads, as in model.pt or s3://bucket/model: "
        "if their content changes, they are another model, as your code is when it changes. "
        "Relative to the spec's file; pass their paths in init to code that opens them.",
    )
    batch_format: BatchFormat = Field(
        default="numpy",
        description="What a batch is: a dict of NumPy arrays, a pandas frame, or an Arrow table "
        "(pyarrow). In the first two, an empty value turns its column, in the whole batch, from "
        "whole numbers into floats, which lack digits above 2^53, or from true and false into "
        "objects: if that matters, fill empty values in a step. For an Arrow table nothing is "
        "converted: images and sounds are the bytes of their files.",
    )
    with_row_ids: bool = Field(
        default=False,
        description="Pass row ids in the column __row; code that returns it may reorder rows and "
        "change input columns; children of one row stay in their order. An id is of one run: "
        "verify, redrive and other runs number rows anew, so seed random numbers from a column.",
    )
    weights_field: ClassVar[str] = "weight_files"
    own_precision: ClassVar[str | None] = "your own code sets its precision; leave it auto"
    batch_size: ClassVar[int | None] = 64
    calls_may_grow: ClassVar[bool] = True
    rows_per_batch: ClassVar[int] = 16_384
    """Nobody knows how long they take: of slow ones a batch comes out in parts."""

    def check(self) -> None:
        """See that the class or function is there, and its weights."""
        user_code.check_use("model.class", self.class_, self.init)
        for each in self.places:
            each.check()

    @property
    def own_code(self) -> dict[str, list[str]]:
        """Itself."""
        return {"model.class": [self.class_]}

    def fingerprint(self) -> str:
        """Digest of the arguments and the weights; the code has a digest of its own."""
        given: list[Any] = [self.class_, self.init, self.batch_format]
        given += [each.fingerprint() for each in self.places]
        content = json.dumps(given, sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    @property
    def takes_encoded_media(self) -> bool:
        """Whether the code gets an Arrow table."""
        return gets_encoded_media(self.batch_format)

    @property
    def places(self) -> "list[Weights]":
        """Where its weights lie."""
        return [Weights(path=path) for path in self.weight_files]

    @property
    def is_known_by_content(self) -> bool:
        """Only what is local is read."""
        return all(each.is_known_by_content for each in self.places)

    def has_changed(self, fingerprint: str) -> bool:
        """Whether other weights lie there now, as ones that were trained meanwhile."""
        return bool(self.weight_files) and self.fingerprint() != fingerprint

    def embedder(self, media: Media, prefix: str | None = None) -> Self:
        """The class itself: only it knows what it takes.

        Raises:
            InvalidSpec: something is to be put before a text.
        """
        if prefix is not None:
            problem = "is put before texts by kind: huggingface alone; write it into the query"
            raise InvalidSpec.at("prefix", prefix, problem)
        return self

    def predictor(self, placement: Placement) -> Function:
        """What the class or function makes of batches in its format.

        Raises:
            InvalidSpec: it is not there, or is to calculate in a precision that is its own affair.
        """
        refuse_dtype(placement.dtype, self.own_precision)
        instance = user_code.made("model.class", self.class_, self.init)

        def predict(rows: pa.Table) -> pa.Table:
            returned = user_code.call(instance, rows, self.batch_format, self.with_row_ids)
            if ROW in returned.column_names or len(returned) != len(rows):
                return returned
            return as_sent(rows, returned, self.batch_format)

        return predict


def as_sent(rows: pa.Table, returned: pa.Table, batch_format: BatchFormat) -> pa.Table:
    """What a model returned, with the input columns in it as they were read.

    They must be what was sent: rows may have been reordered.

    Raises:
        UserCodeBroke: names the column.
    """
    found = {each.name: (each, returned[each.name]) for each in returned.schema}
    for name in columns.visible(rows):
        if name not in found:
            continue
        if not came_back(rows.select([name]), returned[name], batch_format):
            raise UserCodeBroke(
                f"the model returned the input column {name!r} with other values: give the "
                "prediction another name, or set with_row_ids and return __row if rows were "
                "reordered on purpose"
            )
        found[name] = (rows.schema.field(name), rows[name])
    fields = pa.schema([each for each, _ in found.values()])
    return pa.table([values for _, values in found.values()], schema=fields)


def came_back(sent: pa.Table, returned: pa.ChunkedArray, batch_format: BatchFormat) -> bool:
    """Whether a column came back as it was sent, or as it is once user code's format was it."""
    (column,) = sent.columns
    if columns.same_values(column, returned):
        return True
    try:
        there_and_back = user_rows.from_user(TO_USER[batch_format](sent))
    except TypeError:
        return False  # it has no way back, so what came back is something else
    return columns.same_values(there_and_back.column(0), returned)
