"""Parts of paths that steps make labels of are looked for before anything starts."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tasks.errors import InvalidSpec
from tasks.plan import make_plan
from tests.flows.conftest import spec_of

FILES = {"binary": ["0.bin", "cat/1.bin"], "text": ["0.txt"]}


@pytest.mark.parametrize(
    ("kind", "deeper", "steps", "refused"),
    [
        ("binary", 0, [], False),  # of one file in two, which is enough
        ("binary", 1, [], True),
        ("binary", 1, [{"kind": "python", "function": "own_paths:other"}], False),
        ("text", 1, [{"kind": "rename", "columns": {"text": "path"}}], False),
    ],
)
def test_a_level_that_no_path_has_is_refused_with_the_depth(
    tmp_path: Path, kind: str, deeper: int, steps: list[dict[str, Any]], refused: bool
) -> None:
    (tmp_path / "own_paths.py").write_text("def other(batch): return batch")
    for name in FILES[kind]:
        file = tmp_path / "in" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("a")
    count = len((tmp_path / "in/cat/1").parts) - 1
    label = {"kind": "label_from_path", "level": -count - deeper}
    spec = spec_of(
        tmp_path / "in",
        source={"kind": kind, "path": str(tmp_path / "in")},
        steps=[*steps, label],
        environment={"working_dir": str(tmp_path)},
        model={"kind": "python", "class": "own_paths:other"},
    )
    message = rf"^steps\.0\.level: -{count + 1} is not a part of any input's path: /.*/0\.bin has "
    match = rf"{message}{count - 1} parts, the last of them -1$"
    with pytest.raises(InvalidSpec, match=match) if refused else nullcontext():
        make_plan(spec, save=False)
