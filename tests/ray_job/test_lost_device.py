"""Which errors leave a process without its device; there is none: they are raised by hand."""

from typing import Any

import pytest

from tasks.errors import StageFailed
from tasks.ray_job.lost_device import loss

ASSERTED = RuntimeError("CUDA error: device-side assert triggered")
STRANGE = RuntimeError("CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`")


def led_to(error: Exception, by: Exception) -> Exception:
    error.__cause__ = by
    return error


@pytest.mark.parametrize(
    "error",
    [
        ASSERTED,
        led_to(StageFailed("a stage's error"), ASSERTED),
        type("AcceleratorError", (RuntimeError,), {})("CUDA error: misaligned address"),
        type("RuntimeException", (Exception,), {})("CUDA failure 719: unspecified launch failure"),
        type("XGBoostError", (ValueError,), {})("cudaErrorIllegalAddress: illegal memory access"),
    ],
    ids=str,
)
def test_what_libraries_say_of_a_lost_device_is_known(error: Exception) -> None:
    assert loss(error) is not None


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a row about an illegal memory access"),
        RuntimeError("CUDA error: uncorrectable ECC error encountered"),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        STRANGE,
    ],
    ids=str,
)
def test_others_are_raised(error: Exception) -> None:
    assert loss(error) is None


@pytest.mark.parametrize(
    ("error", "answer", "lost"),
    [
        (STRANGE, ASSERTED, True),
        (RuntimeError("CUBLAS_STATUS_ALLOC_FAILED when calling"), ASSERTED, True),
        (STRANGE, RuntimeError("CUDA error: uncorrectable ECC error encountered"), False),
        (STRANGE, None, False),
        (ValueError("bad row"), ASSERTED, False),
    ],
)
def test_where_an_error_of_the_device_leaves_it_open_a_further_call_tells(
    error: Exception, answer: Exception | None, lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def synchronize() -> None:
        if answer:
            raise answer

    cuda: Any = pytest.importorskip("torch").cuda
    monkeypatch.setattr(cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(cuda, "synchronize", synchronize)
    assert loss(error) is (answer if lost else None)
