"""What the guides say of GPUs, batch size, memory and heavy preprocessing, from specs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from flows.testing import FinishedRun, RunSpec
from tasks.kinds.images import decode_image
from tasks.kinds.sources import ImagesSource
from tests.guides.pictures import save_pictures
from tests.guides.user_code.cleaning import SECONDS, stretched
from tests.guides.user_code.films import Rating
from tests.kinds import tiny_models

CODE = Path(__file__).parent / "user_code"
TOLERANCE = 0.02
"""Of a score: one grey level in some pixels moves it a little."""


@pytest.fixture(scope="module")
def vit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vit")
    tiny_models.save_vit(folder)
    return folder


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_pictures(tmp_path_factory.mktemp("pictures"), each=16, seed=0)


def expected(folder: Path, images: list[np.ndarray]) -> list[float]:
    """The best score of each image, one at a time."""
    import torch
    from transformers import AutoImageProcessor, AutoModelForImageClassification

    processor = AutoImageProcessor.from_pretrained(folder)
    model = AutoModelForImageClassification.from_pretrained(folder)
    with torch.inference_mode():
        return [
            float(
                model(**processor(Image.fromarray(each), return_tensors="pt"))
                .logits.softmax(-1)
                .max()
            )
            for each in images
        ]


def test_a_batch_that_the_gpu_has_no_memory_for_is_halved(
    run_spec: RunSpec, vit: Path, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torch's own error, raised by a model on a CPU: a GPU is not at hand."""
    import torch
    from transformers import ViTForImageClassification

    forward, sizes = ViTForImageClassification.forward, []

    def with_room_for_ten(self: Any, pixel_values: Any, **rest: Any) -> Any:
        sizes.append(len(pixel_values))
        if len(pixel_values) > 10:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return forward(self, pixel_values=pixel_values, **rest)

    monkeypatch.setattr(ViTForImageClassification, "forward", with_room_for_ten)
    done = run_spec(
        "deployments/specs/gpu-batches.yaml",
        f"source.path={pictures}",
        f"model.name_or_path={vit}",
        "resources.dtype=float32",  # half precision is for GPUs
    )
    assert max(sizes) == 48
    assert sizes[-1] <= 8
    assert [each["halvings"] for each in done.report["batch_halvings"]] == [4, 5, 6]
    check(done, vit, [decode_image(Path(row["path"]).read_bytes()) for row in done.rows])


@pytest.mark.ray
def test_preprocessing_runs_beside_the_model(run_spec: RunSpec, vit: Path, pictures: Path) -> None:
    done = run_spec(
        "deployments/specs/expensive-preprocessing.yaml",
        f"source.path={pictures}",
        f"model.name_or_path={vit}",
        f"environment.working_dir={CODE}",
        f"steps=[{{kind: python, function: 'cleaning:CleanBesideTheModel', "
        f"init: {{folder: '{run_spec.folder}'}}}}]",
        "stages.read.rows_per_batch=4",
        ray=True,
    )
    clean = [stretched(decode_image(Path(row["path"]).read_bytes())) for row in done.rows]
    check(done, vit, clean)
    run = Path(f"{done.spec.sink.path}.state/runs/{done.report['run_id']}")
    stages = json.loads((run / "attempts/1/progress.json").read_text())["stages"]
    preprocess = stages["preprocess"]
    assert stages["infer"]["started"] < preprocess["updated"], "the model did not wait for all"
    assert preprocess["seconds"] > 12 * SECONDS
    assert done.report["bottleneck"]["reason"]
    spent = done.report["stages"]
    assert spent["preprocess"]["workers"] == 1
    assert spent["preprocess"]["computing"] < spent["preprocess"]["seconds"], "it mostly sleeps"
    assert len(spent["infer"]["replicas"]) == 1


@pytest.mark.prefect
def test_the_next_model_takes_the_pictures_that_the_first_one_kept(
    run_spec: RunSpec, vit: Path, pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, other = "deployments/specs/two-models.yaml", tmp_path / "other"
    tiny_models.save_vit(other, width=128)
    given = (
        f"source.path={pictures}",
        f"environment.working_dir={CODE}",
        f"stages.preprocess.path={tmp_path / 'kept'}",
        "stages.read.rows_per_batch=24",
    )
    first = run_spec(spec, *given, f"model.name_or_path={vit}")
    clean = [stretched(decode_image(Path(row["path"]).read_bytes())) for row in first.rows]
    check(first, vit, clean)
    kept = {*(tmp_path / "kept").rglob("*.batch")}
    assert kept
    monkeypatch.delattr(ImagesSource, "read")  # and nothing is prepared that is not read
    second = run_spec(spec, *given, f"model.name_or_path={other}", "name=by-the-other")
    check(second, other, clean)
    assert (first.report["attempts"], second.report["attempts"]) == (2, 1), "one job and no other"
    assert {*(tmp_path / "kept").rglob("*.batch")} == kept
    assert [row["path"] for row in second.rows] == [row["path"] for row in first.rows]
    one, other_one = (np.array(done.table["predicted_score"]) for done in (first, second))
    assert np.abs(one - other_one).max() > TOLERANCE, "they are two models"


@pytest.mark.prefect
@pytest.mark.ray
def test_each_replica_of_a_large_model_gets_its_memory(run_spec: RunSpec, tmp_path: Path) -> None:
    """Two of them: neither predicts before the other one does."""
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(0)
    model = Rating(users=6, films=8, width=4).eval()
    save_file(model.state_dict(), tmp_path / "ratings.safetensors")
    (tmp_path / "log").mkdir()
    user, film = torch.arange(6).repeat_interleave(8), torch.arange(8).repeat(6)
    done = run_spec(
        "deployments/specs/large-model.yaml",
        f"model.path={tmp_path / 'ratings.safetensors'}",
        f"model.init={{users: 6, films: 8, width: 4, log: '{tmp_path / 'log'}', replicas: 2}}",
        f"environment.working_dir={CODE}",
        "stages.read.rows_per_batch=8",
        *("resources.min_replicas=2", "resources.max_replicas=2", "resources.memory_gb=0.25"),
        rows=[{"user": u, "film": f} for u, f in zip(user.tolist(), film.tolist(), strict=True)],
        ray=True,
    )
    assert [float(each.read_text()) for each in (tmp_path / "log").iterdir()] == [0.25, 0.25]
    assert len(done.report["stages"]["infer"]["replicas"]) == 2
    with torch.inference_mode():
        direct = model(user, film).numpy()
    made = done.table.sort_by([("user", "ascending"), ("film", "ascending")])
    assert made["user"].to_pylist() == user.tolist()
    np.testing.assert_allclose(made["prediction"], direct, rtol=1e-6)


def check(done: FinishedRun, folder: Path, images: list[np.ndarray]) -> None:
    """Compare scores with the model's own."""
    assert len(done.rows) == len(images) == 48
    scores = [row["predicted_score"] for row in done.rows]
    np.testing.assert_allclose(scores, expected(folder, images), atol=TOLERANCE)
