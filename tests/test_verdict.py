"""What bounds a run: judged from timings as runs have left them."""

import os
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from tasks.clusters.kuberay_manifest import load_manifest
from tasks.kinds.clusters import KubeRayCluster
from tasks.plan import make_plan
from tasks.publish import publish_planned
from tasks.ray_job.cluster_capacity import Node, refuse_crowded, refuse_unmet
from tasks.ray_job.counts import STAGES, CoreClock, Counts, Report, with_reports
from tasks.ray_job.device_clock import DeviceClock
from tasks.ray_job.occupancy import Occupancy, Spent, StageWorkers
from tasks.report import report_run
from tasks.reporting.evidence import look_back
from tasks.reporting.timings import StageTiming, Timings, on_ray, timings_of
from tasks.reporting.verdict import Verdict, judge_run, sentence
from tests.kinds.tiny_models import hollow_texts_model
from tests.reporting import classify_spec, make_inputs, run_attempt

LONG: dict[str, float | None] = {"startup": 9.0, "steady": 100.0}
SHORT: dict[str, float | None] = {"startup": 9.0, "steady": 2.0}
LITTLE = {"num_cpus": 0.25, "max_workers": 1}
ONE = {"read": LITTLE, "preprocess": LITTLE, "write": {"max_workers": 1}}
MODEL = {"num_cpus": 0.25, "max_replicas": 1}


def timings(
    busy: dict[str, float], computing: dict[str, float] | None = None, **more: Any
) -> Timings:
    """A hundred seconds of one worker a stage, on a cluster of four cores."""
    own = computing or {}
    stages = {
        stage: StageTiming(workers=1, busy=busy.get(stage, 0.0), computing=own.get(stage, 0.0))
        for stage in STAGES
    }
    nodes = [{"CPU": 4.0, "memory": 16.0}]
    return replace(Timings(100.0, stages, 960, 96, cores=4.0, nodes=nodes, shares=16), **more)


def having(found: Timings, stage: str, **changes: Any) -> Timings:
    """The same with other figures of one stage."""
    timing = replace(found.stages[stage], **changes)
    return replace(found, stages={**found.stages, stage: timing})


def judge(folder: Path, found: Timings | None, **spec: Any) -> Verdict:
    given = {"stages": ONE, "resources": MODEL, "cluster": {"kind": "local"}, **spec}
    seconds = given.pop("seconds", LONG)
    told = {name: given.pop(name, False) for name in ("memory_ran_out", "is_part")}
    verdict = judge_run(classify_spec(folder, **given), seconds, found, **told)
    assert verdict is not None
    return verdict


@pytest.mark.parametrize(
    ("stage", "setting"),
    [
        ("read", "stages.read.max_workers=3"),
        ("preprocess", "stages.preprocess.max_workers=3"),
        ("infer", "resources.max_replicas=3"),
        ("write", "stages.write.max_workers=3"),
    ],
)
def test_the_busiest_stage_gets_workers_until_the_next_one_bounds_the_run(
    tmp_path: Path, stage: str, setting: str
) -> None:
    others = {"read": "infer", "preprocess": "infer", "infer": "read", "write": "read"}
    found = judge(tmp_path, timings({stage: 96.0, others[stage]: 38.4}))
    assert (found.stage, found.share, found.setting, found.gain) == (stage, 0.96, setting, 2.5)
    assert sentence(found.as_json()) == (
        f"{stage}: busy 96 % of the time of its 1 worker; with 3 workers {others[stage]} limits "
        f"it; {setting} would make the run 2.5 times as fast"
    )


@pytest.mark.parametrize(("infer", "workers", "gain"), [(40.0, 2, 2.0), (20.0, 3, 2.5)])
def test_the_way_to_a_replica_counts_where_it_takes_longer_than_a_batch(
    tmp_path: Path, infer: float, workers: int, gain: float
) -> None:
    """Each replica has a batch in hand and one on its way."""
    found = timings({"preprocess": 80.0, "infer": infer})
    verdict = judge(tmp_path, having(found, "infer", occupied=80.0))
    assert (verdict.setting, verdict.gain) == (f"stages.preprocess.max_workers={workers}", gain)


def test_writers_are_promised_what_may_be_without_a_record_at_a_time(tmp_path: Path) -> None:
    """Three batches for each replica, or five seconds' worth, so that a crash costs no more."""
    found = judge(tmp_path, timings({"write": 96.0, "infer": 24.0}, batches=12))
    assert (found.setting, found.gain) == ("stages.write.max_workers=3", 2.4)
    assert found.reason.endswith("the limit on batches without a record limits it")
    quick = judge(tmp_path, timings({"write": 96.0, "infer": 24.0}, batches=96))
    assert (quick.setting, quick.gain) == ("stages.write.max_workers=4", 4.0)


def test_more_than_four_times_the_workers_is_not_promised(tmp_path: Path) -> None:
    found = judge(tmp_path, timings({"infer": 96.0}))
    assert (found.setting, found.gain) == ("resources.max_replicas=4", 4.0)


def test_a_stage_that_waits_can_do_with_less_of_a_core(tmp_path: Path) -> None:
    """Two readers at half a core are all that two cores have room for beside the others."""
    stages = {**ONE, "read": {"num_cpus": 0.5}}
    read = StageTiming(workers=2, busy=190.0, computing=4.0, holding=2, most=2)
    found = timings({"infer": 40.0}, cores=1.5)
    found = replace(found, stages={**found.stages, "read": read})
    verdict = judge(tmp_path, found, stages=stages)
    assert (verdict.setting, verdict.gain) == ("stages.read.num_cpus=0.2", 2.38)


def test_more_readers_than_is_usual_are_asked_for(tmp_path: Path) -> None:
    """Of a disk that is near there are two, where nobody says how many."""
    stages = {**ONE, "read": {}}
    read = StageTiming(workers=2, busy=190.0, computing=4.0, holding=2, most=2)
    found = timings({"infer": 40.0})
    found = replace(found, stages={**found.stages, "read": read})
    verdict = judge(tmp_path, found, stages=stages)
    assert (verdict.setting, verdict.gain) == ("stages.read.max_workers=5", 2.38)


def test_a_stage_that_computes_gets_nothing_where_all_cores_are_busy(tmp_path: Path) -> None:
    busy = {"preprocess": 97.0, "infer": 50.0}
    found = judge(tmp_path, timings(busy, busy, machine_busy=0.98))
    assert (found.stage, found.setting, found.gain) == ("preprocess", None, None)
    assert "nothing: the machine's cores are all busy (98 %)" in found.reason
    # One that sleeps does not mind.
    found = judge(tmp_path, timings(busy, machine_busy=0.98))
    assert found.setting == "stages.preprocess.max_workers=2"


