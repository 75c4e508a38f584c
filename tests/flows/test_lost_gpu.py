"""A row that leads to a device-side assert, on a GPU of this machine."""

from pathlib import Path

import pytest

from flows.batch_inference import batch_inference
from tasks.published import rows_set_aside
from tests.flows.conftest import published
from tests.flows.test_lost_device import around_500

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.ray,
    pytest.mark.prefect,
    pytest.mark.usefixtures("prefect_server", "short_ray_folder"),
]


def test_the_row_is_set_aside_and_no_other(tmp_path: Path) -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a GPU and a torch built for it")
    model = {"kind": "python", "class": "lost_devices:AssertsOnGpu"}
    spec = around_500(tmp_path, None, model=model, resources={"num_gpus": 1, "max_replicas": 1})
    report = batch_inference(spec)
    assert (report["rows"]["written"], report["rows"]["rejected"]) == (19, 1)
    assert report["attempts"] == 1
    assert [row["id"] for row in published(spec)] == [*range(490, 500), *range(501, 510)]
    assert {row["doubled"] / row["id"] for row in published(spec)} == {2.0}
    (aside,) = rows_set_aside(spec)
    assert (aside["row"], aside["stage"], aside["error_type"]) == (10, "infer", "ProcessDied")
    assert "device-side assert triggered" in aside["error_message"]
