"""The guides' GPU inference from its spec, on a GPU of this machine."""

from pathlib import Path

import pytest

from flows.testing import RunSpec
from tasks.kinds.images import decode_image
from tests.guides.pictures import save_pictures
from tests.guides.test_resources import check
from tests.kinds import tiny_models


@pytest.mark.gpu
@pytest.mark.ray
@pytest.mark.usefixtures("short_ray_folder")
def test_photos(run_spec: RunSpec, tmp_path: Path) -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a GPU and a torch built for it")
    tiny_models.save_vit(tmp_path / "vit")
    done = run_spec(
        "deployments/specs/gpu-batches.yaml",
        f"source.path={save_pictures(tmp_path / 'pictures', each=16, seed=0)}",
        f"model.name_or_path={tmp_path / 'vit'}",
        "cluster={kind: local}",
        "resources.num_gpus=1",
        "resources.memory_gb=1",
    )
    images = [decode_image(Path(row["path"]).read_bytes()) for row in done.rows]
    check(done, tmp_path / "vit", images)
    ran = [(each["device"], each["precision"]) for each in done.report["runtimes"]]
    assert ran == [("cuda", "float16")]