def test_a_stage_that_waits_for_a_core_gets_none_of_those_that_others_keep_busy(
    tmp_path: Path,
) -> None:
    """As beside other runs on its machine: it is no stage that waits for a network."""
    crowded = timings({"infer": 96.0}, {"infer": 19.0}, machine_busy=1.0)
    found = judge(tmp_path, having(crowded, "infer", queued=70.0))
    assert (found.setting, found.gain) == (None, None)
    assert found.reason.endswith("the job had 5 % of them: what else runs there takes the rest")
    by_itself = judge(tmp_path, having(crowded, "infer", queued=10.0))
    assert by_itself.reason.endswith("cores are all busy (100 %), only more of them help")


def test_a_stage_that_waits_for_a_core_cannot_do_with_less_of_one(tmp_path: Path) -> None:
    read = StageTiming(workers=2, busy=190.0, computing=4.0, holding=2, most=2)
    found = timings({"infer": 40.0}, cores=1.5)
    asked = {"stages": {**ONE, "read": {"num_cpus": 0.5}}}
    for queued, setting in ((0.0, "stages.read.num_cpus=0.2"), (180.0, None)):
        stages = {**found.stages, "read": replace(read, queued=queued)}
        assert judge(tmp_path, replace(found, stages=stages), **asked).setting == setting


def test_no_more_is_promised_than_there_are_cores_for(tmp_path: Path) -> None:
    busy = {"preprocess": 97.0, "infer": 20.0}
    found = judge(tmp_path, timings(busy, busy, machine_busy=0.5))
    assert (found.setting, found.gain) == ("stages.preprocess.max_workers=4", 2.0)


@pytest.mark.parametrize(("weights", "wanted"), [(40 << 20, True), (1 << 20, False)])
def test_the_threads_of_a_large_model_count_as_busy_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weights: int, wanted: bool
) -> None:
    """Which a spec that leaves them to us does not name."""
    monkeypatch.setattr("tasks.ray_job.own_machine.cores", lambda: 2)
    task = hollow_texts_model(tmp_path, weights)
    busy = {"infer": 97.0}
    found = judge(tmp_path, timings(busy, busy, cores=2.0), model=task, stages={}, resources={})
    assert ("cores are all busy" in found.reason) is wanted, found.reason


def test_where_all_cores_are_held_only_more_nodes_help(tmp_path: Path) -> None:
    found = judge(tmp_path, timings({"infer": 97.0}, {"infer": 60.0}, cores=0.75))
    assert (found.setting, found.gain) == (None, None)
    assert found.reason.endswith("none of 0.75 cores is free: more nodes")


def test_an_input_in_few_parts_is_to_be_split(tmp_path: Path) -> None:
    found = judge(tmp_path, timings({"read": 97.0}, shares=1))
    assert found.setting is None
    assert "the input comes in 1 part: split it into more" in found.reason


def test_no_more_readers_are_promised_than_the_input_has_parts(tmp_path: Path) -> None:
    found = judge(tmp_path, timings({"read": 97.0}, shares=3))
    assert (found.setting, found.gain) == ("stages.read.max_workers=3", 3.0)
    assert found.reason.endswith("with 3 workers read still limits it")


def test_replicas_that_ray_was_slow_to_add_are_asked_for(tmp_path: Path) -> None:
    resources = {"num_cpus": 0.25, "max_replicas": 4}
    found = judge(tmp_path, timings({"infer": 97.0, "read": 40.0}), resources=resources)
    assert (found.setting, found.gain) == ("resources.min_replicas=3", 2.42)


@pytest.mark.parametrize(
    ("resources", "setting"),
    [
        ({"min_replicas": 4, "max_replicas": 8}, "resources.min_replicas=5"),
        ({"min_replicas": 4, "max_replicas": 4}, "resources.max_replicas=5"),
    ],
)
def test_replicas_that_are_asked_for_are_not_asked_for_again(
    tmp_path: Path, resources: dict[str, Any], setting: str
) -> None:
    """Four from the start, of which one took long to load its model."""
    found = having(timings({"read": 82.0}), "infer", workers=3.4, most=4, busy=3.4 * 96)
    verdict = judge(tmp_path, found, resources={"num_cpus": 0.25, **resources})
    assert (verdict.setting, verdict.gain) == (setting, 1.17)


@pytest.mark.parametrize("stage", ["read", "preprocess", "write"])
def test_a_bound_that_was_reached_is_raised_though_workers_were_fewer_on_average(
    tmp_path: Path, stage: str
) -> None:
    found = timings({"infer": 48.0})
    found = having(found, stage, workers=3.4, most=4, busy=3.4 * 96, holding=3.4)
    stages = {**ONE, stage: {"num_cpus": 0.25, "max_workers": 4}}
    verdict = judge(tmp_path, found, stages=stages)
    assert (verdict.setting, verdict.gain) == (f"stages.{stage}.max_workers=8", 2.0)
    few = judge(tmp_path, replace(found, cores=2.3), stages=stages)
    if stage == "preprocess":  # the others' cores leave room for seven of them
        assert (few.setting, few.gain) == ("stages.preprocess.max_workers=7", 1.75)


@pytest.mark.parametrize(
    ("seconds", "setting", "gain"),
    [
        (0.0, "resources.max_replicas=4", 4.0),
        (8.0, "resources.max_replicas=4", 2.67),  # 8, 16 and 24 s are missing of 4 x 36
        (30.0, "resources.max_replicas=3", 1.55),  # 30 and 60 s of 3 x 62
        (80.0, None, None),
    ],
)
def test_replicas_that_come_one_by_one_are_missing_until_then(
    tmp_path: Path, seconds: float, setting: str | None, gain: float | None
) -> None:
    found = timings({"infer": 96.0}, replica_seconds=seconds)
    verdict = judge(tmp_path, found)
    assert (verdict.setting, verdict.gain) == (setting, gain)
    at_once = judge(tmp_path, found, resources={"num_cpus": 0.25, "max_replicas": 4})
    assert (at_once.setting, at_once.gain) == ("resources.min_replicas=4", 4.0)


def test_gpus_are_not_shared_by_replicas_that_come_too_late(tmp_path: Path) -> None:
    found = having(timings({"infer": 98.0}, nodes=ON_GPUS), "infer", device=60.0)
    late = replace(found, replica_seconds=80.0)
    verdict = judge(tmp_path, late, resources={"num_cpus": 0.25})
    assert (verdict.setting, verdict.gain) == (None, None)
    assert verdict.reason.endswith("only 61 %: nothing, it comes too late")


@pytest.mark.parametrize(
    ("cores", "setting", "said"),
    [
        (5.1, None, "none of 5.1 cores is free: more nodes"),
        (5.6, "stages.preprocess.max_workers=5", "with 5 workers infer limits it"),
    ],
)
def test_ray_is_not_to_blame_for_workers_that_may_not_be(
    tmp_path: Path, cores: float, setting: str | None, said: str
) -> None:
    """Where all four that may be were there, 0.6 of 5.1 cores were free, and 1.1 of 5.6."""
    busy = 3.4 * 96
    found = timings({"infer": 80.0}, cores=cores)
    found = having(found, "preprocess", workers=3.4, most=4, busy=busy, computing=busy, holding=3.4)
    verdict = judge(tmp_path, found, stages={**ONE, "preprocess": {"max_workers": 4}})
    assert verdict.setting == setting
    assert verdict.reason.endswith(said)


