"""What a whole run would take, reckoned from a few batches."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.errors import InvalidSpec
from tasks.previewing import trial_of
from tasks.ray_job.cluster_capacity import Node
from tasks.reporting.estimate import Estimate, estimate_run
from tasks.reporting.full_run import FullRun
from tasks.reporting.numbers import duration
from tasks.reporting.preview_page import estimate_lines
from tasks.reporting.where_it_goes import (
    gpus_allowed,
    gpus_of_a_replica,
    nodes_found,
    where_it_goes,
)
from tasks.reporting.workers import workers_at_hand
from tasks.spec import BatchInferenceSpec
from tasks.spec_file import parse_spec
from tests.kinds.tiny_models import hollow_texts_model

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
    found = estimate_run(spec, spec, (record, record), WHOLE, num_gpus=0.0)
    assert found
    assert (found.stage, found.workers, found.seconds) == (bounds, 4, seconds)
    assert found.seconds_range == (seconds, seconds)
    assert found.cost == pytest.approx(seconds * cores * 0.01)


def test_replicas_of_two_threads_are_half_as_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight seconds a batch for each of two, which hold four cores together."""
    for module in ("reporting.workers", "ray_job.own_machine"):
        monkeypatch.setattr(f"tasks.{module}.cores", lambda: 4)
    spec = parse_spec(
        {
            "source": {"kind": "parquet", "path": "in"},
            "model": hollow_texts_model(tmp_path, 40 << 20),
            "sink": {"kind": "parquet", "path": "out"},
            "cluster": {"kind": "local"},
            "stages": {"read": {"max_workers": 1, "num_cpus": 1}},
            "cost": {"per_cpu_hour": 36.0},
        }
    )
    record: Any = SimpleNamespace(seconds=SECONDS, ok=range(10), filtered=(), rejected=())
    there = trial_of(spec, 10, "p", on_cluster=True)
    found = estimate_run(spec, there, (record, record), WHOLE, num_gpus=0.0)
    assert found
    assert (found.stage, found.workers, found.seconds) == ("infer", 2, 400.0)
    assert found.cost == pytest.approx(400.0 * (2 * 2 + 1) * 0.01)
    here = trial_of(spec, 10, "p")
    of_one_core = estimate_run(spec, here, (record, record), WHOLE, num_gpus=0.0)
    assert of_one_core
    assert (of_one_core.workers, of_one_core.seconds) == (4, 200.0)


def test_a_run_in_this_process_holds_the_cores_of_its_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tasks.ray_job.own_machine.cores", lambda: 2)
    spec = parse_spec(
        {
            "source": {"kind": "parquet", "path": "in"},
            "model": {"kind": "xgboost", "path": "model.ubj"},
            "sink": {"kind": "parquet", "path": "out"},
            "cluster": {"kind": "inline"},
            "cost": {"per_cpu_hour": 36.0},
        }
    )
    record: Any = SimpleNamespace(seconds=SECONDS, ok=range(10), filtered=(), rejected=())
    found = estimate_run(spec, spec, (record, record), WHOLE, num_gpus=0.0)
    assert found
    assert found.cost == pytest.approx(found.seconds * 2 * 0.01)


CLUSTER = {"kind": "ray_jobs", "address": "http://ray:8265"}
GPUS: dict[str, tuple[dict[str, Any], dict[str, Any], bool, float, float | None]] = {
    "as asked": (CLUSTER, {"num_gpus": 0.5}, False, 0.0, 0.5),
    "measured there": (CLUSTER, {}, True, 0.1, 1.0),
    "measured there without": (CLUSTER, {}, True, 0.0, 0.0),
    "not measured there": (CLUSTER, {}, False, 0.0, None),
    "a Ray that runs": ({"kind": "local", "address": "127.0.0.1:6379"}, {}, False, 0.0, None),
    "this machine": ({"kind": "local"}, {}, False, 0.0, 1.0),
    "this process": ({"kind": "inline"}, {}, False, 0.0, 0.0),
}


