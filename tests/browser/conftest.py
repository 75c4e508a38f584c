"""A browser, or the reason why there is none."""

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from tests.browser.chromium import NoChromiumError, open_page


@pytest.fixture
def page() -> Iterator[Page]:
    """A page of its own for each test; where BROWSER_TESTS is `required`, it must be there."""
    try:
        with open_page() as opened:
            yield opened
    except NoChromiumError as error:
        if os.environ.get("BROWSER_TESTS") == "required":
            raise
        pytest.skip(str(error))
