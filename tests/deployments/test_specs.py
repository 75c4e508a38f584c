"""Every spec that is shipped is one."""

import re
from pathlib import Path

import pytest

from tasks.spec_file import load_spec

ROOT = Path(__file__).parents[2]
SPECS = sorted((ROOT / "deployments" / "specs").glob("*.yaml"))
DEPLOYED = {"digits", "texts", "digit-vectors"}
"""Specs of the stack's own deployments, whose runs tests/deployments watches."""


@pytest.mark.parametrize("file", SPECS, ids=[each.stem for each in SPECS])
def test_a_shipped_spec_fits(file: Path) -> None:
    text = file.read_text()
    assert text.startswith("# "), "the first line says what the spec is for"
    assert load_spec(file).name in text


def test_the_readme_shows_every_spec_and_every_spec_that_it_shows_is_there() -> None:
    shown = set(re.findall(r"deployments/specs/([\w-]+)\.yaml", (ROOT / "README.md").read_text()))
    assert shown == {each.stem for each in SPECS} - DEPLOYED


@pytest.mark.parametrize("page", ["README.md", "docs/from-a-ray-data-script.md"])
def test_links_lead_somewhere(page: str) -> None:
    targets = re.findall(r"\]\((?!http)([^)#]+)\)", (ROOT / page).read_text())
    missing = [each for each in targets if not (ROOT / page).parent.joinpath(each).exists()]
    assert targets
    assert not missing
