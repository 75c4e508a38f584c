"""Amounts that add up in decimals do so here."""

import pytest

from tasks.whole import whole


@pytest.mark.parametrize(
    ("amount", "wanted"),
    [(2.0, 2), (0.3 / 0.1, 3), (7 / 0.28, 25), (sum([0.1] * 10), 1), (2.999, 2), (0.5, 0)],
)
def test_a_little_less_in_binary_is_no_less(amount: float, wanted: int) -> None:
    assert whole(amount) == wanted
