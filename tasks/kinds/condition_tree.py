"""The tree of a condition, in a form that is easy to compute part by part."""

import ast

CONTRARY: dict[type[ast.cmpop], ast.cmpop] = {ast.In: ast.NotIn(), ast.NotIn: ast.In()}


def tree_of(text: str) -> ast.expr:
    """A condition's tree, simplified, in which `not` stands before comparisons and columns only.

    Raises:
        ValueError: it is no expression of Python's.
    """
    try:
        return inwards(Simplified().visit(ast.parse(text.strip(), mode="eval").body))
    except SyntaxError as error:
        where = f"at character {error.offset}" if error.offset else "at its end"
        raise ValueError(f"does not parse: {error.msg} {where}") from error
    except (MemoryError, RecursionError) as error:  # the first is what Python's parser says of it
        raise ValueError("is nested too deeply") from error


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
