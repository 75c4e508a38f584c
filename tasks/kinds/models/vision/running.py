"""Runs batches of images of one shape as fast as the runtime that is asked for can."""

from typing import Any, Protocol

from tasks.kinds.models.model import Placement
from tasks.kinds.models.runtimes.running import run_on
from tasks.kinds.models.runtimes.runtime_used import Runtime
from tasks.kinds.models.torch_batches import CallOf, Run, in_turn, side_by_side
from tasks.kinds.models.vision import convolutions


class ImageBatches(Protocol):
    """What is known of the batches beforehand."""

    @property
    def size(self) -> int:
        """Images in a full one."""

    def blank(self) -> dict[str, Any]:
        """One made-up image."""


def image_run(
    model: Any,
    call_of: CallOf,
    inputs: ImageBatches,
    placement: Placement,
    runtime: Runtime,
) -> Run:
    """A model on a runtime.

    Args:
        model: changed in place where eager is quicker so.
        call_of: makes a function of a batch's arguments of it.
        inputs: the batches.
        placement: where it runs.
        runtime: all but eager see to layers and threads themselves.

    Raises:
        InvalidSpec: the runtime is not for that place.
    """
    call = call_of(model)
    if runtime == "eager":
        convolutions.tune(model, call, inputs.blank())
    call = run_on(runtime, model, call, placement, lambda _: inputs.size)
    if runtime == "eager":
        return side_by_side(model, call_of, placement)
    return in_turn(call, placement)
