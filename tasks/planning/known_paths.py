"""Sees in the plan whether the inputs' paths have the parts that steps make labels of."""

import pyarrow as pa

from tasks.counted import counted
from tasks.errors import InvalidSpec
from tasks.kinds.steps import LabelFromPathStep, RenameStep
from tasks.protocol.storage import FsspecStorage
from tasks.spec import BatchInferenceSpec


def refuse_no_part(
    spec: BatchInferenceSpec, storage: FsspecStorage, paths: pa.ChunkedArray
) -> None:
    """See that some input's path has each part that a label is made of.

    Where others have not, such as files beside the folders, their rows are set aside.

    Args:
        spec: says what is read, and by which steps.
        storage: where the inputs lie.
        paths: of those that are to be read, at least one.

    Raises:
        InvalidSpec: none has.
    """
    if not spec.source.one_row_per_file:  # else the column of paths is the rows' own
        return
    for at, step in enumerate(spec.steps):
        if step.own_code or isinstance(step, RenameStep):
            return  # the column of paths may be another one from here on
        if isinstance(step, LabelFromPathStep):
            urls = (storage.url_of(path.as_py()) for path in paths)
            if not any(step.is_among(step.parts(url)) for url in urls):
                first = storage.url_of(paths[0].as_py())
                parts = counted(len(step.parts(first)), "part")
                problem = (
                    f"is not a part of any input's path: {first} has {parts}, the last of them "
                )
                raise InvalidSpec.at(f"steps.{at}.level", step.level, f"{problem}-1")
