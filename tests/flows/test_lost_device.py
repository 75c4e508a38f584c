"""A row that leads to a device-side assert costs its process the GPU, and no other row anything."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.batch_inference import batch_inference
from tasks.errors import StageFailed
from tasks.published import rows_set_aside
from tasks.ray_job.lost_device import loss
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import published, spec_of

pytestmark = [pytest.mark.ray, pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]


def around_500(folder: Path, address: str | None, **changes: Any) -> BatchInferenceSpec:
    """A job on Ray over one file, whose rows 490 to 509 are two batches."""
    source = folder / "around"
    source.mkdir()
    ids = range(490, 510)
    table = pa.table({"id": ids, "x": [float(each) for each in ids]})
    pq.write_table(table, source / "0.parquet")
    return spec_of(
        source,
        cluster={"kind": "local", "address": address},
        stages={"read": {"rows_per_batch": 10, "max_workers": 1}, "write": {"max_workers": 1}},
        errors={"max_rejected_fraction": 0.1},
        **changes,
    )


def losing(folder: Path, address: str, **init: Any) -> BatchInferenceSpec:
    model = {"kind": "python", "class": "lost_devices:LosesItsDevice", "init": init}
    return around_500(folder, address, model=model)


def test_the_row_is_set_aside_as_on_a_cpu(tmp_path: Path, ray_address: str) -> None:
    spec = losing(tmp_path, ray_address)
    report = batch_inference(spec)
    assert (report["rows"]["written"], report["rows"]["rejected"]) == (19, 1)
    assert report["attempts"] == 1
    assert [row["id"] for row in published(spec)] == [*range(490, 500), *range(501, 510)]
    (aside,) = rows_set_aside(spec)
    assert (aside["row"], aside["stage"], aside["error_type"]) == (10, "infer", "ProcessDied")
    assert "AcceleratorError: CUDA error: device-side assert triggered" in aside["error_message"]


def test_a_device_that_fails_at_every_row_ends_the_attempt(
    tmp_path: Path, ray_address: str
) -> None:
    spec = losing(tmp_path, ray_address, rows=10)
    with pytest.raises(StageFailed, match="AcceleratorError: CUDA error: device-side") as raised:
        batch_inference(spec)
    assert raised.value.stage == "infer"
    assert "again and again" not in str(raised.value), "a second row does not have to show it"
    assert rows_set_aside(spec) == [], "they are no row's fault"


def test_what_torch_raises_is_known() -> None:
    """The model raises an error of that name, for torch takes each of its processes seconds."""
    import torch

    assert loss(torch.AcceleratorError("CUDA error: device-side assert triggered")) is not None
