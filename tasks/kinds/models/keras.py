"""Keras models, computed by torch, JAX or TensorFlow."""

import importlib.util
from typing import ClassVar, Literal

from pydantic import ConfigDict, Field

from tasks.errors import InvalidSpec
from tasks.kinds import user_code
from tasks.kinds.extras import require
from tasks.kinds.models.model import FILE_SAYS, Placement, refuse_dtype
from tasks.kinds.models.tensors import keras_backend, keras_file
from tasks.kinds.models.tensors.keras_backend import Backend
from tasks.kinds.models.tensors.model import Loaded, TensorModel


class KerasModel(TensorModel):
    """A model that Keras 3 saved as a .keras file. Python code in the file is never run."""

    model_config = ConfigDict(title="Keras")
    kind: Literal["keras"] = "keras"
    backend: Backend = Field(
        default="auto",
        description="What computes: torch, jax or tensorflow, installed on every node. auto: what "
        "KERAS_BACKEND says in the job's environment, otherwise torch.",
    )
    custom_objects: list[str] = Field(
        default=[],
        description="Import paths of your own layers and functions that the model uses, as in "
        "my_layers:Attention.",
    )

    own_precision: ClassVar[str | None] = (
        f"{FILE_SAYS}; set the model's dtype policy and save it again"
    )

    def check(self) -> None:
        """See that Keras, its backend, the model's file and its own layers are there.

        Raises:
            InvalidSpec: says what is missing, or that the file is none of Keras 3.
            Unreachable: the storage does not answer.
        """
        require("model.kind", self.kind, "keras", "keras")
        backend = keras_backend.chosen(self.backend)
        if importlib.util.find_spec(backend) is None:
            problem = f"needs the package {backend}: pip install {backend}, here and on every node"
            raise InvalidSpec.at("model.backend", backend, problem)
        for each in self.custom_objects:
            user_code.check_reference("model.custom_objects", each)
        super().check()
        instead = "give a .keras file, written with model.save('model.keras')"
        self.found_in_file(keras_file.check_file, instead)

    @property
    def own_code(self) -> dict[str, list[str]]:
        """The model's own layers."""
        return {"model.custom_objects": self.custom_objects}

    def loaded(self, placement: Placement) -> Loaded:
        """The model on its device."""
        refuse_dtype(placement.dtype, self.own_precision)
        backend = keras_backend.chosen(self.backend)
        keras = keras_backend.keras_with(backend, placement.num_threads, placement.device)
        keras_backend.refuse_fallback(keras, placement.device)
        with keras_backend.at_work(keras, placement):
            model = keras_file.load(keras, self.local(), self.custom_objects)
        run = keras_file.running(keras, model, placement, self.outputs)
        return Loaded(run, keras_file.inputs_of(model))
