"""Placeholders in paths: what is filled in, what is left alone, what is refused."""

from datetime import UTC, datetime
from string import printable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.kinds.placeholders import check_placeholders, fill, is_timed, literal

TIME = datetime(2026, 3, 5, 2, 7, tzinfo=UTC)


@pytest.mark.parametrize(
    ("path", "filled"),
    [
        ("s3://b/{scheduled:%Y-%m-%d}/", "s3://b/2026-03-05/"),
        (
            "/a/{scheduled:%Y}/{scheduled:%m/%d}/{scheduled:%H%M}*.csv",
            "/a/2026/03/05/0207*.csv",
        ),
        ("year={scheduled:%Y}/day={scheduled:%-d}", "year=2026/day=5"),
        ("week-{scheduled:%G-W%V}", "week-2026-W10"),
        ("{scheduled:%Y/%m/%d}/week-{scheduled:%V}", "2026/03/05/week-10"),
        ("{scheduled:%Y-W%W}", "2026-W09"),
        ("{{x}}/{scheduled:%d}", "{x}/05"),
        ("{{scheduled:%d}}", "{scheduled:%d}"),
        ("{scheduled:%d%%}", "05%"),
        # Without a placeholder a brace is a character of the name.
        ("/a/{b}/{{c}}/{date:%Y}", "/a/{b}/{{c}}/{date:%Y}"),
    ],
)
def test_filled_in(path: str, filled: str) -> None:
    assert fill(check_placeholders(path), TIME) == filled


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("{scheduled}", "has a brace outside"),
        ("{scheduled:}", "names no time"),
        ("{scheduled:today}", "names no time"),
        ("{scheduled:%Q}", "'%Q' is unknown"),
        ("{scheduled:%Y%}", "'%' is unknown"),
        ("{scheduled:%Y-%m-%d", "has a brace outside"),
        ("{scheduled:%Y}/{name}", "double the brace"),
        ("{scheduled:{%Y}}", "has a brace outside"),
        ("{scheduled_time:%Y}", "has a brace outside"),
        # The Mondays 2029-01-01 and 2029-12-31 would both be 2029-W01.
        ("{scheduled:%Y-W%V}", "around New Year it .* write %G"),
        ("{scheduled:%Y}/week={scheduled:%V}", "around New Year it .* write %G"),
        # 2026-01-03 and 2027-01-03 would both be 2026-01-03.
        ("{scheduled:%G-%m-%d}", "around New Year it .* write %Y"),
        # The Mondays 2025-12-29 and 2026-12-28 would both be 2026-52.
        ("{scheduled:%G-%W}", "around New Year it .* write %Y"),
        ("{scheduled:%G}/{scheduled:%U}", "around New Year it .* write %Y"),
    ],
)
def test_refused(path: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check_placeholders(path)


def test_only_a_placeholder_asks_for_a_time() -> None:
    assert is_timed("{scheduled:%Y}")
    assert not is_timed("{{scheduled:%Y}}")
    assert not is_timed("{date:%Y}")


@given(path=st.text(printable))
def test_a_path_without_a_placeholder_stays_as_it_is(path: str) -> None:
    if "{scheduled" not in path:
        assert fill(check_placeholders(path), TIME) == path


@given(path=st.lists(st.sampled_from(["{", "}", "{scheduled", "{scheduled:%Y}", "a"])).map("".join))
def test_a_literal_path_comes_out_as_it_was(path: str) -> None:
    assert fill(check_placeholders(literal(path)), TIME) == path
    assert not is_timed(literal(path))
