"""What the models that take tensors have in common: columns in, columns out."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Self

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from tasks.kinds.column_types import is_text
from tasks.kinds.models import output_names
from tasks.kinds.models.arrays import Columns, with_columns
from tasks.kinds.models.file_model import FileModel
from tasks.kinds.models.input_types import refuse_other_than_numbers
from tasks.kinds.models.model import Function, Placement
from tasks.kinds.models.tensors.inputs import (
    ALONE,
    Arrays,
    Bindings,
    Input,
    array_of,
    batches,
    bound,
    row_limits,
)
from tasks.kinds.models.tensors.outputs import Activation, Seen, classes, prediction_columns
from tasks.kinds.models.tensors.shapes import by_shape


@dataclass(frozen=True)
class Loaded:
    """A model on its device."""

    run: Callable[[Iterator[Arrays]], dict[str, np.ndarray]]
    """Batches of inputs by name to all their outputs by name."""
    inputs: Mapping[str, Input] = field(default_factory=dict)
    """What the model says of them, in its order; empty: nothing."""


class TensorModel(FileModel):
    """A model that takes arrays and returns arrays, rows first.

    One output becomes `prediction`: a number a row, or a list of fixed size. Several become columns
    under their names; those of a tuple are output_0, output_1 and so on. With `labels` the output
    becomes `predicted_label` and `predicted_score`.
    """

    columns: list[str] = Field(
        default=[],
        description="Input columns of a model with one input: one column of numbers, lists, "
        "tensors or images (height, width, 3 of uint8), as it is, or several of numbers side by "
        "side, in the order of training. Rows with lists of different lengths go to the model by "
        "length; if nearly each has its own length, that is slow: pad them to one length in a "
        "step, for example with zeros and a mask.",
    )
    inputs: dict[str, str | Annotated[list[str], Field(min_length=1)]] = Field(
        default={},
        description="For a model with several inputs, instead of columns: the column for each "
        "input's name, as in {image: pixels, age: age_years}; columns in a list go side by side. A "
        "PyTorch module gets a column of numbers as (rows), a list of one column as (rows, 1).",
    )
    outputs: list[str] = Field(
        default=[],
        description="Outputs to keep, by name: keys of a dict, names in an ONNX file, or output_0, "
        "output_1, ... of a tuple. Empty: all.",
    )
    labels: list[str] | Annotated[int, Field(ge=1)] = Field(
        default=[],
        description="For a classifier: names of its classes in order, or how many there are, to "
        "name them 0, 1, 2, ... With them it gives predicted_label and predicted_score instead of "
        "prediction.",
    )
    activation: Activation = Field(
        default="softmax",
        description="With labels, what turns the model's output into scores: softmax or sigmoid "
        "for logits, none if the model's last layer has done so.",
    )
    top_k: int = Field(
        default=1,
        ge=1,
        description="With labels: how many to give, best first; more than one makes lists.",
    )

    takes_texts: ClassVar[bool] = True
    """Whether a column of texts may be an input, as of some models of ONNX and TensorFlow."""

    @model_validator(mode="after")
    def _one_way_in(self) -> Self:
        if bool(self.columns) == bool(self.inputs):
            raise ValueError(
                "model.columns: list the input columns; or, for a model with several inputs, set "
                "the columns of each in model.inputs; not both"
            )
        if self.top_k > 1 and not self.labels:
            raise ValueError(f"model.top_k: {self.top_k} has no effect without model.labels")
        if self.activation == "sigmoid" and not self.labels:  # softmax is what forms fill in
            raise ValueError("model.activation: 'sigmoid' has no effect without model.labels")
        return self

    @property
    def bindings(self) -> Bindings:
        """The columns of each of the model's inputs."""
        return self.inputs or {ALONE: self.columns}

    @property
    def input_columns(self) -> list[str]:
        """The columns that the model reads."""
        return [name for side in self.bindings.values() for name in as_list(side)]

    @property
    def input_field(self) -> str:
        """The field that names them."""
        return "inputs" if self.inputs else "columns"

    def refuse_types(self, schema: pa.Schema) -> None:
        """Numbers, where an input is made of several columns; else it may be lists or texts."""
        for side in map(as_list, self.bindings.values()):
            for name in side:
                kind = schema.field(name).type
                is_none = pa.types.is_temporal(kind) or (is_text(kind) and not self.takes_texts)
                if len(side) > 1 or is_none:
                    refuse_other_than_numbers(kind, name, f"model.{self.input_field}")

    @property
    def output_columns(self) -> tuple[str, ...] | None:
        """What is added to a row; without labels and outputs only the file knows."""
        if self.labels:
            return output_names.LABELS
        names = tuple(dict.fromkeys(self.outputs))
        return output_names.PREDICTION if len(names) == 1 else names or None

    @property
    def names_of_classes(self) -> list[str]:
        """The labels, written out."""
        return [*map(str, range(self.labels))] if isinstance(self.labels, int) else self.labels

    def loaded(self, placement: Placement) -> Loaded:
        """The model on its device."""
        raise NotImplementedError

    def predictor(self, placement: Placement) -> Function:
        """Cuts rows into batches, and makes columns of what the model returns."""
        loaded = self.loaded(placement)
        columns = bound(self.bindings, loaded.inputs, self.path)
        limits, seen = row_limits(loaded.inputs), Seen()

        def outputs_of(rows: pa.Table) -> Columns:
            arrays = {
                name: array_of(rows, each, loaded.inputs.get(name, Input()))
                for name, each in columns.items()
            }
            outputs = loaded.run(batches(arrays, placement, limits))
            without_filling = {name: values[: len(rows)] for name, values in outputs.items()}
            return self.columns_of(without_filling, arrays, seen)

        def predict(rows: pa.Table) -> pa.Table:
            return with_columns(rows, by_shape(outputs_of, rows, self.input_columns))

        return predict

    def columns_of(self, outputs: Mapping[str, np.ndarray], inputs: Arrays, seen: Seen) -> Columns:
        """Output columns of the model's arrays, which it made of the inputs.

        Args:
            outputs: by name.
            inputs: by name.
            seen: what earlier scores have told.

        Raises:
            ValueError: a row's are no numbers.
        """
        if not self.labels:
            return prediction_columns(outputs, inputs)
        return classes(outputs, self.names_of_classes, self.activation, self.top_k, seen)


def as_list(columns: str | list[str]) -> list[str]:
    """An input's columns, also where it is one."""
    return [columns] if isinstance(columns, str) else columns
