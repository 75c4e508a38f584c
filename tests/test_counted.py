"""Messages count things as people do."""

import pytest

from tasks.counted import counted


@pytest.mark.parametrize(
    ("number", "told"),
    [(0, "0 GPUs"), (1, "1 GPU"), (1.0, "1 GPU"), (0.5, "0.5 GPUs"), (2_000_000, "2,000,000 GPUs")],
)
def test_one_is_no_plural(number: float, told: str) -> None:
    assert counted(number, "GPU") == told
