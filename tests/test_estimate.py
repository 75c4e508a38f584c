"""What a whole run would take, reckoned from a few batches."""

from types import SimpleNamespace
from typing import Any

import pytest

from tasks.reporting.estimate import FullRun, estimate_run
from tasks.spec_file import parse_spec

WHOLE = FullRun(inputs=8, size=1_000, shards=8, rows=1_000, rows_are_known=True)
SECONDS = {"read": 1.0, "preprocess": 6.0, "infer": 2.0, "write": 1.0}
"""Of a batch of ten rows."""


@pytest.mark.parametrize(
    ("stages", "bounds", "seconds", "cores"),
    [
        # Eight seconds a batch for each of four replicas; a core each, and four readers' halves.
        ({"read": {"max_workers": 4}}, "infer", 200.0, 4 + 4 * 0.5),
        # Six seconds a batch for each of four workers, which hold a core each too.
        (
            {"read": {"max_workers": 4}, "preprocess": {"max_workers": 4}},
            "preprocess",
            150.0,
            4 + 4 * 0.5 + 4,
        ),
    ],
)
def test_a_machine_of_its_own(
    stages: dict[str, Any],
    bounds: str,
    seconds: float,
    cores: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tasks.reporting.workers.cores", lambda: 4)
    spec = parse_spec(
        {
            "source": {"kind": "parquet", "path": "in"},
            "steps": [{"kind": "select", "columns": ["x"]}],
            "model": {"kind": "python", "class": "a:B"},
            "sink": {"kind": "parquet", "path": "out"},
            "cluster": {"kind": "local"},
            "stages": stages,
            "cost": {"per_cpu_hour": 36.0},
        }
    )
    record: Any = SimpleNamespace(seconds=SECONDS, ok=range(10), filtered=(), rejected=())
    found = estimate_run(spec, (record, record), WHOLE, num_gpus=0.0)
    assert found
    assert (found.stage, found.workers, found.seconds) == (bounds, 4, seconds)
    assert found.seconds_range == (seconds, seconds)
    assert found.cost == pytest.approx(seconds * cores * 0.01)
