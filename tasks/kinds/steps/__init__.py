"""All steps, written out: the union is the contract."""

from typing import Annotated

from pydantic import Field

from tasks.kinds.form import PickOne
from tasks.kinds.steps.filter import FilterStep
from tasks.kinds.steps.label_from_path import LabelFromPathStep
from tasks.kinds.steps.python import PythonStep
from tasks.kinds.steps.rename import RenameStep
from tasks.kinds.steps.select import SelectStep
from tasks.kinds.steps.step import Step

AnyStep = Annotated[
    LabelFromPathStep | RenameStep | SelectStep | FilterStep | PythonStep,
    Field(discriminator="kind"),
    PickOne(),
]

__all__ = [
    "AnyStep",
    "FilterStep",
    "LabelFromPathStep",
    "PythonStep",
    "RenameStep",
    "SelectStep",
    "Step",
]
