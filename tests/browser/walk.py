"""`python -m tests.browser.walk`: what the README has a newcomer do in Prefect, by the clock.

A fresh clone of this checkout's last commit, `make up`, a run started by clicks from the address
that `make up` prints, its report, `make down`. Ports 4200 and 8265 must be free.
"""

import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.chromium import open_page
from tests.browser.pages import DEFAULT, Visit

CHECKOUT = Path(__file__).resolve().parents[2]
ADDRESS = re.compile(r"Prefect\s+(http://\S+?)/v2/deployments")
GOAL_SECONDS = 300.0
RUN_MILLISECONDS = 240_000


class Watch:
    """Says how long each step took, and all of them."""

    def __init__(self) -> None:
        self.began = self.last = time.monotonic()

    def say(self, step: str) -> None:
        """A step is over."""
        now = time.monotonic()
        print(f"{now - self.last:6.1f} s  {step}", flush=True)
        self.last = now

    @property
    def seconds(self) -> float:
        """Of all steps so far."""
        return self.last - self.began


def main() -> None:
    """Walk it, and fail where it takes more than five minutes."""
    watch = Watch()
    with tempfile.TemporaryDirectory(prefix="walk-") as folder:
        subprocess.run(["git", "clone", "--quiet", CHECKOUT, folder], check=True)
        subprocess.run(["make", "install"], cwd=folder, check=True)
        watch.say("git clone, make install")
        with stack_of(folder) as address:
            watch.say("make up")
            with open_page() as page:
                start_a_run(page, address)
                watch.say("opened the page, picked classify-images, Run, Custom run, Submit")
                see_it_complete(page)
                watch.say("the run completed")
                open_its_report(page)
                watch.say("opened its report")
    print(f"{watch.seconds:6.1f} s  in all, of {GOAL_SECONDS:g}")
    assert watch.seconds < GOAL_SECONDS


@contextmanager
def stack_of(folder: str) -> Iterator[str]:
    """`make up` and `make down` in a clone; gives the address of Prefect's page."""
    try:
        up = subprocess.run(["make", "up"], cwd=folder, check=True, stderr=subprocess.PIPE)
        printed = up.stderr.decode()
        address = ADDRESS.search(printed)
        assert address, printed
        yield address[1]
    finally:
        subprocess.run(["make", "down"], cwd=folder, check=True)


def start_a_run(page: Page, address: str) -> None:
    """From the list of deployments to a run, by clicks alone."""
    visit = Visit(page, address, DEFAULT)
    visit.go("deployments")
    page.get_by_role("link", name="classify-images", exact=True).first.click()
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("Custom run").click()
    expect(visit.field("Output folder")).not_to_have_value("")
    visit.settle()
    visit.submit()


def see_it_complete(page: Page) -> None:
    """The deployment's page shows the run; it opens, and says in the end that it completed."""
    runs = page.locator("a[href*='/runs/flow-run/']")
    page.get_by_text("1 Flow run").wait_for()
    runs.last.click()
    page.get_by_text("Completed", exact=True).first.wait_for(timeout=RUN_MILLISECONDS)


def open_its_report(page: Page) -> None:
    """Through the run's artifacts; a name leads to its versions."""
    page.get_by_role("tab", name="Artifacts").click()
    page.get_by_text("digits-report").first.click()
    page.locator("a[href*='/artifacts/artifact/']").first.click()
    page.get_by_role("heading", name="Sample predictions").wait_for()


if __name__ == "__main__":
    main()
