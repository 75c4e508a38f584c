"""All models, written out: the union is the contract."""

from typing import Annotated

from pydantic import Field

from tasks.kinds.form import PickOne
from tasks.kinds.models.http import HttpModel
from tasks.kinds.models.huggingface import HuggingFaceModel
from tasks.kinds.models.keras import KerasModel
from tasks.kinds.models.model import Model
from tasks.kinds.models.onnx import OnnxModel
from tasks.kinds.models.python import PythonModel
from tasks.kinds.models.sklearn import SklearnModel
from tasks.kinds.models.torch import TorchModel
from tasks.kinds.models.torchvision import TorchvisionModel
from tasks.kinds.models.vllm import VllmModel
from tasks.kinds.models.xgboost import XGBoostModel

# The run form selects the first that has all fields of a value: who has few comes first.
AnyModel = Annotated[
    HuggingFaceModel
    | HttpModel
    | XGBoostModel
    | KerasModel
    | OnnxModel
    | PythonModel
    | SklearnModel
    | TorchModel
    | TorchvisionModel
    | VllmModel,
    Field(discriminator="kind"),
    PickOne(),
]

__all__ = [
    "AnyModel",
    "HttpModel",
    "HuggingFaceModel",
    "KerasModel",
    "Model",
    "OnnxModel",
    "PythonModel",
    "SklearnModel",
    "TorchModel",
    "TorchvisionModel",
    "VllmModel",
    "XGBoostModel",
]
