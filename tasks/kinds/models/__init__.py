"""All models, written out: the union is the contract."""

from typing import Annotated

from pydantic import Field

from tasks.kinds.form import PickOne
from tasks.kinds.models.huggingface import HuggingFaceModel
from tasks.kinds.models.model import Model
from tasks.kinds.models.python import PythonModel
from tasks.kinds.models.sklearn import SklearnModel
from tasks.kinds.models.xgboost import XGBoostModel

AnyModel = Annotated[
    HuggingFaceModel | PythonModel | SklearnModel | XGBoostModel,
    Field(discriminator="kind"),
    PickOne(),
]

__all__ = ["AnyModel", "HuggingFaceModel", "Model", "PythonModel", "SklearnModel", "XGBoostModel"]
