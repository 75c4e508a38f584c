"""Compiled models say what eager says; where they do not, eager speaks, and the log says so."""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tasks.errors import InvalidSpec
from tasks.kinds.models import HuggingFaceModel, TorchModel, TorchvisionModel
from tasks.kinds.models.model import Placement
from tasks.kinds.models.runtimes import choice, odd_inputs, running
from tasks.kinds.models.runtimes.comparing import TOLERANCE, largest_difference
from tasks.kinds.models.runtimes.compilers import COMPILERS, Batch, Tensors, version_of
from tasks.kinds.models.runtimes.runtime_used import Runtime, RuntimeUsed
from tasks.kinds.models.torch_threads import torch_threads
from tests.kinds import tiny_models, torch_code
from tests.kinds.digits import digits_module, rows_of, unseen, values

DIGITS = "tests.kinds.torch_code:Digits"


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    with torch_threads(1):
        yield


class Clock:
    """Time that passes by the calls, each of a millisecond, and not by what else a machine does."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def seconds_of(self, call: Callable[[], Any]) -> float:
        begun = self.seconds
        call()
        return self.seconds - begun + 0.001


CLOCK, SECONDS_OF = Clock(), running.seconds_of


@pytest.fixture(autouse=True)
def own_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "seconds_of", CLOCK.seconds_of)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch

    file = tmp_path_factory.mktemp("runtimes") / "weights.pt"
    torch.save(digits_module().state_dict(), file)
    return file


def kind(file: Path, runtime: str = "openvino", **given: Any) -> TorchModel:
    fields = {"path": str(file), "columns": ["pixels"], "runtime": runtime, "class": DIGITS}
    return TorchModel.model_validate({**fields, **given})


def predicted(model: TorchModel, rows: pa.Table) -> tuple[np.ndarray, list[RuntimeUsed]]:
    model.check()
    placement = Placement()
    made = values(model.predictor(placement)(rows))
    return made, placement.runtimes.told


def eager(file: Path, rows: pa.Table) -> np.ndarray:
    return predicted(kind(file, "eager"), rows)[0]


def noting(module: Any, calls: list[int]) -> Callable[[Tensors], Tensors]:
    """A compiled module that is the module itself, and notes its calls."""

    def run(arguments: Tensors) -> Tensors:
        calls.append(len(arguments))
        outputs: Tensors = module(*arguments)
        return outputs

    return run


@pytest.mark.parametrize("runtime", ["openvino", "onnx"])
def test_a_compiled_model_says_what_eager_says(weights: Path, runtime: str) -> None:
    rows = rows_of(pixels=unseen())
    assert len(rows) % 256  # the last batch is filled up
    made, told = predicted(kind(weights, runtime), rows)
    assert np.abs(made - eager(weights, rows)).max() < 1e-4
    (used,) = told
    assert (used.asked, used.used, used.precision) == (runtime, runtime, "float32")
    assert used.problem is None
    assert used.difference is not None
    assert used.difference < TOLERANCE


def test_a_compiled_model_predicts_and_not_the_eager_one(
    weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = rows_of(pixels=unseen())
    wanted = eager(weights, rows)
    calls: list[int] = []

    def compiler(module: Any, example: Tensors, num_threads: int) -> Any:
        assert [len(each) for each in example] == [256]
        assert num_threads == 1

        return noting(module, calls)

    monkeypatch.setitem(COMPILERS, "openvino", compiler)
    made, _ = predicted(kind(weights), rows)
    assert np.array_equal(made, wanted)
    # The comparison, the look at the clock, and the second batch.
    assert len(calls) == 1 + running.TIMED_CALLS + 1


def relay(module: Any, _example: Tensors, _num_threads: int) -> Any:
    """A compiler that changes nothing."""
    return lambda arguments: module(*arguments)


def wrong_at_one_place(module: Any, _example: Tensors, _num_threads: int) -> Any:
    def run(arguments: Tensors) -> Tensors:
        (outputs,) = module(*arguments)
        outputs = outputs.clone()
        outputs[3, 7] += 1e-3 * outputs.abs().max()
        return [outputs]

    return run


def infinite_at_one_place(module: Any, _example: Tensors, _num_threads: int) -> Any:
    def run(arguments: Tensors) -> Tensors:
        (outputs,) = module(*arguments)
        outputs = outputs.clone()
        outputs[3, 7] = float("inf")
        return [outputs]

    return run


def slow(module: Any, _example: Tensors, _num_threads: int) -> Any:
    def run(arguments: Tensors) -> Tensors:
        CLOCK.seconds += 0.1
        outputs: Tensors = module(*arguments)
        return outputs

    return run


def broken(_module: Any, _example: Tensors, _num_threads: int) -> Any:
    raise RuntimeError("no such operator: aten::strange\nand much more")


def uncapturable(_module: Any, _example: Tensors, _num_threads: int) -> Any:
    raise RuntimeError("CUDA error: operation not permitted when stream is capturing")


@pytest.mark.parametrize(
    ("compiler", "problem"),
    [
        (wrong_at_one_place, "differs from eager by 1.0e-03"),
        (infinite_at_one_place, "differs from eager in whole numbers, in shape, or in NaN"),
        (slow, "takes "),
        (broken, "cannot be compiled: RuntimeError: no such operator: aten::strange"),
        (uncapturable, "cannot be compiled: RuntimeError: CUDA error: operation not permitted"),
    ],
)
def test_eager_predicts_where_the_compiled_model_cannot_be_trusted(
    weights: Path, monkeypatch: pytest.MonkeyPatch, compiler: Any, problem: str
) -> None:
    monkeypatch.setitem(COMPILERS, "openvino", compiler)
    rows = rows_of(pixels=unseen())
    made, told = predicted(kind(weights), rows)
    assert np.array_equal(made, eager(weights, rows))
    (used,) = told
    assert (used.asked, used.used) == ("openvino", "eager")
    assert used.problem is not None
    assert used.problem.startswith(problem)
    assert "\n" not in used.problem
    json.dumps(asdict(used), allow_nan=False)  # reports are JSON to every reader


@pytest.mark.parametrize("times", [1, running.MOST_TIMED_CALLS - 1])
def test_a_compiled_model_that_is_disturbed_is_not_taken_for_slow(
    weights: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    pauses = iter([0.3] * (1 + times))  # where it is compared, and at looks at the clock

    def compiler(module: Any, _example: Tensors, _num_threads: int) -> Any:
        def run(arguments: Tensors) -> Tensors:
            CLOCK.seconds += next(pauses, 0.0)
            outputs: Tensors = module(*arguments)
            return outputs

        return run

    monkeypatch.setitem(COMPILERS, "openvino", compiler)
    _, (used,) = predicted(kind(weights), rows_of(pixels=unseen()))
    assert (used.used, used.problem) == ("openvino", None)


def test_the_time_of_a_call_is_all_that_it_takes() -> None:
    assert SECONDS_OF(lambda: time.sleep(0.05)) >= 0.05


def test_outputs_keep_their_names_and_their_shapes_are_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from tests.kinds.torch_code import Several

    module = Several("named")
    torch.save(module.state_dict(), tmp_path / "several.pt")
    fields: dict[str, Any] = {
        "columns": [],
        "inputs": {"x": "x", "category": "category"},
        "integers": ["category"],
        "class": "tests.kinds.torch_code:Several",
        "init": {"returns": "named"},
    }
    made = []

    def compiler(module: Any, _example: Tensors, _num_threads: int) -> Any:
        made.append(module)
        return lambda arguments: module(*arguments)

    monkeypatch.setitem(COMPILERS, "openvino", compiler)
    rows = rows_of(x=np.arange(6, dtype=np.float32).reshape(2, 3), category=[1, 4])
    wanted = kind(tmp_path / "several.pt", "eager", **fields).predictor(Placement())(rows)
    placement = Placement()
    predict = kind(tmp_path / "several.pt", **fields).predictor(placement)
    for _ in range(2):
        assert predict(rows).to_pylist() == wanted.to_pylist()
    assert len(made) == 1
    placement.limit.halve(tried=256)  # memory ran out: batches of another shape from here on
    assert predict(rows).to_pylist() == wanted.to_pylist()
    assert len(made) == 2
    assert placement.runtimes.warm_up_seconds > 0


def test_a_batch_of_no_numbers_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    def wrong(module: Any, _example: Tensors, _num_threads: int) -> Any:
        return lambda arguments: [each * 2 for each in module(*arguments)]

    monkeypatch.setitem(COMPILERS, "onnx", wrong)
    module, placement = torch.nn.ReLU(), Placement()
    module.register_buffer("precision", torch.zeros(1))

    def both(batch: Batch) -> Any:
        return module(batch["x"]), torch.zeros(len(batch["x"]), dtype=torch.int64)

    call = running.run_on("onnx", module, both, placement, lambda _: 2)
    with torch.inference_mode():
        assert call({"x": torch.full((2, 3), torch.nan)})[0].isnan().all()
        assert placement.runtimes.told == []
        for _ in range(2):
            assert call({"x": torch.ones(2, 3)})[0].equal(torch.ones(2, 3))
    (used,) = placement.runtimes.told
    assert (used.used, used.difference) == ("eager", 1.0)


@pytest.mark.parametrize("runtime", ["openvino", "onnx"])
def test_what_is_no_number_gets_what_eager_makes_of_it(tmp_path: Path, runtime: str) -> None:
    """Also in later batches than the one that is compared."""
    import torch

    torch.manual_seed(0)
    code = "tests.kinds.torch_code:Rectified"
    torch.save(torch_code.Rectified().state_dict(), tmp_path / "weights.pt")
    given = np.random.default_rng(0).normal(size=(600, 3)).astype(np.float32)
    given[300, 0], given[301, 1], given[302, 2] = np.nan, np.inf, -np.inf
    rows = rows_of(pixels=given)
    wanted, _ = predicted(kind(tmp_path / "weights.pt", "eager", **{"class": code}), rows)
    assert np.isnan(wanted[300]).all()
    found, told = predicted(kind(tmp_path / "weights.pt", runtime, **{"class": code}), rows)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    problems = [each.problem for each in told]
    assert problems == ([None, odd_inputs.LEFT_OUT] if runtime == "openvino" else [None])


@pytest.mark.parametrize("runtime", ["openvino", "onnx"])
def test_whole_numbers_beyond_32_bits_stay_what_they_are(tmp_path: Path, runtime: str) -> None:
    """Also in later batches than the one that is compared, and on the way to the outputs."""
    import torch

    torch.manual_seed(0)
    torch.save(torch_code.Hashed().state_dict(), tmp_path / "weights.pt")
    fields = {"class": "tests.kinds.torch_code:Hashed", "integers": ["pixels"]}
    given = np.concatenate([np.arange(300), 2**29 + np.arange(300), 2**40 + np.arange(300)])
    rows = rows_of(pixels=given)
    wanted, _ = predicted(kind(tmp_path / "weights.pt", "eager", **fields), rows)
    found, told = predicted(kind(tmp_path / "weights.pt", runtime, **fields), rows)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    used = [each.used for each in told]
    assert used == (["openvino", "eager"] if runtime == "openvino" else ["onnx"])


def test_whole_numbers_that_grow_on_are_not_compared_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch

    calls: list[int] = []

    def compiler(module: Any, _example: Tensors, _num_threads: int) -> Any:
        return noting(module, calls)

    monkeypatch.setitem(COMPILERS, "openvino", compiler)
    module, placement = torch.nn.Identity(), Placement()
    module.register_buffer("precision", torch.zeros(1))
    call = running.run_on("openvino", module, lambda b: module(b["x"]), placement, lambda _: 1)
    with torch.inference_mode():
        for number in [5, 3, 5, *range(6, 100), 3]:
            assert call({"x": torch.tensor([-number])}).tolist() == [-number]
        before = len(calls)
        for number in range(200, 210):
            assert call({"x": torch.tensor([[number, 0]])}).tolist() == [[number, 0]]
    problems = [each.problem for each in placement.runtimes.told]
    assert problems == [None, odd_inputs.GROWS_ON] * 2
    assert before == 1 + running.TIMED_CALLS + 2 + odd_inputs.MOST_COMPARISONS
    assert len(calls) == before + 1 + running.TIMED_CALLS + 1, "nor are those of another shape"


def test_further_shapes_run_in_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setitem(COMPILERS, "openvino", relay)
    module, placement = torch.nn.ReLU(), Placement()
    module.register_buffer("precision", torch.zeros(1))
    call = running.run_on("openvino", module, lambda b: module(b["x"]), placement, lambda _: 2)
    with torch.inference_mode():
        for width in range(1, running.MOST_SHAPES + 3):
            assert call({"x": torch.ones(1, width)}).shape == (1, width)
    problems = [each.problem for each in placement.runtimes.told]
    assert problems[: running.MOST_SHAPES] == [None] * running.MOST_SHAPES
    assert problems[-1] == "cannot be compiled: ValueError: batches have more than 4 shapes"


@pytest.mark.parametrize("task", ["image-classification", "image-feature-extraction"])
def test_images_of_hugging_face_models_are_compiled(
    tmp_path: Path, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(COMPILERS, "openvino", relay)
    tiny_models.save_vit(tmp_path)
    pictures = [tiny_models.png(each) for each in tiny_models.images(20)]
    rows = tiny_models.rows_of("image", pictures)

    def made(runtime: str) -> tuple[pa.Table, Placement]:
        given = {"task": task, "name_or_path": str(tmp_path), "runtime": runtime}
        model = HuggingFaceModel.model_validate(given)
        model.check()
        placement = Placement()
        return model.predictor(placement)(model.preprocessor()(rows)), placement

    (compiled, placement), (wanted, _) = made("openvino"), made("eager")
    (used,) = placement.runtimes.told
    assert used.used == "openvino"
    last = wanted.column_names[-1]
    found, expected = compiled[last].to_pylist(), wanted[last].to_pylist()
    assert np.allclose(found, expected, atol=1e-5)


def test_a_classifier_of_torchvision_is_compiled(
    torchvision: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(COMPILERS, "openvino", relay)
    from torchvision import models

    from tasks.kinds.models.vision import presets

    model = models.get_model("shufflenet_v2_x0_5", num_classes=3).eval()
    preset = models.get_model_weights("shufflenet_v2_x0_5").DEFAULT.transforms()
    pictures = [tiny_models.png(each) for each in tiny_models.images(3)]
    rows = presets.crops_function(preset, "image", 1)(tiny_models.rows_of("image", pictures))
    placement = Placement()
    names = ["a", "b", "c"]
    wanted = presets.classifier(model, preset, names, 3, Placement(), "eager")(rows)
    made = presets.classifier(model, preset, names, 3, placement, "openvino")(rows)
    assert [each.used for each in placement.runtimes.told] == ["openvino"]
    assert made["predicted_label"].to_pylist() == wanted["predicted_label"].to_pylist()
    scores, expected = (each["predicted_score"].to_pylist() for each in (made, wanted))
    assert np.allclose(scores, expected, atol=1e-5)


def test_differences_are_shares_of_the_largest_value() -> None:
    import torch

    nan, inf = float("nan"), float("inf")
    for expected, found, wanted in (
        ([100.0, 1.0], [100.0, 1.5], 0.005),
        ([0.0, 0.0], [0.0, 0.5], 0.5),
        ([nan, 2.0], [nan, 2.0], 0.0),
        ([nan, 2.0], [2.0, nan], inf),
        ([inf, 2.0], [-inf, 2.0], inf),
        ([inf, 2.0], [inf, 1.0], 0.5),
        ([1, 2], [1, 3], inf),
        ([True, False], [True, False], 0.0),
        ([1.0], [1.0, 1.0], inf),
    ):
        given = torch.tensor(expected), torch.tensor(found)
        assert largest_difference(given[:1], given[1:]) == pytest.approx(wanted)


REFUSED: Mapping[str, tuple[dict[str, Any], str]] = {
    "texts": ({"task": "feature-extraction"}, "can compile image-classification and"),
    "depths": ({"task": "depth-estimation"}, "can compile image-classification and"),
    "maps": ({"task": "image-segmentation"}, "can compile image-classification and"),
    "sounds": ({"task": "audio-classification"}, "can compile image-classification and"),
    "speech": ({"task": "automatic-speech-recognition"}, "can compile image-classification and"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_compiled_is_refused(case: str) -> None:
    given, message = REFUSED[case]
    model = HuggingFaceModel.model_validate({"name_or_path": "a/b", "runtime": "onnx", **given})
    with pytest.raises(InvalidSpec, match=message):
        model.check()


def test_detectors_are_refused(torchvision: None) -> None:
    model = TorchvisionModel(name="fasterrcnn_mobilenet_v3_large_320_fpn", runtime="openvino")
    with pytest.raises(InvalidSpec, match="can compile classifiers, not detectors"):
        model.check()


def test_a_missing_package_is_named(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(choice.PACKAGES, "openvino", (("no_such_package", "openvino"),))
    with pytest.raises(InvalidSpec, match=r"model.runtime: 'openvino' needs .*\[openvino\]"):
        kind(weights).check()
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(InvalidSpec, match=r"needs a C\+\+ compiler"):
        kind(weights, "compile").check()


def test_gpus_and_other_precisions_are_refused(weights: Path) -> None:
    gpu = Placement(device="cuda", dtype="bfloat16")
    for_gpus: tuple[Runtime, ...] = ("eager", "compile")
    for_cpus: tuple[Runtime, ...] = ("openvino", "onnx")
    for runtime in for_gpus:
        assert kind(weights, runtime).can_use_gpu
        choice.check_placement(runtime, gpu)
    for runtime in for_cpus:
        assert not kind(weights, runtime).can_use_gpu
        with pytest.raises(InvalidSpec, match="is for CPUs: use compile or eager, or set"):
            choice.check_placement(runtime, gpu)
    for runtime in ("compile", *for_cpus):
        with pytest.raises(InvalidSpec, match=r"resources.dtype: 'bfloat16' is not possible"):
            kind(weights, runtime).predictor(Placement(dtype="bfloat16"))


@pytest.mark.parametrize(
    ("precision", "difference", "used"),
    [
        ("float32", 5e-5, "compile"),
        ("float32", 1e-3, "eager"),
        ("float16", 1e-3, "compile"),
        ("float16", 1e-2, "eager"),
        ("bfloat16", 1e-2, "compile"),
        ("bfloat16", 1e-1, "eager"),
    ],
)
def test_on_gpus_halves_are_compared_as_halves(
    precision: str, difference: float, used: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tensors are on the CPU: what is there in place of a GPU is the placement's word."""
    import torch

    calls: list[int] = []

    def compiler(module: Any, _example: Tensors, _num_threads: int) -> Any:
        def run(arguments: Tensors) -> Tensors:
            calls.append(len(arguments))
            (outputs,) = module(*arguments)
            return [outputs.double() * (1 + difference)]

        return run

    monkeypatch.setitem(COMPILERS, "compile", compiler)
    module, placement = torch.nn.ReLU(), Placement(device="cuda")
    module.register_buffer("weights", torch.zeros(1, dtype=getattr(torch, precision)))
    call = running.run_on("compile", module, lambda b: module(b["x"]), placement, lambda _: 2)
    with torch.inference_mode():
        call({"x": torch.ones(1, 3, dtype=getattr(torch, precision))})
    (told,) = placement.runtimes.told
    assert (told.used, told.precision) == (used, precision)
    timed = running.TIMED_CALLS if used == "compile" else 0
    assert len(calls) == running.CALLS_ON_GPU + timed, "a graph is recorded before rows count"


