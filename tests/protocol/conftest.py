"""What several tests of the protocol share."""

from collections.abc import Iterator

import pytest

from tasks.protocol.ids import MOST_RUNS


@pytest.fixture(scope="module", params=[MOST_RUNS, 1], ids=["runs", "packed"])
def either_encoding(request: pytest.FixtureRequest) -> Iterator[None]:
    """Sequences of ids as they are, and as they would be if there were many more of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tasks.protocol.ids.MOST_RUNS", request.param)
        yield
