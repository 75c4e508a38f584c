"""PyTorch: a module of yours with weights, an exported program, or TorchScript."""

import ast
from collections.abc import Mapping
from inspect import Signature
from pathlib import Path
from typing import IO, Any, ClassVar, Literal

import numpy as np
from pydantic import ConfigDict, Field

from tasks.errors import InvalidSpec
from tasks.kinds import user_code
from tasks.kinds.models.exact_floats import keep_float32_whole
from tasks.kinds.models.model import FILE_SAYS, Placement, refuse_dtype
from tasks.kinds.models.runtimes.choice import (
    RuntimeField,
    can_use_gpu,
    check_runtime,
    refuse_runtime,
)
from tasks.kinds.models.runtimes.compilers import Call
from tasks.kinds.models.runtimes.running import run_on
from tasks.kinds.models.tensors import torch_file, torch_program, torch_running, torch_weights
from tasks.kinds.models.tensors.inputs import Input, row_limits, rows_in_batch
from tasks.kinds.models.tensors.model import Loaded, TensorModel, as_list
from tasks.kinds.user_signatures import method_signature, misfit, names_in, signature_of


class TorchModel(TensorModel):
    """A PyTorch model from one file, whose content says what it is.

    Weights (a state_dict, from torch.save or as safetensors) are loaded into the module that
    `class` names. An exported program (torch.export.save) or TorchScript contains its own graph.
    Pickled modules are refused: loading one can run any code. The precision is the file's unless
    resources.dtype names another.
    """

    model_config = ConfigDict(title="PyTorch", populate_by_name=True)
    uses_threads: ClassVar[bool] = True
    takes_texts: ClassVar[bool] = False
    slow_imports: ClassVar[tuple[str, ...]] = ("torch",)
    kind: Literal["torch"] = "torch"
    class_: str | None = Field(
        default=None,
        alias="class",
        description="For a file of weights: import path of their torch.nn.Module, or of a function "
        "that makes it, as in my_models:Net. An exported program or TorchScript file needs none: "
        "it runs its own graph, so take it only from those whose code you would run.",
    )
    init: user_code.Init = Field(default={}, description="Arguments of the class.")
    state_dict_key: str | None = Field(
        default=None,
        description="Key of the state_dict in a checkpoint that holds more, as in "
        "model_state_dict.",
    )
    integers: list[str] = Field(
        default=[],
        description="Input columns that a module or TorchScript gets as whole numbers, such as "
        "token ids or categories; all others are fractions. An exported program itself says what "
        "it takes.",
    )
    runtime: RuntimeField = "eager"

    @property
    def can_use_gpu(self) -> bool:
        """Whether its runtime is for GPUs too."""
        return can_use_gpu(self.runtime)

    def check(self) -> None:
        """See that the file holds what the other fields say, without running anything in it.

        Raises:
            InvalidSpec: says what does not fit.
            Unreachable: the storage does not answer.
        """
        check_runtime(self.runtime)
        if self.init and self.class_ is None:
            problem = "are arguments of model.class, which is not set: leave init out"
            raise InvalidSpec.at("model.init", [*self.init], problem)
        super().check()
        self.check_integers()
        if self.class_ is not None:
            definition = user_code.check_use("model.class", self.class_, self.init)
            if isinstance(definition, ast.ClassDef) and not comes_between(definition):
                self.refuse_other_inputs(method_signature(definition, "forward"))
        self.found_in_file(self.content_of)

    def check_integers(self) -> None:
        """See that whole numbers and fractions do not share a matrix.

        Raises:
            InvalidSpec: they do, or a column is not an input.
        """
        known = {*self.input_columns}
        for side in map(as_list, self.bindings.values()):
            if set(self.integers) & set(side) and not set(side) <= set(self.integers):
                known = set()
        if not set(self.integers) <= known:
            problem = f"must be among the input columns, {self.input_columns}, with all of "
            problem += "those that are joined into one input"
            raise InvalidSpec.at("model.integers", self.integers, problem)

    def refuse_other_inputs(self, forward: Signature | None) -> None:
        """See that a module's forward takes the inputs that there are.

        Raises:
            InvalidSpec: it does not.
        """
        wrong = misfit(forward, self.inputs) if self.inputs else misfit(forward, {}, "batch")
        if wrong:
            problem = f"is a single input, which does not fit {self.class_}.forward ({wrong}): "
            problem += "set the columns of each of its arguments in model.inputs"
            if self.inputs:
                takes = ", ".join(forward.parameters) if forward else ""
                problem = f"do not fit {self.class_}.forward, which takes {takes}: {wrong}"
            given = [*self.inputs] or self.columns
            raise InvalidSpec.at(f"model.{self.input_field}", given, problem)

    def content_of(self, file: IO[bytes]) -> torch_file.Content:
        """What the model's file holds.

        Raises:
            InvalidSpec: nothing that can be loaded, or not what the other fields say.
        """
        try:
            content = torch_file.checked_content(file, self.state_dict_key)
        except ValueError as error:
            raise InvalidSpec.at("model.path", self.path, str(error)) from error
        if content not in torch_file.PROGRAMS and self.class_ is None:
            problem = "contains only weights: set their module in model.class"
            raise InvalidSpec.at("model.path", self.path, problem)
        if content in torch_file.PROGRAMS and self.class_ is not None:
            problem = f"is set, but the file is a whole model ({content}): leave class out"
            raise InvalidSpec.at("model.class", self.class_, problem)
        if content not in torch_file.PICKLES and self.state_dict_key is not None:
            problem = f"is set, but the file is no checkpoint that holds more ({content}): "
            problem += "leave state_dict_key out"
            raise InvalidSpec.at("model.state_dict_key", self.state_dict_key, problem)
        if content == "TorchScript":
            refuse_runtime(
                self.runtime, "can compile exported programs and modules, not TorchScript"
            )
        return content

    @property
    def own_code(self) -> dict[str, list[str]]:
        """The module that weights alone belong to."""
        return {"model.class": [self.class_] if self.class_ else []}

    def loaded(self, placement: Placement) -> Loaded:
        """The model on its device."""
        keep_float32_whole(placement)
        path = self.local()
        with path.open("rb") as file:
            content = self.content_of(file)
        if content in torch_file.PROGRAMS:
            refuse_dtype(placement.dtype, f"{FILE_SAYS}; export the model in another")
        if content == "exported program":
            program = torch_program.exported(path, placement.device)
            call = self.on_runtime(program.module, program.call, placement, program.inputs)
            run = torch_running.running(call, placement, program.dtypes, self.outputs)
            return Loaded(run, program.inputs)
        if content == "TorchScript":
            return self.module_loaded(torch_program.torchscript(path, placement.device), placement)
        return self.module_loaded(self.filled_module(path, content, placement), placement)

    def filled_module(self, path: Path, content: torch_file.Content, placement: Placement) -> Any:
        """The module of the user's with its weights, on its device."""
        import torch

        weights = torch_weights.read(path, content, self.state_dict_key)
        module = torch_weights.build(str(self.class_), self.init)
        is_usual = type(module).__call__ is torch.nn.Module.__call__
        if is_usual and not module._forward_pre_hooks:
            self.refuse_other_inputs(signature_of(module.forward))
        torch_weights.fill(module, weights, str(self.class_), self.path)
        if placement.dtype != "auto":
            module = module.to(getattr(torch, placement.dtype))
        return module.to(placement.device).eval()

    def module_loaded(self, module: Any, placement: Placement) -> Loaded:
        """A module, which says nothing of its inputs."""
        import torch

        precision = torch_running.precision_of(module)
        fractions = Input(np.dtype(np.float64) if precision == torch.float64 else None)
        inputs = {
            name: Input(np.dtype(np.int64)) if {*as_list(side)} <= {*self.integers} else fractions
            for name, side in self.bindings.items()
        }
        dtypes = {
            name: torch.int64 if each.dtype == np.int64 else precision
            for name, each in inputs.items()
        }
        call = torch_running.by_position_or_name(module)
        call = self.naming_fields(self.on_runtime(module, call, placement, inputs))
        return Loaded(torch_running.running(call, placement, dtypes, self.outputs), inputs)

    def naming_fields(self, call: Call) -> Call:
        """A module's call, whose first error names the field that it is about."""
        fractions = [name for name in self.input_columns if name not in self.integers]
        has_worked = False

        def named(batch: Mapping[str, Any]) -> Any:
            nonlocal has_worked
            try:
                returned = call(batch)
            except (RuntimeError, IndexError) as error:
                if has_worked:  # then it is the rows' fault
                    raise
                self.refuse_other_width(error)
                said = torch_running.wants_integers(error)
                if said is None or not fractions:
                    torch_running.tell_shapes(error, batch)
                    raise
                problem = (
                    "lacks columns that the module takes as whole numbers, such as categories or "
                    f"tokens for an embedding: list there which of {fractions} are ({said})"
                )
                raise InvalidSpec.at("model.integers", self.integers, problem) from error
            has_worked = True
            return returned

        return named

    def refuse_other_width(self, error: Exception) -> None:
        """See that a module's error is not one over how many columns it is given.

        Rows of columns side by side are all as wide: none of them is to blame.

        Raises:
            InvalidSpec: it is.
        """
        said = torch_running.of_another_width(error)
        if said and all(len(as_list(side)) > 1 for side in self.bindings.values()):
            field = f"model.{self.input_field}"
            problem = f"give the module another number of values per row than it takes: {said}"
            raise InvalidSpec.at(field, self.input_columns, problem) from error

    def on_runtime(
        self, module: Any, call: Call, placement: Placement, inputs: Mapping[str, Input]
    ) -> Call:
        """The model as the runtime calls it."""

        def rows(batch: Mapping[str, Any]) -> int:
            return rows_in_batch(batch, placement, row_limits(inputs))

        return run_on(self.runtime, module, call, placement, rows)


def comes_between(definition: ast.ClassDef) -> bool:
    """Whether a module's class has inputs changed on their way to its `forward`."""
    names = {each.attr for each in ast.walk(definition) if isinstance(each, ast.Attribute)}
    return "__call__" in names_in(definition) or "register_forward_pre_hook" in names
