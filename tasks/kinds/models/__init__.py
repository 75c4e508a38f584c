"""All models, written out: the union is the contract."""

from tasks.kinds.models.model import Model
from tasks.kinds.models.python import PythonModel

AnyModel = PythonModel

__all__ = ["AnyModel", "Model", "PythonModel"]
