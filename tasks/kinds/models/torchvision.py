"""torchvision's classifiers and detectors, with its weights or those in a file."""

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Literal, Self

import pyarrow as pa
from pydantic import ConfigDict, Field

from tasks.errors import InvalidSpec
from tasks.kinds.extras import require
from tasks.kinds.models import output_names
from tasks.kinds.models.exact_floats import keep_float32_whole
from tasks.kinds.models.file_model import FileModel
from tasks.kinds.models.input_types import refuse_other_than_images
from tasks.kinds.models.machine_errors import is_of_the_machine
from tasks.kinds.models.model import Function, Placement
from tasks.kinds.models.runtimes.choice import (
    RuntimeField,
    can_use_gpu,
    check_runtime,
    refuse_runtime,
)
from tasks.kinds.models.tensors import torch_file, torch_weights
from tasks.kinds.models.torch_threads import is_worth_threads
from tasks.kinds.models.vision.detection import Choice
from tasks.kinds.models.vision.options import TorchvisionOptions
from tasks.kinds.models.vision.zoo import Architecture

CLASSIFICATION, DETECTION = ("top_k",), ("threshold", "max_detections")


class TorchvisionModel(FileModel):
    """Any classifier or detector of torchvision, with its own transforms.

    Adds `predicted_label` and `predicted_score`; or `boxes`, in pixels of the original image,
    `labels` and `scores`.
    """

    model_config = ConfigDict(title="torchvision")
    uses_threads: ClassVar[bool] = True
    slow_imports: ClassVar[tuple[str, ...]] = ("torch",)
    kind: Literal["torchvision"] = "torchvision"
    path: str = Field(
        default="",
        description="File of weights (a state_dict, from torch.save or as safetensors): a path "
        "that every node can read, or a URL as in s3://bucket/model.pth. Relative to the spec's "
        "file. Empty: downloaded from PyTorch's server.",
    )
    name: str = Field(
        min_length=1,
        description="The model's name in torchvision.models.list_models(): resnet50, "
        "fasterrcnn_resnet50_fpn, ...",
    )
    weights: str = Field(
        default="DEFAULT",
        description="Which of the weights that torchvision lists for the model; the plan pins the "
        "entry that DEFAULT stands for. Transforms, class names and the model's small print are "
        "this entry's, even if path is given.",
    )
    labels: list[str] | None = Field(
        default=None,
        min_length=1,
        description="With path, if the model was trained for other classes: their names, in the "
        "order of its outputs; a detector's first is the background.",
    )
    state_dict_key: str | None = Field(
        default=None,
        description="With path: key of the state_dict in a checkpoint that holds more, as in "
        "model.",
    )
    column: str = Field(default="image", description="Input column: images.")
    options: TorchvisionOptions = Field(
        default=TorchvisionOptions(), description="Settings; empty: sensible ones."
    )
    runtime: RuntimeField = "eager"

    @property
    def can_use_gpu(self) -> bool:
        """Whether its runtime is for GPUs too."""
        return can_use_gpu(self.runtime)

    @property
    def preprocesses(self) -> bool:
        """Images are decoded, and resized for classifiers."""
        return True

    @property
    def takes_encoded_media(self) -> bool:
        """Its preprocessor decodes images."""
        return True

    @property
    def input_columns(self) -> list[str]:
        """The column that the model reads."""
        return [self.column]

    def refuse_types(self, schema: pa.Schema) -> None:
        """Images."""
        refuse_other_than_images(schema.field(self.column).type, self.column)

    @property
    def output_columns(self) -> tuple[str, ...]:
        """What is added to a row."""
        return output_names.OBJECTS if self.architecture.detects else output_names.LABELS

    @property
    def architecture(self) -> Architecture:
        """What torchvision knows of the model."""
        return Architecture.of(self.name, self.weights)

    def check(self) -> None:
        """See that torchvision knows the model and the weights, and a file that it is one.

        Raises:
            InvalidSpec: says what is wrong.
            Unreachable: the file's storage does not answer.
        """
        check_runtime(self.runtime)
        self.check_package()
        detects = self.architecture.detects
        if detects:
            refuse_runtime(self.runtime, "can compile classifiers, not detectors")
        for name in CLASSIFICATION if detects else DETECTION:
            value = getattr(self.options, name)
            if value is not None:
                field, what = f"model.options.{name}", "detector" if detects else "classifier"
                raise InvalidSpec.at(field, value, f"is not for {self.name}, a {what}")
        if self.path:
            self.check_file()
            return
        for name in ("labels", "state_dict_key"):
            value = getattr(self, name)
            if value is not None:
                problem = "needs a file of weights: set model.path, or leave it out"
                raise InvalidSpec.at(f"model.{name}", value, problem)
        self.architecture.check_download()

    def check_package(self) -> None:
        """See that torchvision can be imported.

        Raises:
            InvalidSpec: it is not installed, or is not the build for this torch.
        """
        require("model.kind", self.kind, "torchvision", "torchvision")
        try:
            import torchvision  # noqa: F401
        except (ImportError, RuntimeError) as error:
            problem = (
                f"needs torchvision, which cannot be imported ({error}): install the build for "
                "this torch, as listed on pytorch.org"
            )
            raise InvalidSpec.at("model.kind", self.kind, problem) from error

    def check_file(self) -> None:
        """See that a file holds weights, without loading them.

        Raises:
            InvalidSpec: it holds something else.
            Unreachable: its storage does not answer.
        """
        super().check()
        look = partial(torch_file.checked_content, key=self.state_dict_key)
        content = self.found_in_file(look, "give the one file in it that contains the weights")
        if content in torch_file.PROGRAMS:
            problem = f"contains a whole model ({content}): set model.kind to torch"
            raise InvalidSpec.at("model.path", self.path, problem)

    @property
    def weights_bytes(self) -> int | None:
        """Of a file; torchvision's own are not at hand."""
        return super().weights_bytes if self.path else None

    @property
    def prefers_threads(self) -> bool:
        """Unless it is small."""
        return is_worth_threads(self.weights_bytes)

    def fingerprint(self) -> str:
        """The entry, and the hash of the file; torchvision's own files have it in their name."""
        architecture = self.architecture
        content = super().fingerprint() if self.path else architecture.file_name
        return f"{architecture.entry.name} {content}"

    def pinned(self, fingerprint: str) -> Self:
        """The same model with the entry that `fingerprint` names, whatever DEFAULT says later."""
        return self.model_copy(update={"weights": fingerprint.partition(" ")[0]})

    def preprocessor(self, num_threads: int = 1) -> Function:
        """Decoding, and resizing for classifiers."""
        from tasks.kinds.models.vision import presets

        if self.architecture.detects:
            return presets.images_function(self.column, num_threads)
        return presets.crops_function(self.architecture.transforms, self.column, num_threads)

    def predictor(self, placement: Placement) -> Function:
        """The model, loaded."""
        from tasks.kinds.models.vision import presets

        keep_float32_whole(placement)
        architecture, options = self.architecture, self.options
        classes = self.labels or architecture.classes
        model = self.built(architecture, classes)
        if architecture.detects:
            choice = Choice.by(classes, options.threshold, options.max_detections)
            return presets.detector(model, choice, placement)
        preset = architecture.transforms
        return presets.classifier(
            model, preset, classes, options.top_k or 1, placement, self.runtime
        )

    def built(self, architecture: Architecture, classes: list[str]) -> Any:
        """The model on the CPU.

        Raises:
            InvalidSpec: the file's weights do not fit.
        """
        try:
            return architecture.built(self.state_dict(architecture), classes)
        except RuntimeError as error:
            if is_of_the_machine(error):
                raise
            lines = [line.strip() for line in str(error).splitlines()]
            problem = (
                f"does not fit {self.name} with {len(classes)} classes; if it was trained for "
                f"others, list them in model.labels. {' '.join(lines[1:3])}"
            )
            raise InvalidSpec.at("model.path", self.path, problem) from error

    def state_dict(self, architecture: Architecture) -> Mapping[str, Any]:
        """The weights, from the file or the server."""
        path = self.local() if self.path else architecture.downloaded()
        with path.open("rb") as file:
            content = torch_file.content_of(file)
        return torch_weights.without_wrappers(
            torch_weights.read(path, content, self.state_dict_key)
        )