def test_what_a_graph_writes_over_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tensor that says it is on a GPU is there in place of one."""
    import torch

    class OnGpu(torch.Tensor):
        device = torch.device("cuda")

    buffer, modes, given = torch.zeros(2), [], set[int]()

    def compiled(module: Any, *, mode: str | None, **_: Any) -> Any:
        modes.append(mode)

        def call(value: Any) -> Any:
            given.add(id(value))
            return [buffer.copy_(value)]

        return call

    monkeypatch.setattr(torch, "compile", compiled)
    run = COMPILERS["compile"](torch.nn.ReLU(), [torch.zeros(2).as_subclass(OnGpu)], 1)
    (first,), (second,) = run([torch.ones(2)]), run([torch.full((2,), 2.0)])
    assert (first.tolist(), second.tolist()) == ([1.0, 1.0], [2.0, 2.0])
    assert len(given) == 1, "of others it would be compiled anew, for how they lie in memory"
    COMPILERS["compile"](torch.nn.ReLU(), [torch.zeros(2)], 1)
    assert modes == ["reduce-overhead", None]


def test_batches_that_lie_otherwise_are_not_compiled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that is filled up lies row by row, whatever its images did."""
    import torch

    if shutil.which(os.environ.get("CXX", "g++")) is None:
        pytest.skip("needs a C++ compiler")
    # For one kernel they take longer to compile than they save.
    monkeypatch.setattr("torch._inductor.config.cpp_cache_precompile_headers", False)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    module, placement = torch.nn.Conv2d(3, 4, 3).eval(), Placement()
    call = running.run_on("compile", module, lambda b: module(b["x"]), placement, lambda _: 4)
    pictures = torch.rand(4, 3, 8, 8).to(memory_format=torch.channels_last)
    with torch.inference_mode():
        for rows in (4, 1, 4, 2):
            batch = pictures[:rows]
            torch.testing.assert_close(call({"x": batch}), module(batch))
    assert [each.used for each in placement.runtimes.told] == ["compile"]
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


