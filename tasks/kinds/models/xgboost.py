"""Boosted trees from a file of XGBoost's, or from a checkpoint folder of Ray Train."""

from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import ConfigDict, Field

from tasks.counted import counted
from tasks.errors import InvalidSpec
from tasks.kinds.column_types import Word, is_text
from tasks.kinds.extras import require
from tasks.kinds.models import output_names
from tasks.kinds.models.arrays import (
    Columns,
    in_slices,
    label_columns,
    matrix,
    prediction_column,
    with_columns,
)
from tasks.kinds.models.file_model import FileModel
from tasks.kinds.models.input_types import refuse_other_than_numbers
from tasks.kinds.models.model import FILE_SAYS, Function, Placement, refuse_dtype
from tasks.kinds.models.odd_numbers import refuse_no_numbers
from tasks.kinds.models.trees import booster

ENDINGS = (".ubj", ".json")
RAY_TRAIN = ("model.ubj", "model.json")
"""In a checkpoint: as Ray's report callback names the file, and as its trainer once did."""
CLASSIFIERS = ("binary:logistic", "multi:softprob", "multi:softmax")


class XGBoostModel(FileModel):
    """Trees of XGBoost over columns of numbers; adds `prediction`.

    That is one number a row, or a list of probabilities if there are more than two classes.
    """

    model_config = ConfigDict(title="XGBoost")
    uses_threads: ClassVar[bool] = True
    own_precision: ClassVar[str | None] = f"{FILE_SAYS}; leave it auto"
    kind: Literal["xgboost"] = "xgboost"
    columns: list[str] = Field(
        default=[],
        description="Input columns in the order of training. Empty: the names that the model was "
        "trained with. An empty value is a missing one; categories are matched by name.",
    )
    labels: list[str] = Field(
        default=[],
        description="Names of the classes, in their order. With them a classifier gives "
        "predicted_label and predicted_score (its probability) instead of prediction.",
    )
    missing: float | None = Field(
        default=None,
        description="The number that stood for a missing value in training, as in "
        "XGBClassifier(missing=-999): the model's file does not keep it. Empty values are missing "
        "in any case.",
    )
    best_iteration: bool = Field(
        default=True,
        description="If training was stopped early, predict with the best iteration; off: with all "
        "of them, as Booster.predict does.",
    )

    rows_per_batch: ClassVar[int] = 1_048_576

    @property
    def weights_bytes(self) -> int | None:
        """A row goes through few of the nodes of a tree."""
        return None

    @property
    def least_rows_per_batch(self) -> int:
        """A moment's work, as a rule."""
        return 65_536

    @property
    def input_columns(self) -> list[str]:
        """The columns that the model reads: as the spec says, else as a file at hand does.

        Raises:
            InvalidSpec: the file cannot be read, or has no names.
        """
        if self.columns or not self.opened()[0].is_local:
            return self.columns
        return booster.input_names(booster.load(self.local_file()), [])

    def refuse_types(self, schema: pa.Schema) -> None:
        """Numbers or categories; a column of text may have no value at all, if no word is in it."""
        if self.opened()[0].is_local:
            loaded, names = booster.load(self.local_file()), self.input_columns
            categories = booster.categories_of(loaded, names)
            for each in (schema.field(name) for name in names):
                is_known = bool(Word.of(each)) or not is_text(each.type)
                if each.name not in categories and is_known:
                    refuse_other_than_numbers(each.type, each.name, "model.columns")

    @property
    def output_columns(self) -> tuple[str, ...]:
        """What is added to a row."""
        return output_names.LABELS if self.labels else output_names.PREDICTION

    @property
    def input_field(self) -> str:
        """The field that names them."""
        return "columns"

    def check(self) -> None:
        """See that the package and the model's file are there; that columns and labels fit it.

        The latter of a file at hand.

        Raises:
            InvalidSpec: says what is missing, or does not fit.
            Unreachable: the storage does not answer.
        """
        require("model.kind", self.kind, "xgboost", "xgboost")
        super().check()
        self.file_name()
        if self.opened()[0].is_local:
            loaded = booster.load(self.local_file())
            booster.input_names(loaded, self.columns)
            self.check_labels(loaded)

    def file_name(self) -> str:
        """The model's file among those at the path.

        Raises:
            InvalidSpec: there is none, or it cannot be told which.
        """
        names = [*self.files()]
        found = [name for name in names if name.endswith(ENDINGS) and not name.startswith(".")]
        known = [name for name in RAY_TRAIN if name in found]
        if known or len(found) == 1:
            return (known or found)[0]
        problem = f"contains {', '.join(found)}: give one of them"
        if not found:
            problem = (
                f"has no file ending in {' or '.join(ENDINGS)}; convert a model of another format "
                "with booster.save_model('model.ubj')"
            )
        raise InvalidSpec.at("model.path", self.path, problem)

    def local_file(self) -> Path:
        """The model's file on this node."""
        found = self.local()
        return found / self.file_name() if found.is_dir() else found

    def predictor(self, placement: Placement) -> Function:
        """The trees over a matrix of float32."""
        refuse_dtype(placement.dtype, self.own_precision)
        loaded = booster.load(self.local_file())
        names = booster.input_names(loaded, self.columns)
        categories = booster.categories_of(loaded, names)
        self.check_labels(loaded)
        if self.labels and booster.objective(loaded) == "multi:softmax":
            loaded.set_param({"objective": "multi:softprob"})  # the same trees, every class
        predict = booster.prediction(loaded, placement, best=self.best_iteration)

        def predicted(rows: pa.Table) -> np.ndarray:
            values = matrix(booster.with_codes(rows, categories), names, missing=True)
            booster.refuse_infinity(values, names)
            if self.missing is not None:
                values[values == np.float32(self.missing)] = np.nan
            return predict(values)

        def run(rows: pa.Table) -> pa.Table:
            made = in_slices(predicted, rows, placement.rows(len(rows)))
            return with_columns(rows, self.outputs(made, len(rows)))

        return run

    def check_labels(self, loaded: Any) -> None:
        """See that the model is a classifier of as many classes as there are labels, if any.

        Raises:
            InvalidSpec: it is none, or of more or fewer, or it tells of several things.
        """
        objective, classes = booster.objective(loaded), booster.num_classes(loaded)
        if self.labels and objective not in CLASSIFIERS:
            problem = f"need a classifier ({', '.join(CLASSIFIERS)}); this model is {objective}"
            raise InvalidSpec.at("model.labels", self.labels, problem)
        if self.labels and (targets := booster.num_targets(loaded)) > 1:
            problem = (
                f"name the classes of one target, but the model has {targets}, each with its own "
                "probability: leave labels out, and prediction lists them"
            )
            raise InvalidSpec.at("model.labels", self.labels, problem)
        if self.labels and len(self.labels) != classes:
            problem = f"names {counted(len(self.labels), 'label')}, but the model knows {classes}"
            raise InvalidSpec.at("model.labels", self.labels, problem)

    def outputs(self, values: np.ndarray, rows: int) -> Columns:
        """Output columns of the model's numbers.

        Raises:
            ValueError: a row's are none.
        """
        if not self.labels:
            # An empty value or NaN is a missing one to trees, and no reason for another.
            refuse_no_numbers(values, "prediction", lambda: np.ones(rows, np.bool_))
            return prediction_column(values, rows)
        scores = values if values.ndim == 2 else np.stack([1 - values, values], axis=1)
        return label_columns(scores, self.labels)
