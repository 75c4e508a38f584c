"""The tree of a condition, in a form that is easy to compute part by part."""

import ast
import re
import unicodedata

from tasks.kinds.python_source import parsed_expression

IN_BACKTICKS = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?P<name>[^`]+)`""",
)
"""What stands in backticks outside of texts: a column's name."""
BACKTICKS = "put a column name that is not a plain word in backticks, such as `first name` == 'Ada'"
NO_EXPRESSION = "does not parse"
CONTRARY: dict[type[ast.cmpop], ast.cmpop] = {ast.In: ast.NotIn(), ast.NotIn: ast.In()}


def tree_of(text: str) -> ast.expr:
    """A condition's tree, simplified, in which `not` stands before comparisons and columns only.

    Raises:
        ValueError: it is no expression of Python's.
    """
    names: dict[str, str] = {}

    def word(found: re.Match[str]) -> str:
        """A name in backticks as one that Python has: no column's begins so."""
        if found["name"] is None:
            return found[0]
        stands_for = f"__{len(names)}".ljust(len(found[0]), "_")
        names[stands_for] = found["name"]
        return stands_for

    text = IN_BACKTICKS.sub(word, text.strip())
    try:
        tree = parsed_expression(text)
        return inwards(Simplified().visit(Named(text, names).visit(tree)))
    except SyntaxError as error:
        where = f"at character {error.offset}" if error.offset else "at its end"
        raise ValueError(f"{NO_EXPRESSION}: {error.msg} {where}") from error
    except (MemoryError, RecursionError) as error:  # the first is what Python's parser says of it
        raise ValueError("is nested too deeply") from error


class Named(ast.NodeTransformer):
    """Gives columns the names that they were written with."""

    def __init__(self, text: str, names: dict[str, str]) -> None:
        """Of a text.

        Args:
            text: the condition.
            names: by what stands for them in it.
        """
        self.text, self.names = text, names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Python writes some letters as others that look the same; a column has but one name."""
        written = ast.get_source_segment(self.text, node) or node.id
        is_same = unicodedata.normalize("NFKC", written) == node.id
        node.id = self.names.get(node.id, written if is_same else node.id)
        return node


class Simplified(ast.NodeTransformer):
    """Makes single comparisons of chains, and numbers of those with a minus before them."""

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        """-1 is a literal like 1."""
        self.generic_visit(node)
        match node:
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                return ast.Constant(-value)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """0 < x < 10 is 0 < x and x < 10."""
        self.generic_visit(node)
        ends = [node.left, *node.comparators]
        links: list[ast.expr] = [
            ast.Compare(left, [op], [right])
            for left, op, right in zip(ends, node.ops, ends[1:], strict=False)
        ]
        return ast.BoolOp(ast.And(), links) if len(links) > 1 else node


def inwards(node: ast.expr, is_denied: bool = False) -> ast.expr:
    """A condition or its contrary, with each `not` moved to where it can be no other way.

    An empty value is in no list, says Arrow; of `in` the contrary is `not in`, so that neither is
    true of an empty value, as deep as it may stand. What is true of the whole is thereby true or
    not of each part: an empty result counts as false in all of them.

    Args:
        node: the condition.
        is_denied: whether its contrary is meant.
    """
    match node:
        case ast.UnaryOp(op=ast.Not()):
            return inwards(node.operand, not is_denied)
        case ast.BoolOp():
            is_and = isinstance(node.op, ast.And) is not is_denied
            parts = [inwards(each, is_denied) for each in node.values]
            return ast.BoolOp(ast.And() if is_and else ast.Or(), parts)
        case ast.Compare(ops=[ast.In() | ast.NotIn() as op]) if is_denied:
            return ast.Compare(node.left, [CONTRARY[type(op)]], node.comparators)
    return ast.UnaryOp(ast.Not(), node) if is_denied else node
