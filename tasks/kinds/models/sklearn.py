"""Estimators and pipelines of scikit-learn, from a file."""

from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import ConfigDict, Field

from tasks.errors import InvalidSpec
from tasks.kinds.extras import require
from tasks.kinds.models import output_names
from tasks.kinds.models.arrays import (
    Columns,
    in_slices,
    label_columns,
    prediction_column,
    with_columns,
)
from tasks.kinds.models.estimators import calling, code_within, loading
from tasks.kinds.models.file_model import FileModel
from tasks.kinds.models.model import FILE_SAYS, Function, Placement, refuse_dtype

Method = Literal["predict", "predict_proba", "decision_function", "transform"]


class SklearnModel(FileModel):
    """An estimator or pipeline of scikit-learn over columns; adds `prediction`.

    That is one value a row, or a list of numbers if the method gives several.
    """

    model_config = ConfigDict(title="scikit-learn")
    kind: Literal["sklearn"] = "sklearn"
    columns: list[str] = Field(
        default=[],
        description="Input columns in the order of training. Empty: the names that the model was "
        "trained with. One column may hold texts or vectors instead of numbers. If a row has an "
        "empty value in a column of whole numbers or of true and false, a model trained on a frame "
        "gets these as floats or as objects.",
    )
    method: Method = Field(
        default="predict", description="The model's method that makes the prediction."
    )
    labels: list[str] = Field(
        default=[],
        description="Names of the classes, in the order of the model's classes_. With them a "
        "classifier gives predicted_label and predicted_score (its probability) instead of "
        "prediction.",
    )
    trusted: list[str] = Field(
        default=[],
        description="Types beyond skops' own list that the file may hold, by import path, as in "
        "sklearn.tree._tree.Tree, and your own functions and classes in it, also in a pickle, as "
        "in features.log_scale; the error that asks for them lists them.",
    )
    trust_pickle: bool = Field(
        default=False,
        description="Read a .joblib or .pkl file, which may run any code. Only for files from "
        "somebody you trust; a .skops file needs no such trust.",
    )

    suffixes: ClassVar[tuple[str, ...]] = (".skops", *loading.PICKLES)
    rows_per_batch: ClassVar[int] = 131_072
    own_precision: ClassVar[str | None] = f"{FILE_SAYS}; leave it auto"

    @property
    def weights_bytes(self) -> int | None:
        """Not told: what an estimator does for a row has little to do with its size."""
        return None

    @property
    def can_use_gpu(self) -> bool:
        """Estimators calculate on CPUs."""
        return False

    @property
    def least_rows_per_batch(self) -> int:
        """A moment's work, as a rule."""
        return 65_536

    @property
    def input_columns(self) -> list[str]:
        """The columns that the model reads, where the spec says so."""
        return self.columns

    @property
    def own_code(self) -> dict[str, list[str]]:
        """The user's own functions and classes in the file."""
        return {"model.trusted": [*code_within.references(self.trusted)]}

    @property
    def output_columns(self) -> tuple[str, ...]:
        """What is added to a row."""
        return output_names.LABELS if self.labels else output_names.PREDICTION

    @property
    def input_field(self) -> str:
        """The field that names them."""
        return "columns"

    def check(self) -> None:
        """See that the packages and the model are there, and that the file is trusted.

        Raises:
            InvalidSpec: says what is missing, or which types are not trusted.
            Unreachable: the storage does not answer.
        """
        for module in ("sklearn", "skops", "joblib", "threadpoolctl"):
            require("model.kind", self.kind, module, "sklearn")
        super().check()
        loading.check_pickle(self.path, self.trust_pickle)
        if self.path.endswith(".skops"):
            loading.check_types(self.local(), self.trusted)
        if self.labels and self.method not in ("predict", "predict_proba"):
            problem = f"name classes, but {self.method} returns none: leave out one of the two"
            raise InvalidSpec.at("model.labels", self.labels, problem)

    def predictor(self, placement: Placement) -> Function:
        """The estimator's method over frames or arrays."""
        refuse_dtype(placement.dtype, self.own_precision)
        estimator = loading.load(self.local(), self.trusted, self.trust_pickle)
        names = calling.input_names(estimator, self.columns)
        calling.limit_threads(estimator, placement.num_threads)
        call = calling.naming_frames(self.method_of(estimator), estimator, names)
        self.check_order_of_labels(estimator)
        threads = calling.Threads(placement.num_threads)

        def returned(rows: pa.Table) -> np.ndarray:
            with threads.limited():
                return calling.predicted(call, estimator, rows, names)

        def run(rows: pa.Table) -> pa.Table:
            made = in_slices(returned, rows, placement.rows(len(rows)))
            return with_columns(rows, self.outputs(made, len(rows)))

        return run

    def method_of(self, estimator: Any) -> Any:
        """The method that is called: with labels it is the one that gives probabilities.

        Raises:
            InvalidSpec: the model has no such method.
        """
        name = "predict_proba" if self.labels else self.method
        if not hasattr(estimator, name):
            problem = f"needs {name}, which {type(estimator).__name__} does not have"
            if self.labels:
                raise InvalidSpec.at("model.labels", self.labels, problem)
            raise InvalidSpec.at("model.method", name, problem)
        return getattr(estimator, name)

    def check_order_of_labels(self, estimator: Any) -> None:
        """See that labels which are the model's own classes stand in its order.

        Raises:
            InvalidSpec: they do not, so that each would be called by another's name.
        """
        own = [str(each) for each in getattr(estimator, "classes_", [])]
        if self.labels != own and sorted(self.labels) == sorted(own):
            problem = f"are the model's classes in another order: write {own}"
            raise InvalidSpec.at("model.labels", self.labels, problem)

    def outputs(self, returned: Any, rows: int) -> Columns:
        """Output columns of what the method returned."""
        if self.labels:
            return label_columns(returned, self.labels)
        return prediction_column(returned, rows)
