"""What a config is made of, and in what two of them differ, named as the spec names it."""

from contextlib import suppress
from typing import Any

from pydantic import ValidationError

from tasks.errors import InvalidSpec
from tasks.kinds.models import Model
from tasks.kinds.secret_names import shown_at
from tasks.outputs import output_of
from tasks.protocol.layout import RunFolder
from tasks.protocol.plan_file import Plan, load_plan
from tasks.protocol.storage import FsspecStorage
from tasks.run_folder import read_header
from tasks.spec import BatchInferenceSpec

PLACE = frozenset({"name_or_path", "path", "weight_files"})
"""Fields of models that only say where weights lie; the fingerprint is of what lies there."""
UNSET = {"limit": "none"}
DEFAULT = "its default"
WEIGHTS = "the model's files"
UNSHOWN = {
    "fingerprints.model": WEIGHTS,
    "fingerprints.code": "the code of steps or model",
    "cut": "how the source is cut into inputs",
}
"""Parts that are digests and the like: that they differ is said, and not what they are."""
NAMES = {"dtype": "resources.dtype", "limit": "--limit"}
"""Parts that a spec or a call names otherwise."""
A_REDRIVE = "one of them is a redrive"
OPTION_NAMES = {"replace_output": "--replace-output", "redrive": A_REDRIVE}
"""Options of a call that are no part of its config."""
UNREADABLE = "the spec, which this release cannot read"


def place_of(model: Model) -> frozenset[str]:
    """Fields of a model that decide nothing: where it lies, if it is known what lies there."""
    return PLACE if model.is_known_by_content else frozenset()


def parts_of(
    spec: BatchInferenceSpec,
    fingerprints: dict[str, str],
    limit: int | None,
    without: frozenset[str],
) -> dict[str, Any]:
    """All that decides what a row's prediction is, but not which rows there are.

    Args:
        spec: what to run.
        fingerprints: of weights and code.
        limit: how many rows it stops after, if it does.
        without: fields of the model to leave out.
    """
    model, sink = spec.model, spec.sink
    parts = {
        "steps": [step.identity() for step in spec.steps],
        "model": model.identity(model.not_in_identity | without),
        "sink": sink.identity(sink.not_in_identity),
        "dtype": spec.resources.dtype,
        "fingerprints": fingerprints,
        "limit": limit,
        "cut": spec.source.cut,
    }
    return {name: part for name, part in parts.items() if part is not None}


def left_by(storage: FsspecStorage, run: RunFolder) -> tuple[Plan, dict[str, Any]] | None:
    """The plan and header of a run; None where one of them is gone or damaged."""
    with suppress(FileNotFoundError, InvalidSpec):
        plan, header = load_plan(storage, run), read_header(storage, run)
        return None if plan is None else (plan, header)
    return None


def differing_parts(
    storage: FsspecStorage,
    run: RunFolder,
    spec: BatchInferenceSpec,
    fingerprints: dict[str, str],
    call: dict[str, Any],
) -> tuple[list[str], list[str]]:
    """In what a spec differs from the one that a run was planned with.

    Args:
        storage: of the output.
        run: its folder.
        spec: what to run now.
        fingerprints: of weights and code, now.
        call: options that make another run.

    Returns:
        What of source and options does, and what of all that decides a prediction. Both are empty
        where the run's plan or header is gone or damaged.
    """
    left = left_by(storage, run)
    if left is None:
        return [], []
    plan, header = left
    then = header["call"]
    options = [text for name, text in OPTION_NAMES.items() if then.get(name) != call[name]]
    try:
        was = BatchInferenceSpec.model_validate(header["spec"])
    except ValidationError:
        return options, [UNREADABLE]
    # Of its config it is no part, and another name of the folder is another run all the same.
    if output_of(was)[1].path != output_of(spec)[1].path:
        options += differences(was.sink.path, spec.sink.path, "sink.path")
    old, new = (each.source.as_json() for each in (was, spec))
    without = place_of(spec.model) & place_of(was.model)
    parts = (
        parts_of(was, plan.pins["fingerprints"], then["limit"], without),
        parts_of(spec, fingerprints, call["limit"], without),
    )
    found = differences(*parts)
    if any(each.startswith("model") for each in found):  # which names other weights with it
        found = [each for each in found if each != WEIGHTS]
    return differences(old, new, "source") + options, found


def differences(was: Any, now: Any, *names: str) -> list[str]:
    """Each place where JSON values differ, with what was there and what is.

    Args:
        was: of then.
        now: of now.
        names: of the fields that lead there.
    """
    if was == now:
        return []
    if isinstance(was, dict) and isinstance(now, dict) and was.get("kind") == now.get("kind"):
        return [
            each
            for key in sorted({*was, *now})
            for missing in [UNSET.get(key, DEFAULT)]
            for each in differences(was.get(key, missing), now.get(key, missing), *names, key)
        ]
    if isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        pairs = enumerate(zip(was, now, strict=True))
        return [each for at, pair in pairs for each in differences(*pair, *names, str(at))]
    place = ".".join(names)
    if place in UNSHOWN:
        return [UNSHOWN[place]]
    words = (DEFAULT, *UNSET.values())
    old, new = (each if each in words else shown_at([*names], each) for each in (was, now))
    name = NAMES.get(place, place)
    if old == new:  # as long texts and lists are cut, and secrets hidden
        return [f"{name}, shown as {new} then and now, differs in the rest"]
    return [f"{name} was {old}, now {new}"]
