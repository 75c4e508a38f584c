"""Finds the modules of user code, at first without importing them; imports them."""

import hashlib
import importlib
import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from tasks.errors import InvalidSpec
from tasks.kinds.imports_beside import INSTALLED, imported_from
from tasks.kinds.likest import did_you_mean

DIGESTS: dict[str, str] = {}
"""Of modules, as this process has last seen their source."""
IMPORTED: dict[str, str | None] = {}
"""Of modules, as this process had seen their source when it imported them."""


def put_first(folder: str) -> None:
    """Have modules looked for in a folder before all others, such as another spec's."""
    sys.path[:] = [folder, *(each for each in sys.path if each != folder)]


def source_file(field: str, reference: str) -> Path:
    """The file that defines a module, found without importing it; packages around it are imported.

    Raises:
        InvalidSpec: the reference is malformed, there is no such module or it has no file, or a
            package around it cannot be imported.
    """
    module, _, name = reference.partition(":")
    if not all(part.isidentifier() for part in [*module.split("."), *name.split(".")]):
        raise InvalidSpec.at(field, reference, f'must be "module:name"{meant(reference)}')
    if module == "__main__":
        problem = "is in a script or notebook, which no other process can import: put it in its "
        raise InvalidSpec.at(field, reference, problem + "own module")
    refuse_namesake(field, reference, module)
    spec = module_spec(field, reference)
    if spec is None or spec.origin is None:
        problem = (
            f"needs the module {module!r}, which is not on the Python path "
            "(environment.working_dir is added to "
            f"it){meant(reference) or did_you_mean(module, modules_first())}"
        )
        raise InvalidSpec.at(field, reference, problem)
    if not spec.has_location:
        raise InvalidSpec.at(field, reference, "is part of Python itself, not your code")
    return Path(spec.origin)


def modules_first() -> list[str]:
    """Names of the modules that lie where modules are looked for first."""
    return [file.stem for file in Path(sys.path[0] if sys.path else ".").glob("*.py")]


def meant(reference: str) -> str:
    """The way out where somebody has written the path of a file, or no colon."""
    path, colon, name = reference.partition(":")
    if not colon:
        path, _, name = reference.rpartition(".")
    module = path.removeprefix("./").removesuffix(".py").replace("/", ".")
    names = [*module.split("."), *name.split(".")]
    differs = f"{module}:{name}" != reference and all(each.isidentifier() for each in names)
    return f"; did you mean {module}:{name}?" if differs else ""


def module_spec(field: str, reference: str) -> ModuleSpec | None:
    """Where a module lies; None where there is none.

    Raises:
        InvalidSpec: a package around it cannot be imported.
    """
    module = reference.partition(":")[0]
    try:
        return importlib.util.find_spec(module)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            return None
        problem = f"is in a package that cannot be imported: {type(error).__name__}: {error}"
        raise InvalidSpec.at(field, reference, problem) from error


def is_own(name: str) -> bool:
    """Whether a dotted name is of a module that is found here, and neither Python's nor installed.

    What is installed has a version, and every node is to have it.
    """
    top, dot, _ = name.partition(".")
    if not dot or not top.isidentifier() or top in sys.stdlib_module_names:
        return False
    found = PathFinder.find_spec(top)
    places = [found.origin, *(found.submodule_search_locations or [])] if found else []
    return bool(places) and not any(INSTALLED & {*Path(each).parts} for each in places if each)


def refuse_namesake(
    field: str, reference: str, module: str, folders: list[str] | None = None
) -> None:
    """See that this process has imported no other module of a name, as for another spec.

    Args:
        field: names the reference.
        reference: whose code is to run.
        module: its own, or one that it imports.
        folders: where that is looked for; None: on the Python path.

    Raises:
        InvalidSpec: it has, and would run that one's code.
    """
    parts = module.split(".")
    for name in (".".join(parts[:count]) for count in range(1, len(parts) + 1)):
        if name not in sys.modules:
            return  # nor is anything within it
        found = PathFinder.find_spec(name, folders)
        held = getattr(sys.modules[name], "__file__", None)
        if held and found and found.origin and not is_same_file(held, found.origin):
            is_its_own = module == reference.partition(":")[0]
            problem = (
                f"{'' if is_its_own else f'imports {name}, which '}is in {found.origin}, but this "
                f"process has imported {held} under that name: rename the module, or start "
                "another process"
            )
            raise InvalidSpec.at(field, reference, problem)
        if found is None or found.submodule_search_locations is None:
            return
        folders = list(found.submodule_search_locations)


def is_same_file(one: str, other: str) -> bool:
    """Whether two paths are of one file."""
    return os.path.realpath(one) == os.path.realpath(other)


def load(field: str, reference: str) -> Any:
    """Import what a reference names.

    Raises:
        InvalidSpec: it is not there, or is there as it was before its source was changed.
    """
    refuse_namesakes_of_imports(field, reference)
    module, _, name = reference.partition(":")
    is_new, seen = module not in sys.modules, DIGESTS.get(module)
    found: Any = importlib.import_module(module)
    then = IMPORTED[module] = seen if is_new else IMPORTED.get(module) or seen
    if then != seen:
        problem = (
            "has changed since this process imported it, and the old code would run: start "
            "another process, or restart the notebook's kernel"
        )
        raise InvalidSpec.at(field, reference, problem)
    try:
        for part in name.split("."):
            found = getattr(found, part)
    except AttributeError as error:
        raise InvalidSpec.at(field, reference, f"is not there: {error}") from error
    return found


def digest(field: str, reference: str) -> str:
    """Digest of the module's source, of its package's, and of what lies beside and is imported."""
    _, files, imported = own_files(field, reference)
    content = hashlib.sha256()
    for path in [*files, *imported]:
        content.update(path.name.encode() + b"\0" + path.read_bytes())
    module = reference.partition(":")[0]
    DIGESTS[module] = content.hexdigest()[:16]
    return DIGESTS[module]


def own_files(field: str, reference: str) -> tuple[Path, list[Path], list[Path]]:
    """A module's source, or its package's, and what it imports of the same folder.

    Returns:
        The folder, the sources, and those of what they import.
    """
    file = source_file(field, reference)
    package = reference.partition(":")[0].partition(".")[0]
    spec = importlib.util.find_spec(package)
    # Of a package without __init__.py each folder of its name is a part, wherever on the path that
    # lies: in Ray's workers also one in the folder that a command was called from.
    parts = map(os.path.realpath, spec.submodule_search_locations or [] if spec else [])
    own = os.path.realpath(file)
    folders = [each for each in dict.fromkeys(parts) if own.startswith(f"{each}{os.sep}")]
    files = sorted(path for each in folders for path in Path(each).rglob("*.py")) or [file]
    beside = Path(folders[0]).parent if folders else file.parent
    return beside, files, sorted(imported_from(beside, files, package))


def refuse_namesakes_of_imports(field: str, reference: str) -> None:
    """See that what a module imports of its folder is no other spec's here, as each's `utils`.

    Only where it is to be imported: on a cluster it has a process of its own.

    Raises:
        InvalidSpec: it is, and would run that one's code.
    """
    beside, _, imported = own_files(field, reference)
    for path in filter(lambda each: each.is_relative_to(beside), imported):
        name = name_of(path.relative_to(beside))
        if name.partition(".")[0] not in sys.stdlib_module_names:  # Python may have its own first
            refuse_namesake(field, reference, name, [str(beside)])


def name_of(path: Path) -> str:
    """A module's name, by where it lies below a folder that modules are looked for in."""
    return ".".join((path.parent if path.name == "__init__.py" else path.with_suffix("")).parts)