CLUSTER = {"kind": "ray_jobs", "address": "http://ray:8265"}
STEPS = [{"kind": "select", "columns": ["id"]}]
NODES: dict[str, tuple[list[Node], dict[str, Any], dict[str, Any], int | None, str]] = {
    "memory for two": (
        [{"CPU": 8.0, "memory": 16.0}],
        {"resources": {"memory_gb": 8}},
        {},
        2,
        "with 2 workers infer still limits it",
    ),
    "memory for one": (
        [{"CPU": 8.0, "memory": 16.0}],
        {"resources": {"memory_gb": 9}},
        {},
        None,
        "no node has room for another, with 7 cores free: more nodes, or larger ones",
    ),
    "one on each node": (
        [{"CPU": 5.0}, {"CPU": 5.0}, {"CPU": 5.0}],
        {"resources": {"num_cpus": 3}},
        {},
        3,
        "with 3 workers infer still limits it",
    ),
    "beside a large worker": (
        [{"CPU": 8.0}],
        {"stages": {"preprocess": {"num_cpus": 5}}, "steps": STEPS},
        {},
        3,
        "with 3 workers infer still limits it",
    ),
    "beside a whole core": (
        [{"CPU": 2.0}],
        {"resources": {"num_cpus": 0.5}, "steps": STEPS},
        {},
        2,
        "with 2 workers infer still limits it",
    ),
    "beside one that leaves no core": (
        [{"CPU": 2.0}],
        {"stages": {"read": {"num_cpus": 1}}},
        {},
        None,
        "beside other stages the nodes that its job found have no room for more, with 1 core free",
    ),
    "of a GPU that tells nothing": (
        [{"CPU": 8.0, "GPU": 1.0}],
        {},
        {},
        None,
        "nothing: how busy its GPUs were is unknown",
    ),
    "of nodes that came late": (
        [{"CPU": 2.0}],
        {"resources": {"num_cpus": 1}},
        {"cores": 16.0},
        None,
        "beside other stages the nodes that its job found have no room for more, with 15 cores "
        "free",
    ),
    "of nodes that nobody has noted": (
        [],
        {},
        {"cores": 8.0},
        None,
        "no advice: an earlier version ran its job and recorded no nodes",
    ),
}


@pytest.mark.parametrize(("nodes", "asked", "more", "replicas", "said"), NODES.values(), ids=NODES)
def test_no_more_replicas_are_advised_than_a_job_is_let_in_with(
    tmp_path: Path,
    nodes: list[Node],
    asked: dict[str, Any],
    more: dict[str, Any],
    replicas: int | None,
    said: str,
) -> None:
    """Of one that bounds the run alone, while the others hold next to nothing."""
    found = timings({"infer": 96.0}, {"infer": 96.0}, cores=sum(node["CPU"] for node in nodes))
    found = replace(found, nodes=nodes, **more)
    for stage in ("read", "preprocess"):
        found = having(found, stage, holding=0.0)
    spec = {"cluster": CLUSTER, "stages": {}, "resources": {}, **asked}
    verdict = judge(tmp_path, found, **spec)
    assert verdict.setting == (replicas and f"resources.min_replicas={replicas}")
    assert verdict.reason.endswith(said), verdict.reason
    if replicas:
        spec["resources"] = {**spec["resources"], "min_replicas": replicas}
        refuse_unmet(classify_spec(tmp_path, **spec), nodes, "the cluster")
        refuse_crowded(classify_spec(tmp_path, **spec), nodes)


@pytest.mark.parametrize("resources", [{}, {"max_replicas": 4}])
def test_where_memory_may_have_held_replicas_back_they_are_not_asked_for(
    tmp_path: Path, resources: dict[str, Any]
) -> None:
    """A machine of one's own adds them by itself, where it has memory and a core for another."""
    found = timings({"infer": 96.0}, {"infer": 96.0})
    verdict = judge(tmp_path, found, stages={}, resources=resources)
    assert verdict.setting is None
    assert verdict.reason.endswith(
        "no more were started, with 1.5 cores free: there was no memory for them, or it did not pay"
    )


def test_workers_that_no_node_has_room_for_are_not_promised(tmp_path: Path) -> None:
    """Of fifteen cores nine are free, in three parts."""
    found = having(timings({"infer": 20.0}, cores=15.0), "preprocess", busy=3 * 96.0, workers=3)
    found = having(found, "preprocess", most=3, computing=3 * 96.0, holding=3)
    found = replace(found, nodes=[{"CPU": 5.0}] * 3)
    preprocess = {"num_cpus": 3, "max_workers": 3}
    verdict = judge(tmp_path, found, cluster=CLUSTER, stages={**ONE, "preprocess": preprocess})
    assert verdict.setting is None
    assert "no node has room for another" in verdict.reason


def test_stages_that_are_level_gain_nothing_alone(tmp_path: Path) -> None:
    found = judge(tmp_path, timings({"infer": 97.0, "preprocess": 92.0}, {"preprocess": 80.0}))
    assert found.gain is None
    assert "preprocess is nearly as busy" in found.reason


def test_gpus_starved_by_preprocessing(tmp_path: Path) -> None:
    found = timings({"preprocess": 98.0, "infer": 30.0})
    infer = replace(found.stages["infer"], device=25.0)
    verdict = judge(tmp_path, replace(found, stages={**found.stages, "infer": infer}))
    assert verdict.stage == "preprocess"
    assert "and the GPUs only 25 % of theirs" in verdict.reason
    assert verdict.setting == "stages.preprocess.max_workers=4"


def test_no_gain_is_promised_of_gpus_that_nobody_has(tmp_path: Path) -> None:
    found = timings({"preprocess": 98.0, "infer": 60.0})
    infer = replace(found.stages["infer"], device=55.0)
    all_of_them = replace(found, stages={**found.stages, "infer": infer})
    verdict = judge(tmp_path, all_of_them, resources={"num_cpus": 0.25})
    assert verdict.stage == "preprocess"
    assert verdict.gain == pytest.approx(98 / 60, rel=0.01)


ON_GPUS: list[Node] = [{"CPU": 4.0, "memory": 16.0, "GPU": 2.0}]


