"""How large batches are where the user has no wish."""

from typing import Any

import pytest

from tasks.ray_job.batch_sizes import in_equal_shares
from tests.ray_job.test_own_machine import job_of, spec

IMAGES = {"source": {"kind": "images", "path": "in"}}
TREES = {"model": {"kind": "xgboost", "path": "model.ubj"}}
TEXTS = {"model": {"kind": "huggingface", "task": "feature-extraction", "name_or_path": "bert"}}
PROMPTS = {"model": {"kind": "huggingface", "task": "text-generation", "name_or_path": "gpt2"}}
SIZES: dict[str, tuple[dict[str, Any], int | None, int]] = {
    # Of two replicas each is to have twelve.
    "what each replica is to have": ({}, 24_000, 1_024),  # a multiple of the 64 in a call
    "of many rows no more than can be lost": ({}, 1_000_000, 2_048),
    "of few rows no fewer than are worth it": ({}, 1_000, 256),
    "nobody knows how many there are": ({}, None, 2_048),
    "as asked": ({"stages": {"read": {"rows_per_batch": 700}}}, 24_000, 700),
    "whole calls": ({"resources": {"batch_size": 500}}, 24_000, 1_000),
    "a call is all of it": ({"resources": {"batch_size": 5_000}}, 24_000, 5_000),
    "images": (IMAGES, 600, 64),
    "trees": (TREES, 40_000_000, 1_048_576),
    "some trees": (TREES, 2_400_000, 100_000),
    "few trees": (TREES, 200_000, 65_536),
    "texts that are sorted": (TEXTS, 6_000, 1_024),
    "texts that are written": (PROMPTS, 1_000, 256),
    "files of so many rows": (
        {"sink": {"kind": "parquet", "path": "out", "rows_per_file": 512}},
        24_000,
        512,
    ),
}


@pytest.mark.parametrize(("changes", "rows", "wanted"), SIZES.values(), ids=SIZES)
def test_every_replica_gets_its_share(
    changes: dict[str, Any], rows: int | None, wanted: int
) -> None:
    asked = spec(**changes)
    two = asked.resources.model_copy(update={"max_replicas": 2})
    job = job_of(asked.model_copy(update={"resources": two}), rows)
    assert in_equal_shares(job).spec.rows_per_batch == wanted


def test_rows_that_are_kept_for_another_job_stay_as_they_are() -> None:
    job = job_of(spec(), 600, stages=("read", "preprocess"))
    assert in_equal_shares(job) == job
