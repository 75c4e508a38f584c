"""The Chromium of this machine; none is downloaded."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Page, ViewportSize, expect, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
WAIT_MILLISECONDS = 150_000
"""For anything on a page; the machine may be busy."""
SIZE: ViewportSize = {"width": 1280, "height": 820}
ARGUMENTS = [
    "--no-sandbox",  # there is none for root; the pages are our own
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # the UI asks for news elsewhere
]


class NoChromiumError(RuntimeError):
    """It is not installed."""

    def __init__(self) -> None:
        super().__init__("no Chromium here: apt-get install chromium, on Debian")


def find_chromium() -> str:
    """Where it is installed.

    Raises:
        NoChromiumError: nowhere.
    """
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        raise NoChromiumError
    return path


@contextmanager
def open_page() -> Iterator[Page]:
    """A page of a browser that nobody has used before.

    Raises:
        NoChromiumError: there is no browser.
    """
    path = find_chromium()
    expect.set_options(timeout=WAIT_MILLISECONDS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        page = browser.new_page(viewport=SIZE)
        page.set_default_timeout(WAIT_MILLISECONDS)
        yield page
        browser.close()