@pytest.mark.parametrize(
    ("device", "resources", "setting", "gain", "said"),
    [
        (95.0, {}, None, None, "its GPUs are busy 97 %"),
        (65.0, {}, "resources.num_gpus=0.5", 1.51, "only 66 %"),
        (65.0, {"num_gpus": 2}, None, None, "only 66 %: nothing, replicas that share one"),
        # Only their bound keeps them from the node's other GPU.
        (65.0, {"max_replicas": 1}, "resources.max_replicas=2", 2.0, "only 66 %, and the nodes"),
        (95.0, {"max_replicas": 1}, "resources.max_replicas=2", 2.0, "97 %, and the nodes have"),
        (95.0, {"max_replicas": 1, "num_gpus": 2}, None, None, "its GPUs are busy 97 %, only"),
    ],
)
def test_a_model_on_gpus_gets_more_of_them_or_shares_them(
    tmp_path: Path,
    device: float,
    resources: dict[str, Any],
    setting: str | None,
    gain: float | None,
    said: str,
) -> None:
    found = having(timings({"infer": 98.0}, nodes=ON_GPUS), "infer", device=device)
    verdict = judge(tmp_path, found, resources={"num_cpus": 0.25, **resources})
    assert (verdict.setting, verdict.gain) == (setting, gain)
    assert said in verdict.reason


def test_no_replicas_are_advised_beyond_the_gpus_that_jobs_may_hold(tmp_path: Path) -> None:
    """The node has another one, which the cluster's max_gpus keeps from its jobs."""
    found = having(timings({"infer": 98.0}, nodes=ON_GPUS), "infer", device=95.0)
    bound = {"num_cpus": 0.25, "max_replicas": 1}
    of_two = judge(tmp_path, replace(found, max_gpus=2.0), resources=bound)
    assert of_two.setting == "resources.max_replicas=2"
    of_one = judge(tmp_path, replace(found, max_gpus=1.0), resources=bound)
    assert (of_one.setting, of_one.gain) == (None, None)
    assert of_one.reason.endswith("its GPUs are busy 97 %, only more of them help")
    idle = having(found, "infer", device=65.0)
    shared = judge(tmp_path, replace(idle, max_gpus=1.0), resources={"num_cpus": 0.25})
    assert shared.setting == "resources.num_gpus=0.5"


@pytest.mark.parametrize("on_gpus", [True, False])
@pytest.mark.parametrize(
    ("waits", "max_gpus", "setting"),
    [
        (600, None, "resources.max_replicas=8"),
        (600, 6.0, "resources.max_replicas=6"),
        (600, 4.0, None),
        (0, None, None),
    ],
)
def test_a_cluster_that_adds_nodes_is_asked_for_more_replicas(
    tmp_path: Path, waits: float, max_gpus: float | None, setting: str | None, on_gpus: bool
) -> None:
    """All that may be are at work, and no core or GPU is free."""
    node = {"CPU": 4.0, "memory": 16.0, **({"GPU": 4.0} if on_gpus else {})}
    found = timings({"read": 5.0}, nodes=[node], max_gpus=max_gpus)
    of_four = {"workers": 4, "most": 4, "holding": 4, "busy": 4 * 98.0, "computing": 4 * 60.0}
    found = having(found, "infer", **of_four, device=4 * 95.0 * on_gpus)
    there = {"kind": "ray_jobs", "address": "http://ray:8265", "wait_for_nodes_seconds": waits}
    verdict = judge(tmp_path, found, cluster=there, resources={})
    if not on_gpus and waits:  # no limit on GPUs binds those that take none
        setting = "resources.max_replicas=8"
    assert (verdict.setting, verdict.gain) == (setting, None)
    assert ("the cluster can add nodes for more" in verdict.reason) == (setting is not None)
    of_fewer = judge(tmp_path, found, cluster=there, resources={"max_replicas": 9})
    assert of_fewer.setting is None
    busier = judge(
        tmp_path, having(found, "infer", computing=4 * 97.0), cluster=there, resources={}
    )
    assert busier.setting == setting


@pytest.mark.parametrize(
    ("most", "setting"), [(6, "resources.max_replicas=6"), (4, None), (None, None)]
)
def test_no_more_replicas_are_advised_than_nodes_of_a_manifest_can_hold(
    tmp_path: Path, most: int | None, setting: str | None
) -> None:
    """The shipped one has four GPUs at most; one of so many, or that adds no nodes, has none."""
    manifest = load_manifest(KubeRayCluster())
    for group in manifest["spec"]["workerGroupSpecs"]:
        group["maxReplicas"] = most or 8
    manifest["spec"]["enableInTreeAutoscaling"] = most is not None
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump(manifest))
    found = timings({"read": 5.0}, nodes=[{"CPU": 8.0, "memory": 32.0, "GPU": 1.0}] * 4)
    of_four = {"workers": 4, "most": 4, "holding": 4, "busy": 4 * 98.0, "computing": 4 * 60.0}
    found = having(found, "infer", **of_four, device=4 * 95.0)
    cluster = {"kind": "kuberay", "manifest": str(file)}
    verdict = judge(tmp_path, found, cluster=cluster, resources={})
    assert (verdict.setting, verdict.gain) == (setting, None)


@pytest.mark.parametrize(
    ("device", "num_gpus", "setting", "said"),
    [
        # Two replicas, busy 70 s of 100 each; on a GPU of theirs both count what one does to it.
        (2 * 95.0, 0.5, None, "its GPUs are busy 95 %"),
        (2 * 60.0, 0.5, "resources.num_gpus=0.25", "only 60 %: let more replicas share one"),
        (2 * 60.0, 0.7, "resources.num_gpus=0.35", "only 60 %: let two replicas share one"),
        (2 * 120.0, 1, None, "its GPUs are busy 100 %"),
        (2 * 120.0, 0.5, None, "its GPUs are busy 100 %"),
    ],
)
def test_what_replicas_that_share_a_gpu_do_to_it_counts_once(
    tmp_path: Path, device: float, num_gpus: float, setting: str | None, said: str
) -> None:
    found = having(timings({}, nodes=ON_GPUS), "infer", workers=2, busy=2 * 70.0, device=device)
    resources = {"num_cpus": 0.25, "num_gpus": num_gpus}
    verdict = judge(tmp_path, found, resources=resources)
    assert verdict.setting == setting
    assert said in verdict.reason


def test_on_a_machine_of_its_own_as_many_share_gpus_as_it_has_room_for(tmp_path: Path) -> None:
    """Where nobody has set a bound, it is the GPUs that set it."""
    found = timings({}, nodes=[{"CPU": 16.0, "memory": 64.0, "GPU": 4.0}], cores=16.0)
    found = having(found, "infer", workers=4, most=4, holding=4, busy=4 * 98.0, device=4 * 60.0)
    verdict = judge(tmp_path, found, resources={})
    assert (verdict.setting, verdict.gain) == ("resources.num_gpus=0.5", 1.63)
    few = replace(found, cores=7.0)
    verdict = judge(tmp_path, few, resources={})
    assert (verdict.setting, verdict.gain) == (None, None)
    assert verdict.reason.endswith("nothing, the nodes have no room for twice as many replicas")
    small = judge(tmp_path, found, resources={"memory_gb": 9})
    assert (small.setting, small.reason) == (None, verdict.reason)


