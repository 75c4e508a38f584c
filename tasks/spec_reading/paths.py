"""Paths in a spec: which fields name them, and what relative ones count from."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tasks.kinds.mistaken_paths import is_as_written
from tasks.kinds.tables.iceberg import METADATA
from tasks.spec import BatchInferenceSpec

MODEL_PLACES = ("path", "weight_files")


def resolve_paths(raw: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Make the file's relative local paths absolute; names of hub models stay as they are."""
    raw = dict(raw)
    for section in ("source", "sink"):
        part = raw.get(section)
        is_name = section == "source" and is_table_name(part)
        if part is not None and not is_name:
            raw[section] = resolve_field(part, "path", folder)
    at = (raw.get("stages") or {}) if isinstance(raw.get("stages"), dict) else {}
    if "preprocess" in at:
        raw["stages"] = {**at, "preprocess": resolve_field(at["preprocess"], "path", folder)}
    if isinstance(raw.get("steps"), list):
        raw["steps"] = [resolve_name(step, "tokenizer", folder) for step in raw["steps"]]
    if isinstance(raw.get("gates"), list):
        raw["gates"] = [resolve_field(gate, "baseline", folder) for gate in raw["gates"]]
    model = resolve_name(raw.get("model"), "name_or_path", folder)
    for name in MODEL_PLACES:
        model = resolve_field(model, name, folder)
    if model is not None:
        raw["model"] = model
    if "cluster" in raw:
        raw["cluster"] = resolve_field(raw["cluster"], "manifest", folder)
    environment = raw.get("environment") or {}
    if isinstance(environment, dict):
        working_dir = absolute(environment.get("working_dir", ".") or ".", folder)
        raw["environment"] = {**environment, "working_dir": working_dir}
    return raw


def is_table_name(source: Any) -> bool:
    """Whether a source's path is a table's name in a catalog, and no place."""
    if not isinstance(source, dict) or source.get("kind") != "iceberg":
        return False
    return not str(source.get("path")).endswith(METADATA)


def resolve_field(part: Any, field: str, folder: Path) -> Any:
    """A part of the spec in which a field, where it is given, is a path."""
    if not isinstance(part, dict) or field not in part:
        return part
    return {**part, field: absolute(part[field], folder)}


def resolve_name(part: Any, field: str, folder: Path) -> Any:
    """A part of the spec in which a field is a folder here, or a name on a hub."""
    if not isinstance(part, dict) or not isinstance(part.get(field), str):
        return part
    name = os.path.expanduser(part[field])
    is_folder = name.startswith(".") or os.path.exists(folder / name)
    return {**part, field: absolute(name, folder)} if is_folder else part


def absolute(path: Any, folder: Path) -> Any:
    """A local path, or a list of them, as seen from a folder; URLs stay as they are."""
    if isinstance(path, list):
        return [absolute(each, folder) for each in path]
    if not isinstance(path, str) or not path:
        return path
    if is_as_written(expanded := os.path.expanduser(path)):
        return path
    path = expanded
    while path in (".", "..") or path.startswith(("./", "../")):
        step, _, path = path.partition("/")
        path = path.lstrip("/")
        folder = folder.parent if step == ".." else folder  # no links in it: up is by its name
    return os.path.join(folder, path) if path else str(folder)


def places(spec: BatchInferenceSpec) -> Iterator[tuple[str, str]]:
    """Places of the spec, with the fields that name them."""
    if not is_table_name(spec.source.model_dump()):
        yield from (("source.path", path) for path in spec.source.paths)
    yield "sink.path", spec.sink.path
    for at, gate in enumerate(spec.gates):
        if gate.compared_with:
            yield f"gates.{at}.baseline", gate.compared_with
    yield from (("model.weight_files", path) for path in getattr(spec.model, "weight_files", ()))
    for field, path in (
        ("model.path", getattr(spec.model, "path", None)),
        ("stages.preprocess.path", spec.stages.preprocess.path),
    ):
        if path:
            yield field, path


def places_read(spec: BatchInferenceSpec) -> Iterator[tuple[str, str]]:
    """Files and folders of this machine that are read beside those, and by which field."""
    if manifest := getattr(spec.cluster, "manifest", None):
        yield "cluster.manifest", manifest
    if spec.runs_own_code:
        yield "environment.working_dir", spec.environment.working_dir
    names = [("model.name_or_path", getattr(spec.model, "name_or_path", None))]
    names += [
        (f"steps.{at}.tokenizer", getattr(step, "tokenizer", None))
        for at, step in enumerate(spec.steps)
    ]
    # Others are names on the Hub, or folders with such a name, which are there.
    yield from ((field, name) for field, name in names if name and name.startswith("."))
