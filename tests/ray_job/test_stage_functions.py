"""What the stages do to columns: media travel no further than they must."""

import shutil
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tasks.errors import InvalidSpec
from tasks.kinds.clusters import RayJobsCluster
from tasks.plan import make_plan
from tasks.protocol.batch import RowBatch
from tasks.ray_job.batch_limits import remembered_limit
from tasks.ray_job.job import Job
from tasks.ray_job.reading import read_share
from tasks.ray_job.stage_functions import infer_stage, preprocess_stage
from tasks.run import left_to_do, next_attempt
from tasks.spec_file import parse_spec
from tests.flows.conftest import CODE
from tests.kinds.tiny_models import save_bert, save_vit
from tests.llm_server import MODEL, llm_server


def job_of(
    folder: Path,
    model: dict[str, Any],
    keep_columns: list[str] | None,
    steps: list[dict[str, Any]] | None = None,
) -> Job:
    for name, size in (("a", (20, 30)), ("b", (40, 10))):
        Image.new("RGB", size, "red").save(folder / f"{name}.png")
    raw = {
        "source": {"kind": "images", "path": str(folder)},
        "steps": steps or [],
        "model": model,
        "sink": {
            "kind": "parquet",
            "path": str(folder.parent / f"out-{bool(steps)}"),
            "keep_columns": keep_columns,
        },
        "environment": {"working_dir": str(CODE)},
        "cluster": {"kind": "inline"},
    }
    planned = make_plan(parse_spec(raw))
    return next_attempt(planned, left_to_do(planned, tried=False)).job


def through(job: Job) -> tuple[RowBatch, RowBatch]:
    (read,) = read_share(job, 0, job.num_shards, lambda report: None)
    (prepared,) = preprocess_stage(job, 1)(read)
    (predicted,) = infer_stage(job, "cpu", 1)(prepared)
    return prepared, predicted


@pytest.mark.parametrize("keep", [None, ["path", "image"]], ids=["by default", "kept"])
def test_images_are_dropped_unless_kept(tmp_path: Path, keep: list[str] | None) -> None:
    model, folder = tmp_path / "model", tmp_path / "in"
    folder.mkdir()
    save_vit(model)
    spec = {"kind": "huggingface", "task": "image-classification", "name_or_path": str(model)}
    prepared, predicted = through(job_of(folder, spec, keep))
    assert ("image" in prepared.rows.column_names) == (keep is not None)
    assert ("image" in predicted.rows.column_names) == (keep is not None)
    assert {"path", "predicted_label", "predicted_score"} < set(predicted.rows.column_names)


