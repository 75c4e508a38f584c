"""Every spec that is shipped is one."""

from pathlib import Path

import pytest

from tasks.spec_file import load_spec

SPECS = sorted((Path(__file__).parents[2] / "deployments" / "specs").glob("*.yaml"))


@pytest.mark.parametrize("file", SPECS, ids=[each.stem for each in SPECS])
def test_a_shipped_spec_fits(file: Path) -> None:
    text = file.read_text()
    assert text.startswith("# "), "the first line says what the spec is for"
    assert load_spec(file).name in text
