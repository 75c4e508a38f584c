"""Reads estimators from files; code in them runs only where somebody trusts it by name."""

import pickle
import zipfile
from pathlib import Path
from typing import Any

from tasks.errors import InvalidSpec
from tasks.kinds.models.estimators.code_within import refuse_unnamed

PICKLES = (".joblib", ".pkl", ".pickle")
BROKEN_PICKLE = (
    pickle.UnpicklingError,
    EOFError,
    ValueError,
    AttributeError,
    ImportError,
    LookupError,
    TypeError,
)
"""What unpickling raises of a file that is cut off, of no pickle, and of classes not there."""


def check_pickle(path: str, trusted: bool) -> None:
    """See that a pickle is trusted.

    Raises:
        InvalidSpec: it is not; says the two ways out.
    """
    if path.endswith(PICKLES) and not trusted:
        raise InvalidSpec.at(
            "model.path",
            path,
            "is a pickle, which may run any code when it is read: save the model again with "
            "skops.io.dump(model, 'model.skops'), or set model.trust_pickle: true if you know "
            "who wrote it",
        )


def check_types(file: Path, trusted: list[str]) -> None:
    """See that a skops file holds no other types than those trusted; none of them is imported.

    Raises:
        InvalidSpec: it does, or is no skops file; lists the types.
    """
    import skops.io

    try:
        unknown = set(skops.io.get_untrusted_types(file=file))
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        problem = f"cannot be read by skops: {error}; write it with skops.io.dump"
        raise InvalidSpec.at("model.path", str(file), problem) from error
    if lacking := sorted(unknown - set(trusted)):
        problem = (
            f"lacks types that the model uses: add {', '.join(lacking)}, if you know who wrote it"
        )
        raise InvalidSpec.at("model.trusted", trusted, problem)


def unpickled(file: Path) -> Any:
    """What a trusted pickle holds.

    Raises:
        InvalidSpec: it cannot be read.
    """
    import joblib
    import sklearn

    try:
        return joblib.load(file)
    except BROKEN_PICKLE as error:
        problem = (
            f"cannot be read with scikit-learn {sklearn.__version__}: {type(error).__name__}: "
            f"{error}. Check that the file is complete and was written with this version, that "
            "the packages of its classes are installed, and that your own modules are in "
            "environment.working_dir"
        )
        raise InvalidSpec.at("model.path", str(file), problem) from error


def load(file: Path, trusted: list[str], trust_pickle: bool) -> Any:
    """The estimator in a file.

    Raises:
        InvalidSpec: it is not trusted, cannot be read, is no estimator, or holds code of the
            user's own that the spec does not name.
    """
    check_pickle(str(file), trust_pickle)
    found = unpickled(file) if str(file).endswith(PICKLES) else unpacked(file, trusted)
    if not hasattr(found, "get_params"):
        problem = f"contains {type(found).__name__}, not a scikit-learn estimator"
        raise InvalidSpec.at("model.path", str(file), problem)
    refuse_unnamed(found, trusted)
    return found


def unpacked(file: Path, trusted: list[str]) -> Any:
    """What a skops file holds.

    Raises:
        InvalidSpec: it holds types that are not trusted, or is no skops file.
    """
    import skops.io

    check_types(file, trusted)
    return skops.io.load(file, trusted=trusted)
