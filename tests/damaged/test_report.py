"""Files of rows that others have taken away or changed before their run was reported."""

import json
from pathlib import Path

import pytest

from tasks.late_report import report_late
from tasks.plan import make_plan
from tests.damaged.states import State, published


@pytest.mark.parametrize("how", ["gone", "damaged"])
def test_a_report_goes_without_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    """As where whoever loads what is published picks it up at once."""
    state: State = published(tmp_path)
    manifest = Path(f"{state.spec.sink.path}.state/manifests/{state.run.name}.json")
    assert "Sample predictions" in (state.run / "report.md").read_text()
    manifest.unlink()
    for file in Path(state.spec.sink.path).glob("*.parquet"):
        if how == "gone":
            file.unlink()
        else:
            file.write_bytes(b"\xff" * len(file.read_bytes()))
    assert "before writing its report: it is written now" in str(report_late(make_plan(state.spec)))
    assert "the report goes without sample predictions" in caplog.text
    assert "the report goes without the accuracy" in caplog.text
    assert "Sample predictions" not in (state.run / "report.md").read_text()
    told = json.loads(manifest.read_bytes())
    assert (told["rows"]["written"], told["accuracy"]) == (148, None)
