"""PyTorch models publish what the module gives when it is called with the same rows."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.testing import RunSpec
from tests.guides.scans import scans
from tests.kinds.digits import digits, digits_module, softmax, unseen

FEATURES = ["age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6"]
SEEN = 300


def patients() -> tuple[np.ndarray, np.ndarray]:
    """Measurements, and how the illness went on."""
    from sklearn.datasets import load_diabetes

    measured, progression = load_diabetes(return_X_y=True)
    return measured.astype(np.float32), progression


def trained_module() -> Any:
    """The best straight line through the patients that it has seen."""
    import torch

    from tests.guides.user_code.diabetes import Progression

    measured, progression = patients()
    seen = np.column_stack([measured[:SEEN], np.ones(SEEN)])
    *weights, bias = np.linalg.lstsq(seen, progression[:SEEN], rcond=None)[0].tolist()
    module = Progression(len(FEATURES))
    tensors = {"linear.weight": torch.tensor([weights]), "linear.bias": torch.tensor([bias])}
    module.load_state_dict(tensors)
    return module.eval()


@pytest.mark.prefect
def test_patients(run_spec: RunSpec, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save_file

    module = trained_module()
    save_file(module.state_dict(), tmp_path / "diabetes.safetensors")
    measured, progression = patients()
    rows: list[dict[str, Any]] = [
        {"patient": at, **dict(zip(FEATURES, each.tolist(), strict=True))}
        for at, each in enumerate(measured[SEEN:])
    ]
    rows[5]["bmi"] = None
    done = run_spec(
        "deployments/specs/torch-tabular.yaml",
        f"model.path={tmp_path / 'diabetes.safetensors'}",
        f"environment.working_dir={Path(__file__).parent / 'user_code'}",
        rows=rows,
    )

    kept = [at for at in range(len(rows)) if at != 5]
    with torch.inference_mode():
        direct = module(torch.from_numpy(measured[SEEN:][kept]))[:, 0].numpy()
    assert done.table.column_names == ["patient", "prediction"]
    assert done.table["patient"].to_pylist() == kept
    np.testing.assert_allclose(done.table["prediction"], direct, rtol=1e-5)
    error = np.abs(direct - progression[SEEN:][kept]).mean()
    assert error < 0.8 * np.abs(progression[SEEN:] - progression[:SEEN].mean()).mean()
    (aside,) = done.set_aside
    assert aside["error_message"].startswith("column 'bmi' is empty in this row")


def save_exported(module: Any, file: Path) -> None:
    """The program that PyTorch exports of a module, for any number of rows."""
    import torch

    shapes = ({0: torch.export.Dim("rows", min=1)},)
    program = torch.export.export(module, (torch.zeros(2, 64),), dynamic_shapes=shapes)
    torch.export.save(program, file)


def save_script(module: Any, file: Path) -> None:
    """The same as TorchScript, which PyTorch itself warns of."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.script(module).save(file)


@pytest.mark.prefect
@pytest.mark.parametrize(
    ("save", "name"), [(save_exported, "digits.pt2"), (save_script, "digits.pt")]
)
def test_scans(
    run_spec: RunSpec, tmp_path: Path, save: Callable[[Any, Path], None], name: str
) -> None:
    import torch

    module = digits_module()
    save(module, tmp_path / name)
    spec, path = "deployments/specs/torch-exported.yaml", f"model.path={tmp_path / name}"
    done = run_spec(spec, path, rows=scans())

    with torch.inference_mode():
        scores = softmax(module(torch.from_numpy(unseen())).numpy())
    best = np.argsort(-scores, axis=1, kind="stable")[:, :3]
    assert done.table.column_names == ["scan", "predicted_label", "predicted_score"]
    assert done.table["scan"].to_pylist() == [*range(len(scores))]
    labels = done.table["predicted_label"].to_pylist()
    assert labels == [[*map(str, each)] for each in best]
    published = np.asarray(done.table["predicted_score"].to_pylist())
    np.testing.assert_allclose(published, np.take_along_axis(scores, best, 1), atol=1e-5)
    shown = digits()[1][-len(best) :]
    assert np.mean([str(each) in three for each, three in zip(shown, labels, strict=True)]) > 0.95
