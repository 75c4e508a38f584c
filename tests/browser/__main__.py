"""`python -m tests.browser` makes the pictures in docs/images anew, on a stack of its own."""

import io
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page

from deployments.stack.stack import Stack, running_stack
from tasks.ray_job.counts import STAGES
from tests.browser.chromium import SIZE, open_page
from tests.browser.pages import DEFAULT, Visit
from tests.browser.runs import artifacts_of, deployment_id, run_named

IMAGES = Path(__file__).resolve().parents[2] / "docs/images"
COLOURS = 128
"""Enough for a page, and a fourth of the size."""
DRAWING_SECONDS = 4.0
"""What the timeline takes to come to rest."""


def main() -> None:
    """Start a run by a click, and keep what a person sees on the way."""
    with (
        tempfile.TemporaryDirectory(prefix="pictures-") as folder,
        running_stack(Path(folder)) as stack,
        open_page() as page,
    ):
        take_pictures(stack, Visit(page, stack.ui_url, DEFAULT))


def take_pictures(stack: Stack, visit: Visit) -> None:
    """The form, the run while it works, the run that is done, and its report."""
    visit.open_form(deployment_id(stack, "classify-images"))
    visit.fill("Run Name", "my-first-run")
    keep(visit.page, "form")
    visit.submit()
    run = run_named(stack, "my-first-run", num_tasks=len(("plan", *STAGES)))
    visit.open_run(run.id)
    keep(visit.page, "running")
    visit.page.goto("about:blank")  # the timeline is drawn anew all the time
    run_named(stack, "my-first-run")
    visit.open_run(run.id)
    keep(visit.page, "run")
    visit.open_artifact(artifacts_of(stack, run)["digits-report"].id)
    visit.page.get_by_role("heading", name="Sample predictions").wait_for()
    visit.page.set_viewport_size({"width": SIZE["width"], "height": 2 * SIZE["height"]})
    keep(visit.page, "report")


def keep(page: Page, name: str) -> None:
    """Store what is to be seen, small."""
    page.wait_for_timeout(DRAWING_SECONDS * 1000)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB").quantize(COLOURS)
    picture.save(IMAGES / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
