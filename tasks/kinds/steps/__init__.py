"""All steps, written out: the union is the contract."""

from typing import Annotated

from pydantic import Field

from tasks.kinds.form import PickOne
from tasks.kinds.steps.chunk_text import ChunkTextStep
from tasks.kinds.steps.filter import FilterStep
from tasks.kinds.steps.label_from_path import LabelFromPathStep
from tasks.kinds.steps.map import MapStep
from tasks.kinds.steps.python import PythonStep
from tasks.kinds.steps.rename import RenameStep
from tasks.kinds.steps.select import SelectStep
from tasks.kinds.steps.step import Step
from tasks.kinds.steps.template import TemplateStep
from tasks.kinds.steps.tile_images import TileImagesStep

AnyStep = Annotated[
    LabelFromPathStep
    | RenameStep
    | SelectStep
    | FilterStep
    | TemplateStep
    | PythonStep
    | MapStep
    | ChunkTextStep
    | TileImagesStep,
    Field(discriminator="kind"),
    PickOne(),
]

__all__ = [
    "AnyStep",
    "ChunkTextStep",
    "FilterStep",
    "LabelFromPathStep",
    "MapStep",
    "PythonStep",
    "RenameStep",
    "SelectStep",
    "Step",
    "TemplateStep",
    "TileImagesStep",
]