@pytest.mark.parametrize(
    ("cluster", "resources", "on_cluster", "held", "wanted"), GPUS.values(), ids=GPUS
)
def test_gpus_are_known_where_a_run_would_go(
    cluster: dict[str, Any],
    resources: dict[str, Any],
    on_cluster: bool,
    held: float,
    wanted: float | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """This machine has two of them."""
    monkeypatch.setattr("tasks.reporting.workers.count_gpus", lambda: 2)
    spec = priced_spec(cluster, resources)
    trial = trial_of(spec, 10, "p", on_cluster=on_cluster)
    attempts = [SimpleNamespace(held={"gpu_hours": held})]
    evidence: Any = SimpleNamespace(planned=SimpleNamespace(spec=trial), all_attempts=attempts)
    assert gpus_of_a_replica(spec, evidence) == wanted


@pytest.mark.parametrize(
    ("prices", "cost"),
    [
        ({"per_gpu_hour": 36.0, "per_cpu_hour": 3.6}, None),
        ({"per_gpu_hour": 36.0}, None),
        ({"per_gpu_hour": 0.0, "per_cpu_hour": 3.6}, 150.0 * 12 * 0.001),
        ({"per_cpu_hour": 3.6}, 150.0 * 12 * 0.001),
    ],
)
def test_what_gpus_cost_that_nobody_has_seen_is_not_known(
    prices: dict[str, float], cost: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six seconds a batch for each of four workers, beside four replicas and eight readers."""
    monkeypatch.setattr("tasks.reporting.workers.cores", lambda: 4)
    spec = priced_spec(CLUSTER, {}, prices)
    record: Any = SimpleNamespace(seconds=SECONDS, ok=range(10), filtered=(), rejected=())
    here = trial_of(spec, 10, "p")
    found = estimate_run(spec, here, (record, record), WHOLE, num_gpus=None)
    assert found
    lines = dict(estimate_lines(found, has_gpu_price="per_gpu_hour" in prices))
    if cost is None:
        assert (found.cost, found.cost_range) == (None, None)
        assert lines["cost"].startswith("known only where a run would go: resources.num_gpus is")
    else:
        assert found.cost == pytest.approx(cost)
        assert lines["cost"] == f"{cost:,.2f}"


def priced_spec(
    cluster: dict[str, Any], resources: dict[str, Any], prices: dict[str, float] | None = None
) -> BatchInferenceSpec:
    return parse_spec(
        {
            "source": {"kind": "parquet", "path": "in"},
            "model": {"kind": "python", "class": "a:B"},
            "sink": {"kind": "parquet", "path": "out"},
            "cluster": cluster,
            "resources": resources,
            "cost": prices or {},
        }
    )


REPLICAS: dict[str, tuple[dict[str, Any], dict[str, Any], int, int]] = {
    "a core each": ({"kind": "local"}, {}, 0, 7),
    "parts of cores": ({"kind": "local"}, {"num_cpus": 0.28}, 0, 25),
    "a GPU each": ({"kind": "local"}, {}, 2, 2),
    "fewer cores than GPUs": ({"kind": "local"}, {"num_cpus": 2}, 4, 3),
    "as asked": ({"kind": "local"}, {"max_replicas": 3}, 0, 3),
    "a Ray that runs": ({"kind": "local", "address": "127.0.0.1:6379"}, {"num_cpus": 4}, 0, 4),
    "a cluster's address": ({"kind": "ray_jobs", "address": "http://ray:8265"}, {}, 2, 4),
    "a cluster's block": ({"kind": "ray_jobs", "block": "ours"}, {"max_replicas": 9}, 2, 9),
    "a cluster for the run": ({"kind": "kuberay"}, {"num_gpus": 1}, 0, 4),
}


@pytest.mark.parametrize(
    ("cluster", "resources", "gpus", "wanted"), REPLICAS.values(), ids=REPLICAS
)
def test_only_this_machine_goes_by_its_own_size(
    cluster: dict[str, Any],
    resources: dict[str, Any],
    gpus: int,
    wanted: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tasks.reporting.workers.cores", lambda: 7)
    monkeypatch.setattr("tasks.reporting.workers.count_gpus", lambda: gpus)
    spec = parse_spec(
        {
            "source": {"kind": "parquet", "path": "in"},
            "model": {"kind": "python", "class": "a:B"},
            "sink": {"kind": "parquet", "path": "out"},
            "cluster": cluster,
            "resources": resources,
        }
    )
    assert workers_at_hand(spec, 1)["infer"] == wanted


ON_CLUSTER = {
    "a GPU for one replica": ({}, [{"CPU": 16.0, "GPU": 1.0}, {"CPU": 48.0}], 1, 64),
    "fewer are asked for": ({"max_replicas": 2}, [{"CPU": 8.0, "GPU": 4.0}], 2, 8),
    "nodes are added": ({}, [{"CPU": 8.0, "GPU": 1.0}], 4, 8),
    "nobody has looked": ({}, None, 4, 7),
}


@pytest.mark.parametrize(
    ("resources", "nodes", "replicas", "others"), ON_CLUSTER.values(), ids=ON_CLUSTER
)
def test_of_a_cluster_that_a_preview_has_seen_its_nodes_count(
    resources: dict[str, Any],
    nodes: list[Node] | None,
    replicas: int,
    others: int,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tasks.reporting.workers.cores", lambda: 7)
    waits = 600 if "added" in request.node.name else 0
    there = {"kind": "ray_jobs", "address": "http://ray:8265", "wait_for_nodes_seconds": waits}
    spec = priced_spec(there, resources)
    found = workers_at_hand(spec, 1, nodes)
    assert (found["infer"], found["preprocess"]) == (replicas, others)


def test_what_a_preview_finds_on_a_cluster_is_what_a_run_is_reckoned_with() -> None:
    """Two seconds a batch of ten for the one replica that there is a GPU for, and not for four."""
    spec = priced_spec({"kind": "ray_jobs", "address": "http://ray:8265"}, {}, {"per_cpu_hour": 36})
    told = SimpleNamespace(occupancy={"nodes": [{"CPU": 16.0, "GPU": 1.0}]})
    attempts = [told, SimpleNamespace(occupancy={})]  # one that died before it said anything
    seen = {}
    for on_cluster in (False, True):
        trial = trial_of(spec, 10, "p", on_cluster=on_cluster)
        evidence: Any = SimpleNamespace(planned=SimpleNamespace(spec=trial), attempts=attempts)
        seen[on_cluster] = nodes_found(spec, evidence)
    assert seen == {False: None, True: [{"CPU": 16.0, "GPU": 1.0}]}
    record: Any = SimpleNamespace(seconds=SECONDS, ok=range(10), filtered=(), rejected=())
    found = estimate_run(spec, trial, (record, record), WHOLE, num_gpus=1.0, nodes=seen[True])
    assert found
    assert (found.stage, found.workers, found.seconds) == ("infer", 1, 200.0)
    # A core for the replica, three that prepare for it, and the halves of eight readers.
    assert found.cost == pytest.approx(200.0 * (1 + 3 + 8 * 0.5) * 0.01)


@pytest.mark.parametrize(
    ("own", "blocks", "replicas"), [(2, None, 2), (None, 3.0, 3), (0.5, None, 1), (None, None, 4)]
)
def test_no_more_gpus_are_reckoned_with_than_jobs_of_the_cluster_may_hold(
    own: float | None, blocks: float | None, replicas: int
) -> None:
    there = {"kind": "ray_jobs", "address": "http://ray:8265", "max_gpus": own}
    spec = priced_spec(there, {"num_gpus": 1})
    evidence: Any = SimpleNamespace(last_job=SimpleNamespace(max_gpus=blocks))
    limit = gpus_allowed(spec, evidence)
    seconds = {**SECONDS, "infer": 90.0}
    record: Any = SimpleNamespace(seconds=seconds, ok=range(10), filtered=(), rejected=())
    trial = trial_of(spec, 10, "p", on_cluster=True)
    found = estimate_run(spec, trial, (record,), WHOLE, num_gpus=1.0, max_gpus=limit)
    assert found
    assert (found.stage, found.workers) == ("infer", replicas)


def test_a_run_goes_to_the_ray_that_it_would_join(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where four replicas are usual, on a machine of seven cores and two GPUs."""
    monkeypatch.setattr("tasks.reporting.workers.cores", lambda: 7)
    monkeypatch.setattr("tasks.reporting.workers.count_gpus", lambda: 2)
    monkeypatch.setattr("tasks.clusters.own_ray.ray_at_hand", lambda: "127.0.0.1:6379")
    spec = priced_spec({"kind": "local"}, {})
    record: Any = SimpleNamespace(seconds=SECONDS, ok=range(10), filtered=(), rejected=())
    trial = trial_of(spec, 10, "p")
    found = estimate_run(spec, trial, (record, record), WHOLE, num_gpus=0.0)
    assert found
    assert (found.stage, found.workers) == ("preprocess", 7)
    planned = SimpleNamespace(spec=trial)
    evidence: Any = SimpleNamespace(planned=planned, all_attempts=[])
    assert gpus_of_a_replica(spec, evidence) is None


def test_a_preview_is_shown_though_a_run_could_not_join(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> str:
        raise InvalidSpec("RAY_ADDRESS: is not a Ray that runs here")

    monkeypatch.setattr("tasks.clusters.own_ray.ray_at_hand", gone)
    spec = priced_spec({"kind": "local"}, {})
    assert where_it_goes(spec) == spec


MANY = replace(WHOLE, rows=10_000_000)
QUICK = {"read": 1e-5, "infer": 0.001, "write": 0.002}
"""Of a batch of eight rows."""


def quick_spec(rows_per_batch: int | str = "auto") -> BatchInferenceSpec:
    return parse_spec(
        {
            "source": {"kind": "parquet", "path": "in"},
            "model": {"kind": "python", "class": "a:B"},
            "sink": {"kind": "parquet", "path": "out"},
            "cluster": {"kind": "inline"},
            "stages": {"read": {"rows_per_batch": rows_per_batch}},
        }
    )


def estimate_of(spec: BatchInferenceSpec, whole: FullRun, *batches: dict[str, float]) -> Estimate:
    records: Any = tuple(
        SimpleNamespace(seconds=seconds, ok=range(8), filtered=(), rejected=())
        for seconds in batches
    )
    found = estimate_run(spec, trial_of(spec, 64, "p"), records, whole, num_gpus=0.0)
    assert found
    return found


def test_what_starting_takes_is_no_part_of_the_estimate() -> None:
    """It was as if each batch opened the file and imported what reads it."""
    first = {"read": 0.2, "infer": 0.3, "write": 0.1}
    found = estimate_of(quick_spec(), MANY, first, *[QUICK] * 7)
    assert (found.stage, found.batches) == ("write", 7)
    assert found.seconds == pytest.approx(10_000_000 / 8 * 0.002)
    assert found.seconds_range == pytest.approx((found.seconds, found.seconds))
    assert estimate_of(quick_spec(), MANY, first).seconds > 100 * found.seconds


def test_rows_that_are_too_quick_for_so_few_to_tell_are_said_to_be() -> None:
    """Each batch writes a file, whatever rows there are: a run's have thousands."""
    found = estimate_of(quick_spec(), MANY, *[QUICK] * 8)
    assert found.more_rows == 100 * 7 * 8
    lines = dict(estimate_lines(found, has_gpu_price=False))
    assert lines["time"] == "less than 41.7 minutes"
    assert "a preview of 5600 rows (--rows) tells more" in lines["based on"]
    in_eights = estimate_of(quick_spec(rows_per_batch=8), MANY, *[QUICK] * 8)
    slower = estimate_of(quick_spec(), MANY, *[{**QUICK, "infer": 0.2}] * 8)
    fewer = estimate_of(quick_spec(), WHOLE, *[QUICK] * 8)
    assert [each.more_rows for each in (in_eights, slower, fewer)] == [None] * 3


def test_rows_that_take_next_to_nothing_are_not_said_to_take_none() -> None:
    found = estimate_of(quick_spec(), replace(WHOLE, rows=64), *[QUICK] * 8)
    time = dict(estimate_lines(found, has_gpu_price=False))["time"]
    assert time == "under 0.1 seconds"
    assert duration(0.1) == "0.1 seconds"