def test_your_own_class_sees_pixels(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    spec = {"kind": "python", "class": "predictors:Shapes"}
    prepared, predicted = through(job_of(folder, spec, None))
    assert "image" in prepared.rows.column_names
    assert "image" not in predicted.rows.column_names
    assert predicted.rows["height"].to_pylist() == [30, 10]
    assert np.allclose(predicted.rows["red"].to_pylist(), 255)


def test_a_step_may_change_images_before_a_hugging_face_model(tmp_path: Path) -> None:
    model, folder = tmp_path / "model", tmp_path / "in"
    folder.mkdir()
    save_vit(model)
    spec = {"kind": "huggingface", "task": "image-classification", "name_or_path": str(model)}
    steps = [{"kind": "python", "function": "predictors:darken"}]
    _, plain = through(job_of(folder, spec, None))
    _, darker = through(job_of(folder, spec, None, steps))
    assert len(darker.rows) == 2, "no row is set aside"
    scores = [each.rows["predicted_score"].to_pylist() for each in (plain, darker)]
    assert scores[0] != scores[1]


def test_columns_to_keep_must_be_there(tmp_path: Path) -> None:
    model = {"kind": "python", "class": "predictors:Shapes"}
    right, wrong = tmp_path / "right/in", tmp_path / "wrong/in"
    right.mkdir(parents=True)
    wrong.mkdir(parents=True)
    _, predicted = through(job_of(right, model, ["path", "height"]))
    assert {"path", "height"} <= set(predicted.rows.column_names)
    with pytest.raises(InvalidSpec, match=r"sink.keep_columns: 'paths' is not among .*, path"):
        through(job_of(wrong, model, ["paths"]))


@pytest.mark.parametrize(
    ("batch_size", "halvings", "rows"),
    [("auto", 0, 512), ("auto", 1, 64), (64, 0, 64), (5_000, 0, 5_000)],
    ids=["quick calls grow", "memory has run out before", "as asked", "as many as asked"],
)
def test_what_your_own_class_gets_after_a_quick_call(
    batch_size: Any, halvings: int, rows: int, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    job = job_of(folder, {"kind": "python", "class": "predictors:Shapes"}, None)
    resources = job.spec.resources.model_copy(update={"batch_size": batch_size})
    job = replace(job, spec=job.spec.model_copy(update={"resources": resources}))
    for _ in range(halvings):
        remembered_limit(job, "cpu").halve(tried=64)
    stage = infer_stage(job, "cpu", 1)
    assert not stage.cuts_itself
    stage.pace.follow(64, seconds=0.001)
    assert stage.pace.rows == rows
    stage.pace.follow(rows, seconds=0.05)
    assert stage.pace.rows == rows, "that was no quick call"


def test_a_model_that_was_replaced_after_the_plan_predicts_nothing(tmp_path: Path) -> None:
    import skops.io
    from sklearn.linear_model import LinearRegression

    rows = pa.table({"a": [1.0, 2.0]})
    pq.write_table(rows, tmp_path / "in.parquet")
    file = tmp_path / "model.skops"
    skops.io.dump(LinearRegression().fit(rows.to_pandas(), [1, 2]), file)
    job = planned_job(tmp_path, {"kind": "sklearn", "path": str(file)})
    infer_stage(job, "cpu", 1)
    skops.io.dump(LinearRegression().fit(rows.to_pandas(), [2, 1]), file)
    with pytest.raises(InvalidSpec, match=r"model\.skops' is another model than when the run"):
        infer_stage(job, "cpu", 1)


def test_a_folder_whose_weights_were_replaced_after_the_plan_predicts_nothing(
    tmp_path: Path,
) -> None:
    from safetensors.torch import load_file, save_file

    pq.write_table(pa.table({"text": ["a", "b"]}), tmp_path / "in.parquet")
    file = tmp_path / "bert" / "model.safetensors"
    save_bert(file.parent)
    model = {"kind": "huggingface", "task": "text-classification", "name_or_path": str(file.parent)}
    job = planned_job(tmp_path, model)
    infer_stage(job, "cpu", 1)
    weights = {name: each * 2 for name, each in load_file(file).items()}
    save_file(weights, file, {"format": "pt"})
    with pytest.raises(InvalidSpec, match=r"model\.name_or_path: .* is another model than when"):
        infer_stage(job, "cpu", 1)


@pytest.mark.parametrize("kind", ["torch", "huggingface"])
def test_a_model_whose_file_is_written_over_predicts_nothing_more(
    tmp_path: Path, kind: str
) -> None:
    """Its weights are the file's own pages: rows of two models would be published as of one."""
    import torch
    from safetensors.torch import load_file, save_file

    from tests.kinds import torch_code

    if kind == "torch":
        pq.write_table(pa.table({"x": [[1.0] * 64] * 2}), tmp_path / "in.parquet")
        file = tmp_path / "digits.pt"
        torch.save(torch_code.Digits().state_dict(), file)
        code = "tests.kinds.torch_code:Digits"
        model = {"kind": kind, "path": str(file), "class": code, "columns": ["x"]}
    else:
        pq.write_table(pa.table({"text": ["a", "b"]}), tmp_path / "in.parquet")
        file = tmp_path / "bert" / "model.safetensors"
        save_bert(file.parent)
        task = "text-classification"
        model = {"kind": kind, "task": task, "name_or_path": str(file.parent)}
    first, other = tmp_path / "first", tmp_path / "other"
    shutil.copy(file, first)
    if kind == "torch":
        torch.save(torch_code.Digits().state_dict(), other)
    else:
        save_file({name: each * 2 for name, each in load_file(file).items()}, other)

    job = planned_job(tmp_path, model)
    (read,) = read_share(job, 0, job.num_shards, lambda report: None)
    (rows,) = preprocess_stage(job, 1)(read)
    stage = infer_stage(job, "cpu", 1)
    (before,) = stage(rows)
    file.touch()
    (touched,) = stage(rows)
    shutil.copy(other, tmp_path / "new")
    (tmp_path / "new").rename(file)
    (after_rename,) = stage(rows)
    assert before.rows == touched.rows == after_rename.rows

    shutil.copy(first, file)
    stage = infer_stage(job, "cpu", 1)
    file.touch()
    list(stage(rows))
    shutil.copyfile(other, file)
    with pytest.raises(InvalidSpec, match=r"model\.\w+: .* is another model than when the run"):
        list(stage(rows))


def test_a_file_that_is_not_the_models_may_change(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a", "b"]}), tmp_path / "in.parquet")
    folder, beside = tmp_path / "bert", tmp_path / "mapped"
    save_bert(folder)
    beside.write_bytes(bytes(4096))
    mapped = np.memmap(beside, mode="r+")
    task = "text-classification"
    job = planned_job(tmp_path, {"kind": "huggingface", "task": task, "name_or_path": str(folder)})
    (read,) = read_share(job, 0, job.num_shards, lambda report: None)
    (rows,) = preprocess_stage(job, 1)(read)
    stage = infer_stage(job, "cpu", 1)
    (folder / "README.md").write_text("what it is for")
    mapped[0] = 1
    mapped.flush()
    assert len(list(stage(rows))) == 1


def test_a_class_whose_weights_were_replaced_after_the_plan_predicts_nothing(
    tmp_path: Path,
) -> None:
    pq.write_table(pa.table({"x": [1.0]}), tmp_path / "in.parquet")
    (tmp_path / "w.txt").write_text("2")
    code = {"kind": "python", "class": "tests.kinds.torch_code:Digits"}
    job = planned_job(tmp_path, {**code, "weight_files": [str(tmp_path / "w.txt")]})
    (tmp_path / "w.txt").write_text("3")
    with pytest.raises(InvalidSpec, match=r"model\.weight_files: .* is another model than when"):
        infer_stage(job, "cpu", 1)


def test_code_that_was_changed_after_the_plan_does_no_rows(tmp_path: Path) -> None:
    """As where it is brought up to date while a run is at work: later processes would import it."""
    pq.write_table(pa.table({"x": [1.0]}), tmp_path / "in.parquet")
    file = tmp_path / "own_doubling.py"
    code = "class Double:\n    def __call__(self, batch):\n        return {'y': batch['x'] * 2}\n"
    file.write_text(code)
    model = {"kind": "python", "class": "own_doubling:Double"}
    job = planned_job(tmp_path, model, environment={"working_dir": str(tmp_path)})
    preprocess_stage(job, 1)
    file.write_text(code.replace("2", "3"))
    sys.modules.pop("own_doubling", None)  # as in another process
    for begin in (partial(preprocess_stage, job, 1), partial(infer_stage, job, "cpu", 1)):
        with pytest.raises(InvalidSpec, match="has other code than when the run was planned"):
            begin()
    sent = job.spec.model_copy(update={"cluster": RayJobsCluster(address="http://127.0.0.1:1")})
    infer_stage(replace(job, spec=sent), "cpu", 1)  # with the code as it was sent


def planned_job(tmp_path: Path, model: dict[str, Any], **more: Any) -> Job:
    """The first attempt of a run over `in.parquet`."""
    raw = {
        "name": "nightly",
        "source": {"kind": "parquet", "path": str(tmp_path / "in.parquet")},
        "model": model,
        "sink": {"kind": "parquet", "path": str(tmp_path / "out")},
        "cluster": {"kind": "inline"},
        **more,
    }
    planned = make_plan(parse_spec(raw))
    return next_attempt(planned, left_to_do(planned, tried=False)).job


def test_calls_of_limited_tokens_begin_small_and_grow_while_they_are_quick(tmp_path: Path) -> None:
    """Of long texts as many as are in flight took more than ten minutes: each attempt stalled."""
    pq.write_table(pa.table({"prompt": [f"word {n}" for n in range(30)]}), tmp_path / "in.parquet")
    with llm_server() as server:
        fields = {"kind": "http", "url": server.url, "model": MODEL, "concurrency": 12}
        job = planned_job(tmp_path, {**fields, "tokens_per_minute": 1e9})
        (read,) = read_share(job, 0, job.num_shards, lambda report: None)
        (rows,) = preprocess_stage(job, 1)(read)
        stage = infer_stage(job, "cpu", 1)
        assert (stage.pace.rows, stage.pace.most) == (1, 12)
        (made,) = stage(rows)
        assert stage.pace.rows == 12
    assert len(made.rows) == 30
    assert [each["messages"][0]["content"] for each in server.bodies[:1]] == ["word 0"]
    stage.pace.follow(12, seconds=120)
    assert stage.pace.rows == 3
