"""What errors say."""

import pytest

from tasks.errors import ErrorBudgetExceeded, InvalidSpec, StageFailed, UserCodeBroke


@pytest.mark.parametrize(
    "error",
    [
        ErrorBudgetExceeded("3 x ValueError in infer: cannot parse 'a\0b'"),
        StageFailed("cannot parse").locate("read", "in/a\0b.csv", 3),
        InvalidSpec("sink.path: a\0b"),
    ],
)
def test_no_error_holds_what_postgres_cannot_keep(error: Exception) -> None:
    """Prefect's server did not take the state: the flow hung, and its run was Running for ever."""
    assert "\0" not in str(error)
    assert "a\\x00b" in str(error)


def test_no_error_holds_half_of_a_character() -> None:
    """Prefect's client could not send the state, and the run was Running for ever."""
    assert str(UserCodeBroke("no such key: \udcff")).encode() == b"no such key: \\udcff"