@pytest.mark.parametrize("runtime", ["openvino", "onnx"])
def test_exported_programs_are_compiled(tmp_path: Path, runtime: str) -> None:
    import torch

    rows = torch.export.Dim("rows", min=1, max=1024)
    module = digits_module().eval()
    program = torch.export.export(module, (torch.rand(4, 64),), dynamic_shapes=({0: rows},))
    torch.export.save(program, tmp_path / "digits.pt2")
    given = {"path": str(tmp_path / "digits.pt2"), "columns": ["pixels"], "runtime": runtime}
    made, told = predicted(TorchModel.model_validate(given), rows_of(pixels=unseen()))
    (used,) = told
    assert (used.used, used.problem) == (runtime, None)
    wanted = predicted(
        TorchModel.model_validate({**given, "runtime": "eager"}), rows_of(pixels=unseen())
    )[0]
    assert np.abs(made - wanted).max() < 1e-4


def test_where_memory_runs_out_while_a_model_is_compiled_batches_are_halved(
    weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compiler(_module: Any, example: Tensors, _num_threads: int) -> Any:
        if len(example[0]) > 128:
            raise type("OutOfMemoryError", (RuntimeError,), {})("CUDA out of memory")
        return relay(_module, example, _num_threads)

    monkeypatch.setitem(COMPILERS, "openvino", compiler)
    placement, rows = Placement(), rows_of(pixels=unseen())
    predict = kind(weights).predictor(placement)
    with pytest.raises(RuntimeError, match="CUDA out of memory"):
        predict(rows)
    placement.limit.halve(tried=256)
    assert np.array_equal(values(predict(rows)), eager(weights, rows))
    assert [each.used for each in placement.runtimes.told] == ["openvino"]


def test_a_runtime_may_be_installed_by_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.metadata

    known = {"onnxruntime": ["onnxruntime-gpu"]}
    monkeypatch.setattr(importlib.metadata, "packages_distributions", lambda: known)
    monkeypatch.setattr(importlib.metadata, "version", {"onnxruntime-gpu": "1.2"}.__getitem__)
    assert version_of("onnx") == "1.2"
