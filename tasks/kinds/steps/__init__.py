"""All steps, written out: the union is the contract."""

from tasks.kinds.steps.select import SelectStep
from tasks.kinds.steps.step import Step

AnyStep = SelectStep

__all__ = ["AnyStep", "SelectStep", "Step"]
