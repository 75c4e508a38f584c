"""What Prefect knows of outputs: which are made from which, and what each run has made of them."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import get_client
from prefect.events.filters import EventFilter, EventNameFilter, EventResourceFilter

from flows.batch_inference import batch_inference
from tasks.errors import GateFailed
from tests.reporting import classify_spec, make_inputs

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]

PARITY = {"kind": "python", "class": "report_models:Parity"}
ARRIVAL_SECONDS = 90.0
PAGE = 50
"""Events; the server gives no more at once."""


def url(path: Path) -> str:
    return f"file://{path}"


def asset_events(name: str, key: str, count: int = 1) -> list[Any]:
    """The asset's events of a name, the newest first, when there are so many of them."""
    only = EventFilter(
        event=EventNameFilter(name=[f"prefect.asset.{name}"]),
        resource=EventResourceFilter(id=[key]),
    )
    until = time.monotonic() + ARRIVAL_SECONDS
    with get_client(sync_client=True) as client:
        while len(found := client.read_events(only, limit=PAGE).events) < count:
            assert time.monotonic() < until, f"{len(found)} of {count} events have arrived"
            time.sleep(0.2)
    return list(found)


def upstream_of(event: Any) -> list[str]:
    """The assets that an event's asset is made from."""
    return sorted(each.id for each in event.related if each.role == "asset")


def test_an_output_follows_its_sources_from_flow_to_flow(tmp_path: Path) -> None:
    make_inputs(tmp_path / "in", 2)
    first = batch_inference(classify_spec(tmp_path, {"bad": [3]}))
    source = {"kind": "parquet", "path": [f"{tmp_path}/out/*.parquet", f"{tmp_path}/in/"]}
    sink = {"kind": "parquet", "path": str(tmp_path / "again & again")}
    batch_inference(classify_spec(tmp_path, source=source, sink=sink, model=PARITY))

    (made,) = asset_events("materialization.succeeded", url(tmp_path / "out"))
    assert upstream_of(made) == [url(tmp_path / "in")]
    assert made.payload["rows"] == first["rows"]
    assert made.payload["run_id"] == first["run_id"]
    assert (made.payload["version"], made.payload["name"]) == (1, "Pets_nightly")
    assert made.resource["prefect.asset.url"] == url(tmp_path / "out")
    roles = {each.role: each.id for each in made.related}
    assert roles["flow-run"] == f"prefect.flow-run.{first['flow_run_id']}"
    assert roles["asset-materialized-by"] == "prefect-ray-data"

    key = f"{url(tmp_path)}/again~20~26~20again"
    (made,) = asset_events("materialization.succeeded", key)
    assert upstream_of(made) == [url(tmp_path / "in"), url(tmp_path / "out")]
    assert asset_events("referenced", url(tmp_path / "out"))


def test_an_output_that_was_held_back_is_not_made(tmp_path: Path) -> None:
    make_inputs(tmp_path / "in", 2)
    with pytest.raises(GateFailed):
        batch_inference(classify_spec(tmp_path, gates=[{"kind": "rows", "minimum": 101}]))
    (failed,) = asset_events("materialization.failed", url(tmp_path / "out"))
    assert upstream_of(failed) == [url(tmp_path / "in")]
    assert not failed.payload


@pytest.mark.parametrize("broken", ["sink_url", "facts_of"])
def test_what_cannot_be_told_is_logged_and_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, broken: str
) -> None:
    def fail(*arguments: object) -> str:
        raise ValueError("cannot be told")

    make_inputs(tmp_path / "in", 1)
    monkeypatch.setattr(f"tasks.lineage.{broken}", fail)
    report = batch_inference(classify_spec(tmp_path))
    assert report["published"]
    assert "lineage" in caplog.text
    assert "cannot be told" in caplog.text


def versions_of(name: str) -> dict[str, int]:
    """How many versions each artifact collection of a spec has."""
    from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey

    only = ArtifactFilter(key=ArtifactFilterKey(like_=f"{name}-"))
    with get_client(sync_client=True) as client:
        keys = [each.key for each in client.read_artifacts(artifact_filter=only)]
    return {str(key): keys.count(key) for key in set(keys)}


@pytest.fixture
def named(tmp_path: Path) -> Callable[[], Any]:
    """A spec whose name is no key, and a new input each time it is asked for."""
    (tmp_path / "in").mkdir()

    def spec() -> Any:
        number = len(list((tmp_path / "in").iterdir()))
        made = make_inputs(tmp_path / f"made-{number}", number + 1)
        (made / f"{number}.parquet").rename(tmp_path / "in" / f"{number}.parquet")
        return classify_spec(tmp_path, name="Lined_up..Nightly.")

    return spec


def test_artifacts_of_runs_line_up(named: Callable[[], Any], tmp_path: Path) -> None:
    from prefect.artifacts import Artifact

    from flows.preview import preview

    runs = [batch_inference(named()) for _ in range(2)]
    kinds = ("read", "preprocess", "infer", "write", "report", "output")
    assert versions_of("lined-up-nightly") == {f"lined-up-nightly-{kind}": 2 for kind in kinds}
    link: Any = Artifact.get("lined-up-nightly-output")
    assert str(link.flow_run_id) == str(runs[1]["flow_run_id"])
    words, _, target = str(link.data).partition("](")
    assert words.replace("\\", "") == f"[{url(tmp_path / 'out')}, version 2"
    assert target == f"{url(tmp_path / 'out')})"
    preview(named(), rows=10)
    previewed = {key for key in versions_of("lined-up-nightly") if "preview" in key}
    assert previewed >= {"lined-up-nightly-preview", "lined-up-nightly-preview-read"}
    assert versions_of("lined-up-nightly")["lined-up-nightly-read"] == 2