def test_gpus_are_not_shared_where_another_stage_is_nearly_as_busy(tmp_path: Path) -> None:
    found = having(timings({"read": 94.0}, nodes=ON_GPUS), "infer", busy=97.0, device=65.0)
    verdict = judge(tmp_path, found, resources={"num_cpus": 0.25})
    assert (verdict.setting, verdict.gain) == (None, None)
    assert verdict.reason.endswith("only 67 %: nothing, read is nearly as busy")


@pytest.mark.parametrize(
    ("device", "cluster", "stage"),
    [
        (0.0, CLUSTER, "infer"),
        (65.0, CLUSTER, "infer"),
        (0.0, {"kind": "inline"}, "infer"),
        (0.0, {"kind": "inline"}, "preprocess"),
    ],
)
def test_where_memory_ran_out_it_is_not_to_be_shared_by_more(
    tmp_path: Path, device: float, cluster: dict[str, Any], stage: str
) -> None:
    nodes = ON_GPUS if device else NODES["memory for two"][0]
    found = having(timings({stage: 96.0}, nodes=nodes), "infer", device=device)
    asked = {"resources": {"num_cpus": 0.25}, "stages": {}, "cluster": cluster}
    assert judge(tmp_path, found, **asked).setting
    verdict = judge(tmp_path, found, **asked, memory_ran_out=True)
    assert (verdict.stage, verdict.setting, verdict.gain) == (stage, None, None)
    assert verdict.reason.endswith(
        "memory ran out: give replicas more of it; more replicas would each have less"
    )


def test_where_memory_ran_out_batches_are_not_to_be_larger(tmp_path: Path) -> None:
    found = timings({"infer": 20.0}, rows_per_batch=10)
    verdict = judge(tmp_path, found, memory_ran_out=True)
    assert (verdict.stage, verdict.setting) == (None, None)
    assert verdict.reason.endswith("nothing: memory ran out, and larger ones need more of it")


def test_two_of_vllms_engines_share_no_gpu(tmp_path: Path) -> None:
    found = having(timings({"infer": 98.0}), "infer", device=65.0)
    model = {"kind": "vllm", "task": "generate", "name_or_path": "any/model"}
    verdict = judge(tmp_path, found, resources={"num_cpus": 0.25}, model=model)
    assert (verdict.stage, verdict.setting, verdict.gain) == ("infer", None, None)
    assert verdict.reason.endswith(
        "its GPUs are busy only 66 %: nothing, a second engine would ask for most of the GPU's "
        "memory again"
    )


@pytest.mark.parametrize(("asked", "advised"), [(10, 60), ("auto", 6 * 10)])
def test_time_between_stages_calls_for_larger_batches(
    tmp_path: Path, asked: int | str, advised: int
) -> None:
    """Where nobody asks for a number, of as many rows as the job has found good.

    Of each of 16 shares there are six batches.
    """
    stages = {"read": {**LITTLE, "rows_per_batch": asked}}
    found = judge(tmp_path, timings({"infer": 20.0}, rows_per_batch=10), stages=stages)
    assert (found.stage, found.setting, found.gain) == (
        None,
        f"stages.read.rows_per_batch={advised}",
        3.0,
    )
    assert found.reason.startswith("no stage limits it, the busiest is infer with 20 %")


@pytest.mark.parametrize(("asked", "most"), [(50, None), ("auto", None), ("auto", 50)])
def test_larger_batches_are_not_asked_for_where_their_bytes_end_them(
    tmp_path: Path, asked: int | str, most: int | None
) -> None:
    """Ten rows in each, which may have fifty or far more: another bound changes nothing."""
    stages = {"read": {**LITTLE, "rows_per_batch": asked}}
    found = judge(tmp_path, timings({"infer": 20.0}, rows_per_batch=most), stages=stages)
    assert (found.stage, found.setting, found.gain) == (None, None, None)
    assert found.reason.endswith(
        "nothing: they end at 32 MiB or with a part of the input, before they have the rows of "
        "stages.read.rows_per_batch"
    )


@pytest.mark.parametrize(
    ("batches", "replicas", "shares", "setting", "gain"),
    [
        (960, 1, 16, "stages.read.rows_per_batch=80", 3.33),
        (48, 1, 1, "stages.read.rows_per_batch=40", 2.5),
        (96, 8, 1, None, None),  # twelve of each already
        (80, 32, 1, None, None),  # of larger ones some replicas would have none
        (23, 1, 1, None, None),
        (96, 1, 96, None, None),  # each ends with its share
    ],
)
def test_larger_batches_are_enough_for_all_replicas(
    tmp_path: Path,
    batches: int,
    replicas: int,
    shares: int,
    setting: str | None,
    gain: float | None,
) -> None:
    found = timings({}, rows=10 * batches, batches=batches, rows_per_batch=10, shares=shares)
    found = having(found, "infer", workers=replicas, most=replicas, busy=20.0 * replicas)
    verdict = judge(tmp_path, found)
    assert (verdict.setting, verdict.gain) == (setting, gain)
    assert setting or verdict.reason.endswith("nothing: larger ones would be too few")


@pytest.mark.parametrize(
    ("rows", "setting"), [(2_048_000, "stages.read.rows_per_batch=16384"), (1_000_000, None)]
)
def test_batches_that_were_written_together_are_counted_one_by_one(
    tmp_path: Path, rows: int, setting: str | None
) -> None:
    """Ten in each of a hundred records; where those have half the rows, nobody knows."""
    found = timings({"infer": 20.0}, rows=rows, batches=100, rows_per_batch=2_048, shares=4)
    sink = {"kind": "parquet", "path": str(tmp_path / "out"), "rows_per_file": 20_480}
    verdict = judge(tmp_path, found, sink=sink)
    assert (verdict.setting, verdict.gain) == (setting, 3.33 if setting else None)


def test_batches_that_are_kept_do_not_become_larger(tmp_path: Path) -> None:
    found = timings({"infer": 20.0}, rows_per_batch=10, reads_kept=True)
    verdict = judge(tmp_path, found)
    assert (verdict.setting, verdict.gain) == (None, None)
    assert verdict.reason.endswith("nothing: materialized rows stay in their batches")


def evidence_of(
    planned: Any, attempts: list[Any], records: list[Any], own: list[Any] | None = None
) -> Any:
    return SimpleNamespace(
        planned=planned,
        own_attempts=attempts,
        own_records=records if own is None else own,
        accepted=SimpleNamespace(records=records),
        last_job=SimpleNamespace(max_gpus=2.0),
    )


