"""A cell of the matrix; `python -m tests.chaos.matrix` runs all of them."""

from collections.abc import Iterator

import pytest

from tests.chaos.matrix.cell import Stand, run_cell, stand
from tests.chaos.session import Session

pytestmark = [pytest.mark.cluster, pytest.mark.ray, pytest.mark.prefect, pytest.mark.chaos]


@pytest.fixture(scope="module")
def shared(chaos_session: Session) -> Iterator[Stand]:
    with stand(chaos_session, seconds=6.0) as started:
        yield started


@pytest.mark.parametrize("fault", ["flow"])
def test_a_fault_while_the_model_is_at_work(shared: Stand, fault: str) -> None:
    result = run_cell(shared, fault, "infer", 1)
    print(result.line())
    assert result.is_good, result
