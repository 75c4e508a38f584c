"""Sources are parsed whatever other threads of the process parse meanwhile."""

import ast
from typing import Any

import pytest

from tasks.kinds.python_source import TRIES, parsed, parsed_expression

MISMATCH = "AST constructor recursion depth mismatch (before=207, after=96)"


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """How often the parser is disturbed, as by a library's thread."""
    times: list[None] = []
    parse = ast.parse

    def disturbed(*args: Any, **options: Any) -> Any:
        if times:
            times.pop()
            raise SystemError(MISMATCH)
        return parse(*args, **options)

    monkeypatch.setattr(ast, "parse", disturbed)
    return times


def test_a_parser_that_was_disturbed_parses_again(left: list[None]) -> None:
    left += [None] * (TRIES - 1)
    assert isinstance(parsed("x = 1").body[0], ast.Assign)
    left += [None]
    assert isinstance(parsed_expression("a + 1"), ast.BinOp)


def test_one_that_always_is_says_so(left: list[None]) -> None:
    left += [None] * TRIES
    with pytest.raises(SystemError, match="recursion depth mismatch"):
        parsed("x = 1")


def test_what_is_no_source_is_told_at_once() -> None:
    with pytest.raises(SyntaxError):
        parsed("x =")