@pytest.mark.parametrize("is_cut", [True, False])
def test_a_run_that_is_cut_reads_batches_that_are_kept(tmp_path: Path, is_cut: bool) -> None:
    occupancy = Occupancy(cores=4.0)
    occupancy.see(0.0, {})
    occupancy.see(9.0, {})
    spent = occupancy.as_json(Counts().snapshot())
    attempt = SimpleNamespace(number=1, occupancy=spent, started=10.0, seconds=9.0)
    record = SimpleNamespace(attempt=1, ok=[1], filtered=[], rejected=[], inferred_at=(14.5, 15.0))
    planned = SimpleNamespace(spec=classify_spec(tmp_path, cluster=CLUSTER), is_cut=is_cut)
    found = timings_of(evidence_of(planned, [attempt], [record]), 9.0)
    assert found
    assert found.reads_kept is is_cut
    assert found.replica_seconds == 4.5
    assert found.max_gpus == 2.0


def test_how_long_a_replica_loads_is_the_longest_attempts_own(tmp_path: Path) -> None:
    """Neither an attempt that died as it loaded counts, nor what was there before this call."""
    attempts, records = [], []
    begun = [(1, 10.0, 300.0, None), (2, 1000.0, 900.0, 1004.5)]
    for number, started, seconds, first_row in begun:
        occupancy = Occupancy(cores=4.0)
        occupancy.see(0.0, {})
        occupancy.see(9.0 if first_row else 1.0, {})
        spent = occupancy.as_json(Counts().snapshot())
        attempt = SimpleNamespace(number=number, occupancy=spent, started=started, seconds=seconds)
        attempts.append(attempt)
    for at in [1004.5, 1700.0]:
        what = {"ok": [1], "filtered": [], "rejected": []}
        records.append(SimpleNamespace(attempt=2, inferred_at=(at, at + 1.0), **what))
    planned = SimpleNamespace(spec=classify_spec(tmp_path, cluster=CLUSTER), is_cut=False)
    found = timings_of(evidence_of(planned, attempts, records), 900.0)
    followed = timings_of(evidence_of(planned, attempts[1:], records, own=records[1:]), 300.0)
    assert found
    assert followed
    assert found.replica_seconds == followed.replica_seconds == 4.5


def test_rows_of_other_attempts_are_none_of_the_longest_ones(tmp_path: Path) -> None:
    """Else its replicas seem quicker than they were, and a server's limit reached that was not."""
    attempts, records = [], []
    for number, seconds, batches in [(1, 100.0, 6), (2, 900.0, 8), (3, 50.0, 5)]:
        occupancy = Occupancy(cores=4.0)
        occupancy.see(0.0, {})
        occupancy.see(seconds, {})
        spent = occupancy.as_json(Counts().snapshot())
        attempts.append(SimpleNamespace(number=number, occupancy=spent, started=1.0, seconds=1.0))
        what = {"ok": [1, 2], "filtered": [3], "rejected": [4], "inferred_at": (1.0, 2.0)}
        records += [SimpleNamespace(attempt=number, **what)] * batches
    planned = SimpleNamespace(spec=classify_spec(tmp_path, cluster=CLUSTER), is_cut=False)
    found = timings_of(evidence_of(planned, attempts, records), 1050.0)
    assert found
    assert (found.rows, found.batches) == (32, 8)
    for record in records:
        record.attempt = 0  # as earlier versions' records
    found = timings_of(evidence_of(planned, attempts, records), 1050.0)
    assert found
    assert (found.rows, found.batches) == (76, 19)


def test_of_a_few_batches_nothing_can_be_said(tmp_path: Path) -> None:
    found = judge(tmp_path, timings({"infer": 97.0}, rows=12, batches=3))
    assert sentence(found.as_json()) == "nothing can be said of 12 rows in so few batches"
    assert (found.stage, found.gain, found.setting) == (None, None, None)


def test_a_short_run_is_mostly_start_up(tmp_path: Path) -> None:
    found = judge(tmp_path, timings({"infer": 2.0}, seconds=2.0), seconds=SHORT)
    assert (found.stage, found.setting) == ("start-up", "cluster.kind=inline")
    said = sentence(found.as_json())
    assert said.startswith("start-up: 9.0 s before the first row, then 2.0 s; set cluster.kind: in")
    for more in (
        {"environment": {"env_vars": {"A": "b"}}},
        {"cluster": {"kind": "ray_jobs", "address": "http://ray:8265"}},
        {"cluster": {"kind": "local", "address": "ray:6379"}},
        {"stages": {"preprocess": {"materialize": True}}},
    ):
        assert judge(tmp_path, timings({}), seconds=SHORT, **more).setting is None
    inline = {"cluster": {"kind": "inline"}, "seconds": SHORT}
    assert "; the job is small" in judge(tmp_path, timings({}), **inline).reason


def test_a_part_of_a_run_says_nothing_of_how_small_the_whole_is(tmp_path: Path) -> None:
    """The last rows of a run of hours, that of a trial, or of a redrive."""
    found = judge(tmp_path, timings({}), seconds=SHORT, is_part=True)
    assert (found.stage, found.setting) == ("start-up", None)
    assert found.reason == (
        "9.0 s before the first row, then 2.0 s; it did only a part of the rows"
    )


def test_start_up_that_goes_by_with_compiling_what_is_imported_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reason(**cluster: Any) -> str:
        return judge(tmp_path, timings({}), seconds=SHORT, cluster=cluster).reason

    said = "process compiles what it imports: unset it, or install with uv pip install --compile-"
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    assert said not in reason(kind="inline")
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    monkeypatch.setattr("tasks.reporting.bytecode.cache_from_source", lambda _: "/none")
    assert said in reason(kind="inline")
    assert said in reason(kind="local")
    assert said not in reason(kind="ray_jobs", address="http://ray:8265"), "its Python is its own"
    monkeypatch.setattr("tasks.reporting.bytecode.cache_from_source", lambda _: __file__)
    assert said not in reason(kind="inline")


def test_a_job_that_works_for_long_is_not_small_whatever_it_waited_for(tmp_path: Path) -> None:
    """As for its turn, for nodes, or for an earlier night's run that it finished first."""
    waited = {"startup": 3600.0, "steady": 2400.0}
    found = judge(tmp_path, timings({"infer": 2300.0}, seconds=2400.0), seconds=waited)
    assert (found.stage, found.share) == ("infer", 0.958)


HTTP = {"kind": "http", "url": "http://llm:8000/v1", "model": "small"}
SERVER = (
    "nothing: it waits for its server, which answers 600 requests a minute of a replica, each in "
    "1.6 s at most on average: raise model.concurrency 16 if it can answer more at a time"
)
LIMIT = "each replica keeps model.requests_per_minute 640 separately: raise that if the server"
LIMIT_OF_TEXTS = "nothing: each replica keeps model.requests_per_minute 20 separately: raise that"


