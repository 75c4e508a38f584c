"""The folder's own text leads a newcomer to every file of it."""

import re
from pathlib import Path

import tasks.ray_job


def test_every_file_is_on_the_map_once() -> None:
    (folder,) = map(Path, tasks.ray_job.__path__)
    files = sorted(each.stem for each in folder.glob("*.py") if each.stem != "__init__")
    assert sorted(re.findall(r"`(\w+)`", tasks.ray_job.__doc__ or "")) == files
