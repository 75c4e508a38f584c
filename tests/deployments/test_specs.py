"""Every spec that is shipped is one."""

import re
from pathlib import Path

import pytest

from tasks.spec_file import load_spec

ROOT = Path(__file__).parents[2]
SPECS = sorted((ROOT / "deployments" / "specs").glob("*.yaml"))
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("deployments/**/*.md")]
DEPLOYED = {"digits", "texts", "digit-vectors"}
"""Specs of the stack's own deployments, whose runs tests/deployments watches."""


@pytest.mark.parametrize("file", SPECS, ids=[each.stem for each in SPECS])
def test_a_shipped_spec_fits(file: Path) -> None:
    text = file.read_text()
    assert text.startswith("# "), "the first line says what the spec is for"
    assert load_spec(file).name in text


def test_the_guides_page_shows_every_spec_and_every_spec_that_it_shows_is_there() -> None:
    page = (ROOT / "docs/guides.md").read_text()
    shown = set(re.findall(r"deployments/specs/([\w-]+)\.yaml", page))
    assert shown == {each.stem for each in SPECS} - DEPLOYED


@pytest.mark.parametrize("page", PAGES, ids=[str(each.relative_to(ROOT)) for each in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    """To files that are there, and to headings that these have."""
    missing = []
    for target in re.findall(r"\]\((?!http)([^)]+)\)", page.read_text()):
        path, _, heading = target.partition("#")
        file = page.parent / path if path else page
        if not file.exists() or (heading and heading not in anchors(file)):
            missing.append(target)
    assert not missing


def anchors(page: Path) -> set[str]:
    """What links to a page's headings end with."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each).lower().replace(" ", "-") for each in headings}