@pytest.mark.parametrize("cluster", ["local", "inline"])
@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({}, SERVER),
        ({"requests_per_minute": 640}, f"nothing: {LIMIT}"),
        ({"requests_per_minute": 2_500_000}, SERVER),
        ({"task": "embedding", "texts_per_request": 32, "requests_per_minute": 20}, LIMIT_OF_TEXTS),
        ({"requests_per_minute": 640, "tokens_per_minute": 2_500_000}, f"nothing: {LIMIT}"),
        (
            {"requests_per_minute": 2_500_000, "tokens_per_minute": 2_500_000},
            "nothing: each replica keeps model.tokens_per_minute 2500000 separately: raise that "
            "if the server allows more; or, if its requests have fewer tokens than 4,170, it "
            "waits for its server, which answers 600",
        ),
    ],
)
def test_no_replicas_are_advised_that_would_break_a_servers_limit(
    tmp_path: Path, cluster: str, limits: dict[str, Any], said: str
) -> None:
    """Each would keep the limit for itself, and together they would ask for several times it."""
    given = {"model": {**HTTP, **limits}, "cluster": {"kind": cluster}}
    for machine_busy in (0.1, 0.98):  # with whatever else runs there
        waiting = timings({"infer": 96.0}, {"infer": 2.0}, machine_busy=machine_busy)
        found = judge(tmp_path, waiting, **given)
        assert (found.stage, found.setting, found.gain) == ("infer", None, None)
        assert said in found.reason
    computing = timings({"infer": 96.0}, {"infer": 90.0}, machine_busy=0.3)
    assert "model." not in judge(tmp_path, computing, **given).reason, "its steps need cores"


def test_what_many_workers_did_is_not_sent_to_one_process(tmp_path: Path) -> None:
    many = timings({"infer": 288.0}, seconds=18.0)
    found = judge(tmp_path, many, seconds={"startup": 20.0, "steady": 18.0})
    assert (found.stage, found.setting) == ("start-up", None)


def test_a_small_job_on_a_ray_that_it_has_joined_needs_none_either(tmp_path: Path) -> None:
    given = classify_spec(tmp_path, cluster={"kind": "local"})
    there = classify_spec(tmp_path, cluster={"kind": "local", "address": "127.0.0.1:6379"})
    verdict = judge_run(there, SHORT, timings({}), given=given)
    assert verdict
    assert verdict.setting == "cluster.kind=inline"


def test_one_process_is_told_of_ray_where_that_pays(tmp_path: Path) -> None:
    inline = {"cluster": {"kind": "inline"}, "stages": {}, "resources": {"max_replicas": 2}}
    found = judge(tmp_path, timings({"preprocess": 50.0, "infer": 48.0}), **inline)
    assert found.setting == "cluster.kind=local"
    assert found.gain is not None
    assert 1.2 < found.gain < 5
    short = timings({"preprocess": 5.0, "infer": 4.8}, seconds=10.0)
    found = judge(tmp_path, short, **inline)
    assert (found.setting, found.gain) == (None, None)
    assert found.reason.endswith("nothing: starting Ray would take longer than its workers save")


@pytest.mark.parametrize(
    ("stage", "machine_busy", "gain"),
    [
        ("infer", 0.95, None),
        ("preprocess", 0.95, None),
        ("preprocess", 0.7, 1.22),  # 70 s of all cores, and 12 of Ray's start
        ("infer", 0.1, 2.78),  # 24 s for four replicas of two threads, and 12
    ],
)
def test_one_process_gains_from_ray_what_its_cores_have_left(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stage: str,
    machine_busy: float,
    gain: float | None,
) -> None:
    """As measured: threads that a stage waits for, and such as its library has not used."""
    for module in ("reporting.workers", "ray_job.own_machine"):
        monkeypatch.setattr(f"tasks.{module}.cores", lambda: 8)
    model = hollow_texts_model(tmp_path, 40 << 20)
    inline = {"cluster": {"kind": "inline"}, "stages": {}, "resources": {}, "model": model}
    spent = timings({stage: 96.0}, {"infer": 92.0}, cores=0.0, machine_busy=machine_busy)
    found = judge(tmp_path, spent, **inline)
    assert (found.stage, found.gain) == (stage, gain)
    if gain is None:
        assert "nothing: the machine's cores are all busy (95 %)" in found.reason
    else:
        assert found.setting == "cluster.kind=local"


def test_cores_that_others_keep_busy_are_not_laid_at_the_jobs_door(tmp_path: Path) -> None:
    """As on a machine that is shared: the model waits for a server, and has no use for a core."""
    inline = {"cluster": {"kind": "inline"}, "stages": {}, "resources": {}}
    found = timings({"infer": 98.0}, machine_busy=1.0, process_busy=0.03)
    assert judge(tmp_path, found, **inline).reason.endswith(
        "the machine's cores are all busy (100 %), and the job had 3 % of them: what else "
        "runs there takes the rest"
    )
    own = judge(tmp_path, replace(found, process_busy=0.9), **inline)
    assert own.reason.endswith("the machine's cores are all busy (100 %), only more of them help")


