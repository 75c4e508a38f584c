"""A few seconds of the fuzzer in each run of the tests; `python -m tests.fuzz` goes on."""

from pathlib import Path

import pytest

from tests.fuzz.__main__ import CASES, case

CASES_A_TEST = 120


@pytest.mark.parametrize("what", CASES)
def test_what_is_nearly_right_is_read_or_refused(what: str, tmp_path: Path) -> None:
    said = {number: case(what, 0, number, tmp_path) for number in range(CASES_A_TEST)}
    assert {number: each for number, each in said.items() if each} == {}
