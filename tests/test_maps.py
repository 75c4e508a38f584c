"""A folder's own text leads a newcomer to everything in it."""

import re
from pathlib import Path
from types import ModuleType

import pytest

import flows
import tasks
import tasks.ray_job


@pytest.mark.parametrize("package", [flows, tasks, tasks.ray_job], ids=lambda each: each.__name__)
def test_everything_is_on_the_map_once(package: ModuleType) -> None:
    folder = Path(package.__path__[0])
    files = [each.stem for each in folder.glob("*.py") if each.stem != "__init__"]
    folders = [each.parent.name for each in folder.glob("*/__init__.py")]
    named = re.findall(r"`(\w+)`", (package.__doc__ or "").partition("Where to look")[2])
    assert sorted(named) == sorted(files + folders)
