"""How user code wants to be called: as it is there, or from its source alone."""

import ast
import inspect
from collections.abc import Iterator, Mapping
from inspect import Parameter, Signature
from typing import Any

Definition = ast.ClassDef | ast.FunctionDef


def outermost(node: ast.AST) -> Iterator[ast.AST]:
    """What a module or class is made of, but for the insides of functions and classes in it."""
    for each in ast.iter_child_nodes(node):
        yield each
        if not isinstance(each, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from outermost(each)


def names_in(node: ast.AST) -> list[str]:
    """Names that a module or class defines or imports, also inside `if` and `try`."""
    names: list[str] = []
    for each in outermost(node):
        match each:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                names.append(each.name)
            case ast.Name(ctx=ast.Store()):
                names.append(each.id)
            case ast.Import() | ast.ImportFrom():
                names += [(alias.asname or alias.name).split(".")[0] for alias in each.names]
    return names


def definition_in(node: ast.AST, name: str) -> Definition | None:
    """The only class or function of a name; None where another may be what the name means."""
    found = [
        each
        for each in outermost(node)
        if isinstance(each, (ast.ClassDef, ast.FunctionDef)) and each.name == name
    ]
    return found[0] if found and names_in(node).count(name) == 1 else None


def source_signature(definition: Definition) -> Signature | None:
    """What a class or function asks for when it is called; None where its source does not say."""
    if definition.decorator_list:
        return None
    if isinstance(definition, ast.FunctionDef):
        return Signature(list(parameters(definition.args)))
    if definition.keywords or "__new__" in names_in(definition):
        return None  # a metaclass, for one
    if "__init__" not in names_in(definition):
        return None if definition.bases else Signature()
    return method_signature(definition, "__init__")


def method_signature(definition: ast.ClassDef, name: str) -> Signature | None:
    """What a method asks for beside self; None where its class's source does not say."""
    own = definition_in(definition, name)
    if not isinstance(own, ast.FunctionDef) or own.decorator_list:
        return None
    return Signature([*parameters(own.args)][1:])


def is_uncallable(definition: Definition) -> bool:
    """Whether its source says for sure that no object of a class can be called."""
    if not isinstance(definition, ast.ClassDef):
        return False
    may_have_more = definition.bases or definition.keywords or definition.decorator_list
    return not may_have_more and {"__call__", "__new__"}.isdisjoint(names_in(definition))


def parameters(given: ast.arguments) -> Iterator[Parameter]:
    """Parameters of a function, of which it only matters whether they may be left out."""
    positional = [*given.posonlyargs, *given.args]
    first_default = len(positional) - len(given.defaults)
    for at, each in enumerate(positional):
        is_named = at >= len(given.posonlyargs)
        kind = Parameter.POSITIONAL_OR_KEYWORD if is_named else Parameter.POSITIONAL_ONLY
        yield Parameter(each.arg, kind, default=Parameter.empty if at < first_default else None)
    if given.vararg:
        yield Parameter(given.vararg.arg, Parameter.VAR_POSITIONAL)
    for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        left_out = Parameter.empty if default is None else None
        yield Parameter(each.arg, Parameter.KEYWORD_ONLY, default=left_out)
    if given.kwarg:
        yield Parameter(given.kwarg.arg, Parameter.VAR_KEYWORD)


def signature_of(found: Any) -> Signature | None:
    """What a class, function or object asks for; None: code in C that says nothing."""
    try:
        return inspect.signature(found)
    except ValueError:
        return None


def misfit(signature: Signature | None, init: Mapping[str, Any], *batch: Any) -> str | None:
    """What is wrong with a call; None: nothing; empty: nobody can tell."""
    if signature is None:
        return ""
    try:
        signature.bind(*batch, **init)
    except TypeError as error:
        return str(error)
    return None
