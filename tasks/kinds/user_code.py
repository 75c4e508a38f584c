"""Looks at user code by its import path `module:name` without importing it; makes and calls it."""

import ast
import inspect
import os
from collections.abc import Callable, Mapping
from functools import partial
from inspect import Signature
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pydantic import AfterValidator

from tasks.errors import InvalidSpec
from tasks.kinds import columns, user_modules, user_rows
from tasks.kinds.python_source import parsed
from tasks.kinds.secret_names import shown_at
from tasks.kinds.user_batches import TO_USER, BatchFormat, texts_in, untouched
from tasks.kinds.user_signatures import (
    Definition,
    definition_in,
    is_uncallable,
    misfit,
    names_in,
    outermost,
    signature_of,
    source_signature,
)
from tasks.protocol.batch import ROW

A_BATCH = (
    "the code gets a batch of rows, with each column holding the values of all of them; code for "
    "a single row, such as for Ray's map, must loop over them"
)


def as_in_json(given: Any) -> Any:
    """A value that is the same to code on a cluster, to which the spec travels as JSON.

    Raises:
        ValueError: it would be another there; names it.
    """
    if isinstance(given, dict):
        for name, each in given.items():
            if not isinstance(name, str):
                raise ValueError(f"the key {name!r} is not text: put it in quotes")
            as_in_json(each)
    elif isinstance(given, list):
        for each in given:
            as_in_json(each)
    elif not isinstance(given, str | int | float | bool | None):
        raise ValueError(f"{given} is of type {type(given).__name__}: write it as text, in quotes")
    return given


Init = Annotated[dict[str, Any], AfterValidator(as_in_json)]
"""Arguments of code of the user's."""


def check_use(field: str, reference: str, init: Mapping[str, Any]) -> Definition | None:
    """See that a class or function is there and can be used as `made` does, from its source alone.

    Returns:
        As `check_reference`.

    Raises:
        InvalidSpec: as `check_reference`; or it takes other arguments, or no batch.
    """
    definition = check_reference(field, reference)
    if definition is None:
        return None
    is_class = isinstance(definition, ast.ClassDef)
    if (signature := source_signature(definition)) is not None:
        refuse_other_arguments(field, reference, signature, init, is_class=is_class)
    if is_uncallable(definition):
        raise InvalidSpec.at(field, reference, uncallable(definition.name))
    return definition


def check_reference(field: str, reference: str) -> Definition | None:
    """See that a module defines a name, from its source alone.

    Returns:
        The class or function that it names, where its source says which that is.

    Raises:
        InvalidSpec: no such module, it does not parse, it does not define the name, or Ray would
            call it and not we.
    """
    file = user_modules.source_file(field, reference)
    name, *inner = reference.partition(":")[2].split(".")
    if file.suffix != ".py":
        return None
    try:
        tree = parsed(file.read_bytes(), str(file))
    except (SyntaxError, ValueError) as error:  # in whatever encoding it says
        raise InvalidSpec.at(field, reference, f"does not parse: {error}") from error
    names = {*names_in(tree)}
    if name not in names and "*" not in names:
        raise InvalidSpec.at(field, reference, f"is not there: {file.name} defines {sorted(names)}")
    refuse_bare_part(field, reference, file, tree)
    if is_remote(tree, name):
        problem = "has @ray.remote: remove it, since replicas and workers already run in Ray"
        raise InvalidSpec.at(field, reference, problem)
    return None if inner else definition_in(tree, name)


def refuse_bare_part(field: str, reference: str, file: Path, tree: ast.Module) -> None:
    """See that a module that imports from the package around it is named as a part of that.

    Raises:
        InvalidSpec: it is not, and could not be imported.
    """
    around = reference.partition(":")[0].count(".") + (file.name == "__init__.py")
    for node in tree.body:  # in a `try` it may have another way
        if isinstance(node, ast.ImportFrom) and node.level > around:
            problem = (
                f"is part of a package, because it has {ast.unparse(node)!r} in line "
                f"{node.lineno}: set environment.working_dir to the folder that contains the "
                f"package, and write the package here too: {file.parent.name}.{reference}"
            )
            raise InvalidSpec.at(field, reference, problem)


