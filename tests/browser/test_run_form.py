"""A run that is started by a click: form, timeline, artifacts and report in both of the UIs."""

from pathlib import Path
from uuid import uuid4

import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Page, expect

from deployments.stack.stack import Stack
from tasks.ray_job.counts import STAGES
from tests.browser.pages import DEFAULT, FORMER, NotSubmittedError, Visit
from tests.browser.runs import artifacts_of, deployment_id, run_named
from tests.whole_stack import AUTH

pytestmark = [
    pytest.mark.browser,
    pytest.mark.stack,
    pytest.mark.ray,
    pytest.mark.prefect,
    pytest.mark.timeout(900),
]

UIS = [pytest.param(DEFAULT, id="default"), pytest.param(FORMER, id="former")]
PICKED = {
    "classify-images": {"Images", "Hugging Face", "Parquet", "A Ray cluster"},
    "embed-texts": {"Lines of text", "Parquet", "This process"},
}
VARIANTS = {"Images", "Lines of text", "Audio", "Video"}
CLUSTERS = {"This process", "This machine", "A Ray cluster", "Kubernetes (KubeRay)"}


@pytest.mark.parametrize("ui", UIS)
def test_a_run_started_by_a_click(stack: Stack, page: Page, tmp_path: Path, ui: str) -> None:
    visit = Visit(page, stack.ui_url, ui)
    visit.log_in(AUTH)
    for deployment in ("embed-texts", "classify-images"):
        visit.open_form(deployment_id(stack, deployment))
        picked, wanted = set(visit.picked()), PICKED[deployment]
        assert wanted <= picked
        assert picked & (VARIANTS | CLUSTERS) <= wanted, "one source and one cluster"
        assert visit.out_of_sight() == [], "titles of kinds make the form wider than the window"
    name, output = f"clicked-{uuid4().hex[:8]}", tmp_path / "out"
    try:
        start_run(visit, name, output)
    except NotSubmittedError as error:  # a person opens the form anew, once
        print(f"a form was stuck: {error}")
        visit.open_form(deployment_id(stack, "classify-images"))
        start_run(visit, name, output)
    visit.leave()

    run = run_named(stack, name)
    assert run.state
    assert run.state.name == "Completed", run.state.message
    spec = run.parameters["spec"]
    assert spec["cluster"] == {"kind": "inline"}
    assert spec["resources"]["max_replicas"] == 2
    assert sum(pq.read_metadata(file).num_rows for file in output.glob("*.parquet")) == 797

    visit.open_run(run.id)
    visit.see("Completed")
    visit.open_tab("Task Runs")
    for stage in STAGES:
        visit.see(stage)
    visit.open_tab("Artifacts")
    for key in (*STAGES, "report"):
        visit.see(f"{name}-{key}")
    check_report(visit, artifacts_of(stack, run)[f"{name}-report"].id)


def start_run(visit: Visit, name: str, output: Path) -> None:
    """Fill in the open form and submit it."""
    visit.fill("Run Name", name)
    visit.fill("Name (Optional)", name)
    visit.fill("Max replicas", "2")
    visit.fill("Output folder", str(output))
    visit.pick("This process")
    visit.submit()


def check_report(visit: Visit, report: object) -> None:
    """See that a report's thumbnails, chart, tables and details are drawn."""
    visit.open_artifact(report)
    page = visit.page
    for heading in ("Rows", "Time", "Accuracy", "Sample predictions", "Rows set aside"):
        expect(page.get_by_role("heading", name=heading, exact=True)).to_be_visible()
    images = page.locator("img[src^='data:image/']")
    expect(images.nth(8)).to_be_attached()  # a timeline and eight digits
    widths = images.evaluate_all("images => images.map(each => each.naturalWidth)")
    assert all(widths)
    assert page.locator("table").count() >= 5
    details = page.locator("details")
    expect(details.locator("pre")).to_be_hidden()
    details.locator("summary").click()
    expect(details.locator("pre")).to_contain_text("kind: images")
