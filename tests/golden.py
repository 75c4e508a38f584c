"""What upgrades must not change by accident: digests of the shipped specs, defaults of all kinds.

After a change that is meant: `python -m tests.golden`.
"""

import json
import typing
from collections.abc import Set
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tasks.kinds import models, sinks, sources, steps
from tasks.planning.config import config_digests, digest
from tasks.planning.new_inputs import NewInputs
from tasks.spec_file import complete_spec
from tasks.spec_reading.yaml import parse_yaml

if typing.TYPE_CHECKING:
    from tasks.kinds.kind import Kind

FILE = Path(__file__).with_suffix(".json")
SPECS = Path(__file__).parents[1] / "deployments" / "specs"
FOLDER = Path("/project/deployments/specs")
"""Where the specs are taken to lie, for digests that are the same on every machine."""
UNIONS = {
    "source": sources.AnySource,
    "step": steps.AnyStep,
    "model": models.AnyModel,
    "sink": sinks.AnySink,
}
Json = dict[str, Any]


def digests_of(file: Path) -> Json:
    """Digests of a spec's config and source, whatever weights and code are."""
    raw = typing.cast("Json", parse_yaml(file.read_text()))
    spec = complete_spec(raw, [], FOLDER)
    anywhere, here = config_digests(spec, {"model": "", "code": ""}, None)
    return {
        "config": here,
        "config_anywhere": anywhere,
        "source": digest(NewInputs.key(spec)),
    }


def defaults_of(model: type[BaseModel], without: Set[str], prefix: str = "") -> Json:
    """Defaults by field, also of models within.

    Args:
        model: a kind, or what one of its fields holds.
        without: fields that say nothing about what comes out.
        prefix: of the names.
    """
    found: Json = {}
    for name, field in model.model_fields.items():
        if isinstance(field.default, BaseModel):
            found |= defaults_of(type(field.default), frozenset(), f"{prefix}{name}.")
        elif name not in without and not field.is_required():
            found[prefix + name] = field.default
    return found


def kinds() -> dict[str, Json]:
    """Each kind with the number of its results' version and its defaults."""
    members: dict[str, type[Kind]] = {
        f"{part} {kind.model_fields['kind'].default}": kind
        for part, union in UNIONS.items()
        for kind in typing.get_args(typing.get_args(union)[0])
    }
    return {
        name: {
            "results_version": kind.results_version,
            "defaults": defaults_of(kind, kind.not_in_identity | {"kind"}),
        }
        for name, kind in sorted(members.items())
    }


def current() -> Json:
    """What is to be in the file."""
    specs = {file.stem: digests_of(file) for file in sorted(SPECS.glob("*.yaml"))}
    return {"specs": specs, "kinds": kinds()}


def changed_defaults(old: dict[str, Json], new: dict[str, Json]) -> list[str]:
    """Defaults that have changed in kinds whose results are said to be the same."""
    return [
        f"{name}: {field}"
        for name, kind in old.items()
        if name in new and new[name]["results_version"] == kind["results_version"]
        for field, default in kind["defaults"].items()
        if field not in new[name]["defaults"] or new[name]["defaults"][field] != default
    ]


def main() -> None:
    """Write the file anew."""
    new = current()
    changed = changed_defaults(json.loads(FILE.read_text())["kinds"], new["kinds"])
    if changed:
        raise SystemExit(f"raise results_version in tasks/kinds for changed defaults: {changed}")
    FILE.write_text(json.dumps(new, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