def test_one_process_is_not_sent_to_replicas_that_would_do_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There two replicas share what here a thread each for preprocessing and model has done."""
    for module in ("reporting.workers", "ray_job.own_machine"):
        monkeypatch.setattr(f"tasks.{module}.cores", lambda: 4)
    model = hollow_texts_model(tmp_path, 40 << 20)
    inline = {"cluster": {"kind": "inline"}, "stages": {}, "resources": {"max_replicas": 2}}
    spent = timings({"preprocess": 96.0, "infer": 96.0}, cores=0.0, machine_busy=0.5)
    found = judge(tmp_path, spent, model=model, **inline)
    assert (found.setting, found.gain) == (None, None)
    assert found.reason.endswith("nothing: starting Ray would take longer than its workers save")


def test_replicas_that_prepare_their_own_batches_are_one_stage(tmp_path: Path) -> None:
    """Two of them, of 50 s each: 30 with preprocessing, 12 with the model."""
    spent = asdict(Spent(workers=2, present=50.0, there=100.0, active=90.0, waiting=10.0))
    nothing = {"rows": 0, "seconds": 0.0, "cpu_seconds": 0.0, "device_seconds": 0.0}
    own = {stage: {**asdict(Spent()), **nothing} for stage in STAGES}
    own["preprocess"] = {**spent, **nothing, "seconds": 60.0, "cpu_seconds": 55.0}
    own["infer"] = {**spent, **nothing, "seconds": 24.0, "cpu_seconds": 20.0}
    found = on_ray(
        {
            "seconds": 50.0,
            "stages": own,
            "replicas": {},
            "cores": 2.0,
            "shares": 8,
            "machine_busy": 0.95,
            "in_replicas": True,
        },
        rows=2_000,
        batches=200,
    )
    assert found.stages["infer"].blocked == 6.0
    assert found.as_json("preprocess")["computing"] == 55.0
    verdict = judge(tmp_path, found)
    assert (verdict.stage, verdict.share, verdict.setting) == ("infer", 0.84, None)
    assert verdict.reason == (
        "busy 84 % of the time of its 2 workers, 71 % of it with preprocessing; nothing: the "
        "machine's cores are all busy (95 %), only more of them help"
    )


def test_time_of_workers_begins_with_the_model() -> None:
    """A reader and a replica: 10 s of loading, 4 of waiting, 3 at work, 3 held back."""
    counts = Counts()
    occupancy = Occupancy(cores=2.0, rows_per_batch=10, shares=3)
    loading = {"read": StageWorkers(1, 1, 2), "infer": StageWorkers(0, 0, 0)}
    idle = {"read": StageWorkers(1, 1, 2), "infer": StageWorkers(0, 1, 0, {"a": False})}
    at_work = {"infer": StageWorkers(1, 1, 0, {"a": True})}
    held_back = {"infer": StageWorkers(0, 1, 1, {"a": False})}
    assert occupancy.as_json(counts.snapshot()) == {}
    occupancy.see(0.0, loading)
    counts.add(Report("read", 10, 0, 0, 7.0))
    occupancy.see(10.0, idle)
    occupancy.as_json(counts.snapshot())
    counts.add(Report("read", 10, 0, 0, 2.5, cpu_seconds=0.5))
    for now, workers in ((14.0, at_work), (17.0, held_back), (20.0, {})):
        occupancy.see(now, workers)
    found = occupancy.as_json(counts.snapshot())
    assert found["seconds"] == 10.0
    read, infer = found["stages"]["read"], found["stages"]["infer"]
    assert (read["there"], read["present"], read["seconds"], read["cpu_seconds"]) == (
        4,
        4,
        2.5,
        0.5,
    )
    assert (infer["waiting"], infer["active"], infer["held_back"]) == (4, 3, 3)
    assert found["replicas"]["a"]["waiting"] == 4
    assert on_ray(found, rows=20, batches=2).rows_per_batch == 10


def test_a_machine_is_as_busy_as_its_cores_were_since_the_model_was_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, busy = iter([100.0, 110.0, 120.0]), iter([50.0, 65.0, 95.0])
    monkeypatch.setattr("tasks.ray_job.occupancy.time.monotonic", lambda: next(clock))
    monkeypatch.setattr("tasks.ray_job.occupancy.busy_seconds", lambda: next(busy))
    monkeypatch.setattr("tasks.ray_job.occupancy.cores", lambda: 2)
    occupancy, counts = Occupancy(is_one_machine=True), Counts().snapshot()
    occupancy.see(0.0, {"infer": StageWorkers(0, 1, 0, {"a": False})})
    found = [occupancy.as_json(counts)["machine_busy"] for _ in range(3)]
    assert found == [None, 0.75, 1.0]  # of some who share a core there is more than it has


def test_a_stage_that_sleeps_does_not_compute() -> None:
    """However busy the machine is."""
    from tests.ray_job.test_stage_adapter import batch_of

    reports: list[Report] = []

    def run(batch: Any) -> Any:
        time.sleep(0.1)
        yield batch

    list(with_reports("infer", run, reports.append)(batch_of([1, 2])))
    assert 0 <= reports[0].cpu_seconds < 0.05


def test_a_device_clock_adds_up_what_the_driver_says() -> None:
    class Driver:
        gpu = 50

        def nvmlDeviceGetUtilizationRates(self, device: str) -> Any:
            return type("Rates", (), {"gpu": self.gpu if device == "a" else 0})

    clock = DeviceClock(Driver(), ["a", "b"])
    clock.look(2.0)
    clock.look(2.0)
    assert clock.lap() == pytest.approx(1.0)
    assert clock.lap() == 0.0


def test_a_device_clock_goes_on_where_the_driver_fails_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is no error of the driver's, here the end of the test, passes."""
    told = iter([0, None, 80])

    class NVMLError(Exception): ...

    def rates(device: str) -> Any:
        gpu = next(told)
        if gpu is None:
            raise NVMLError("GPU is lost")
        return SimpleNamespace(gpu=gpu)

    driver = SimpleNamespace(NVMLError=NVMLError, nvmlDeviceGetUtilizationRates=rates)
    clock = DeviceClock(driver, ["a"])
    monkeypatch.setattr("tasks.ray_job.device_clock.LOOK_EVERY_SECONDS", 0.01)
    with pytest.raises(StopIteration):
        clock.run()
    assert clock.lap() > 0


@pytest.mark.skipif(sys.platform != "linux", reason="its scheduler tells")
@pytest.mark.timeout(60)
def test_a_thread_that_waits_for_a_core_is_known_to() -> None:
    """Another process has its core half of the time."""
    core = min(os.sched_getaffinity(0))
    spin = f"import os; os.sched_setaffinity(0, {{{core}}}); print(flush=True)\nwhile True: pass"

    def compute() -> Counter[str]:
        os.sched_setaffinity(0, {core})  # of this thread
        clock, spent = CoreClock(), Counter[str]()
        while spent["queued_seconds"] < 0.1:
            sum(range(10_000))
            spent.update(dict(clock.lap()))
        return spent

    with subprocess.Popen([sys.executable, "-c", spin], stdout=subprocess.PIPE) as other:
        assert other.stdout
        other.stdout.readline()
        begun = time.monotonic()
        with ThreadPoolExecutor(1) as pool:
            spent = pool.submit(compute).result()
        other.kill()
    assert spent["cpu_seconds"] > 0
    assert spent["cpu_seconds"] + spent["queued_seconds"] <= time.monotonic() - begun


def test_a_run_in_one_process_measures_its_stages(tmp_path: Path) -> None:
    make_inputs(tmp_path / "in", files=80)
    started = time.time()
    planned = make_plan(classify_spec(tmp_path))
    run_attempt(planned)
    report = report_run(planned, started, publish_planned(planned), 1)
    found = timings_of(look_back(planned, started), report.seconds["steady"])
    assert found is not None
    assert (found.rows, found.batches) == (4_000, 80)
    assert found.machine_busy is not None
    assert 0 < found.machine_busy <= 1
    assert found.process_busy is not None
    assert 0 < found.process_busy <= 1
    infer = found.stages["infer"]
    assert infer.busy >= 80 * 0.02
    assert infer.computing < infer.busy
    assert report.bottleneck is not None
    page = (tmp_path / "out.state" / "runs" / planned.run.run_id / "report.md").read_text()
    assert "<td>bottleneck</td>" in page
    assert np.isclose(report.stages["infer"]["computing"], infer.computing, atol=1e-3)


def test_a_report_tells_how_busy_gpus_were() -> None:
    found = having(timings({"infer": 98.0}, nodes=ON_GPUS), "infer", workers=2, device=2 * 60.0)
    assert found.as_json("infer")["gpu_busy"] == 0.6
    assert timings({"infer": 98.0}).as_json("infer")["gpu_busy"] is None
    assert "gpu_busy" not in found.as_json("write")