def is_remote(tree: ast.Module, name: str) -> bool:
    """Whether a module makes a class or function Ray's own, so that nobody else can call it."""
    return any(
        ast.unparse(decorator).startswith("ray.remote")
        for node in outermost(tree)
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name
        for decorator in node.decorator_list
    )


def made(field: str, reference: str, init: Mapping[str, Any]) -> Callable[[Any], Any]:
    """What is called with each batch; whatever loads a model runs here, once.

    A class is instantiated. A function that asks for nothing but `init` makes the callable. One
    that asks for a batch beside is the callable.

    Args:
        field: of the spec, that names it.
        reference: `module:name` of a class or function.
        init: arguments by name.

    Raises:
        InvalidSpec: it is not there, makes what cannot be called with a batch, or takes other
            arguments.
    """
    found = user_modules.load(field, reference)
    if not callable(found):
        problem = f"is {type(found).__name__}; it must be a class, or a function that takes a batch"
        raise InvalidSpec.at(field, reference, problem)
    signature, is_class = signature_of(found), inspect.isclass(found)
    refuse_other_arguments(field, reference, signature, init, is_class=is_class)
    if not is_class and misfit(signature, init) is not None:
        return partial(found, **init) if init else found
    try:
        instance = found(**init)
    except FileNotFoundError as error:
        if error.filename is not None and not Path(os.fsdecode(error.filename)).is_absolute():
            error.strerror = (
                f"{error.strerror} in {Path.cwd()}, where relative paths start here: write an "
                "absolute path"
            )
        raise
    name = type(instance).__name__
    if not callable(instance):
        raise InvalidSpec.at(field, reference, uncallable(name))
    if wrong := misfit(signature_of(instance), {}, "batch"):
        problem = (
            f"makes an object of type {name}, which cannot be called with a batch alone: {wrong}"
        )
        raise InvalidSpec.at(field, reference, f"{problem}; pass the rest to __init__")
    return instance


def uncallable(name: str) -> str:
    """What is wrong with a class of which no object can be called."""
    problem = f"makes an object of type {name}, which cannot be called with a batch"
    return f"{problem}: give it a method __call__(self, batch)"


def refuse_other_arguments(
    field: str,
    reference: str,
    signature: Signature | None,
    init: Mapping[str, Any],
    *,
    is_class: bool,
) -> None:
    """See that a class takes the arguments, or a function alone or beside a batch.

    Raises:
        InvalidSpec: it does not.
    """
    wrong = misfit(signature, init)
    if wrong and not is_class:
        wrong = misfit(signature, init, "batch")
    if wrong:
        given = shown_at([], dict(init))
        where = f"{field.rpartition('.')[0]}.init: {given}"
        raise InvalidSpec(f"{where} does not fit {reference}: {wrong}")


def call(
    function: Callable[[Any], Any], rows: pa.Table, batch_format: BatchFormat, with_row_ids: bool
) -> pa.Table:
    """Call user code with rows in its format; what it returns, as a table.

    Columns that it leaves alone come back as they are in `rows`, with nothing of their type lost.

    Raises:
        UserCodeBroke: what it returned is no table of columns, or has columns of our names.
        KeyError: as the code raised it, with what there is to choose from.
        AttributeError: as the code raised it; of a column, with what that is.
    """
    wanted = columns.visible(rows)
    given = rows.select([ROW, *wanted] if with_row_ids else wanted)
    try:
        batch = TO_USER[batch_format](given)
        texts = texts_in(given, batch)
        returned = function(batch)
    except KeyError as error:
        if error.args[:1] and error.args[0] in given.column_names:
            raise
        has = f"the batch has the columns {', '.join(wanted)}"
        raise KeyError(f"{error}; {has}") from error
    except AttributeError as error:
        if not isinstance(error.obj, (np.ndarray, pd.Series, pa.ChunkedArray)):
            raise
        raise AttributeError(f"{error}: {A_BATCH}") from error
    same = untouched(given, texts, returned, batch_format)
    table = user_rows.from_user(returned, same)
    user_rows.refuse_reserved(name for name in table.column_names if name != ROW)
    return table
