"""A browser, or the reason why there is none."""

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from tests.browser.chromium import NoChromiumError, find_chromium, open_page
from tests.whole_stack import as_operator


@pytest.fixture(scope="session", autouse=True)
def chromium() -> None:
    """Found out before anything is started; where BROWSER_TESTS is `required`, it must be there."""
    try:
        find_chromium()
    except NoChromiumError as error:
        if os.environ.get("BROWSER_TESTS") == "required":
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="module", autouse=True)
def operator(chromium: None) -> Iterator[None]:
    """Who may use the stack."""
    with as_operator():
        yield


@pytest.fixture
def page() -> Iterator[Page]:
    """A page of its own for each test."""
    with open_page() as opened:
        yield opened
