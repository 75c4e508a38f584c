"""Maps of images: a number for each pixel of an image as it was read, made image by image."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.kinds.models.arrays import Columns, with_columns
from tasks.kinds.models.hf.checkpoint import Checkpoint
from tasks.kinds.models.hf.hub import FIELD
from tasks.kinds.models.hf.whole_images import WholeImages
from tasks.kinds.models.model import Function, Placement
from tasks.kinds.models.onednn import keep_few_primitives
from tasks.kinds.models.torch_batches import side_by_side
from tasks.kinds.models.vision.beside_gpu import BesideGpu
from tasks.kinds.models.vision.detection import Arguments, refuse_no_numbers

ON_CPU, ON_GPU = 1, 8
"""Images in a batch: of one alone, some models make 300 MB of scores."""

Size = tuple[int, int]
Made = TypeVar("Made")


@dataclass(frozen=True)
class MapMaker(Generic[Made]):
    """From a model's outputs to what is published of an image."""

    outputs: tuple[str, ...]
    """Names of those that are wanted; a model may lack some."""
    numbers: Callable[[Any, Size], Any]
    """A map of numbers, of one image's outputs, for an image of that height and width."""
    make: Callable[[Any], Made]
    """What is published of a map."""
    columns: Callable[[Sequence[Made]], Columns]

    def mapper(self, model: Any, inputs: WholeImages, placement: Placement) -> Function:
        """A predictor that adds a map of each image.

        Args:
            model: of the checkpoint that `inputs` is of.
            inputs: images for it.
            placement: where it runs.
        """
        later = BesideGpu(self.make, placement)
        if placement.device == "cpu":
            keep_few_primitives()
        run = side_by_side(model, lambda model: self.forward_of(model, later), placement)

        def predict(rows: pa.Table) -> pa.Table:
            coming: list[Any] = [None] * len(rows)
            for index, found in run(inputs.batches(rows)):
                for at, each in zip(index, found, strict=True):
                    coming[at] = each
            return with_columns(rows, self.columns([each() for each in coming]))

        return predict

    def forward_of(
        self, model: Any, later: BesideGpu[Any, Made]
    ) -> Callable[[Arguments], list[Callable[[], Made]]]:
        """Images to what will be published of them: maps of a whole batch would take much room."""

        def forward(arguments: Arguments) -> list[Callable[[], Made]]:
            sizes = arguments.pop("sizes").tolist()
            outputs = model(**arguments)
            kept = {name: outputs[name] for name in self.outputs if name in outputs}
            refuse_no_numbers(kept)
            return [
                later(self.numbers(one_of(kept, at, self.outputs), (height, width)))
                for at, (height, width) in enumerate(sizes)
            ]

        return forward


def one_of(outputs: dict[str, Any], at: int, names: Sequence[str]) -> Any:
    """One image's outputs, as processors take those of a batch; in float32, None where missing."""
    own = {name: each[at : at + 1].float() for name, each in outputs.items()}
    return SimpleNamespace(**{**dict.fromkeys(names), **own})


def last_steps(checkpoint: Checkpoint, processor: Any, name: str) -> Callable[..., Any]:
    """What a checkpoint's processor does with its model's outputs.

    Args:
        checkpoint: of which it is.
        processor: of images.
        name: of its method.

    Raises:
        InvalidSpec: it has none.
    """
    finish: Callable[..., Any] | None = getattr(processor, name, None)
    if finish is None:
        problem = (
            f"has a {type(processor).__name__}, which cannot turn the model's output into maps: "
            "save the image processor used in training beside the model, with its save_pretrained"
        )
        raise InvalidSpec.at(FIELD, checkpoint.name, problem)
    return finish
