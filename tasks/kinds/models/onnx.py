"""ONNX models, through onnxruntime."""

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import ConfigDict, Field

from tasks.errors import InvalidSpec
from tasks.kinds.extras import require
from tasks.kinds.models.model import FILE_SAYS, Placement, refuse_dtype
from tasks.kinds.models.tensors import onnx_file, onnx_session
from tasks.kinds.models.tensors.model import Loaded, TensorModel

ENDING = ".onnx"


class OnnxModel(TensorModel):
    """An ONNX model: one .onnx file, or a folder with it and the files that hold its weights.

    It runs on CUDA if the replica has a GPU, otherwise on the CPU. Values are cast to what the
    model takes; a model exported for a fixed number of rows gets that many, with the last batch
    filled up.
    """

    model_config = ConfigDict(title="ONNX")
    uses_threads: ClassVar[bool] = True
    own_precision: ClassVar[str | None] = (
        f"{FILE_SAYS}; convert it, for example with onnxconverter-common"
    )
    kind: Literal["onnx"] = "onnx"
    file: str | None = Field(
        default=None,
        description="In a folder with several models: the one to run, as in onnx/model.onnx.",
    )

    def check(self) -> None:
        """See that onnxruntime and the model's file are there, and the file is whole.

        Raises:
            InvalidSpec: says what is missing, or that the file is no ONNX model.
            Unreachable: the storage does not answer.
        """
        require("model.kind", self.kind, "onnxruntime", "onnx")
        super().check()
        self.found_at(self.files()[self.file_name()].path, onnx_file.check_file)

    def file_name(self) -> str:
        """The model's file among those at the path.

        Raises:
            InvalidSpec: there is none, or it cannot be told which.
        """
        found = [name for name in self.files() if name.endswith(ENDING)]
        if self.file is not None and self.file not in found:
            raise InvalidSpec.at("model.file", self.file, f"is not among {found}")
        if self.file is not None or len(found) == 1:
            return self.file or found[0]
        problem = f"contains {', '.join(found)}: set one of them in model.file"
        if not found:
            problem = f"has no file ending in {ENDING}: export the model, or correct the path"
        raise InvalidSpec.at("model.path", self.path, problem)

    def local_file(self) -> tuple[Path, bool]:
        """The model's file on this node, and whether it is all there is."""
        found = self.local()
        return (found / self.file_name(), False) if found.is_dir() else (found, True)

    def loaded(self, placement: Placement) -> Loaded:
        """A session on the device."""
        refuse_dtype(placement.dtype, self.own_precision)
        session = onnx_session.opened(*self.local_file(), placement)
        outputs = onnx_session.outputs_of(session, self.outputs)
        inputs = onnx_session.inputs_of(session, self.path)
        return Loaded(onnx_session.running(session, outputs), inputs)
