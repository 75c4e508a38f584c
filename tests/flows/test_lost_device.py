"""A row that leads to a device-side assert costs its process the GPU, and no other row anything."""

from pathlib import Path
from typing import Any

import pytest

from flows.batch_inference import batch_inference
from tasks.errors import StageFailed
from tasks.published import rows_set_aside
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import published, spec_of

pytestmark = [pytest.mark.ray, pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]


def spec_with(numbers: Path, address: str, **init: Any) -> BatchInferenceSpec:
    return spec_of(
        numbers,
        model={"kind": "python", "class": "lost_devices:LosesItsDevice", "init": init},
        cluster={"kind": "local", "address": address},
        retries={"max_attempts": 1},
    )


def test_the_row_is_set_aside_as_on_a_cpu(numbers: Path, ray_address: str) -> None:
    spec = spec_with(numbers, ray_address)
    report = batch_inference(spec)
    assert (report["rows"]["written"], report["rows"]["rejected"]) == (999, 1)
    assert report["attempts"] == 1
    assert [row["id"] for row in published(spec)] == [*range(500), *range(501, 1000)]
    (aside,) = rows_set_aside(spec)
    assert (aside["row"], aside["stage"], aside["error_type"]) == (0, "infer", "ProcessDied")
    assert "AcceleratorError: CUDA error: device-side assert triggered" in aside["error_message"]


def test_a_device_that_fails_at_every_row_ends_the_attempt(numbers: Path, ray_address: str) -> None:
    spec = spec_with(numbers, ray_address, rows=500)
    with pytest.raises(StageFailed, match="AcceleratorError: CUDA error: device-side") as raised:
        batch_inference(spec)
    assert raised.value.stage == "infer"
    assert rows_set_aside(spec) == [], "they are no row's fault"
