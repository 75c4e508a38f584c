"""The fake that stands in for a spec's model, made from what the model's own fields say."""

from dataclasses import fields
from typing import Any

from tasks.errors import InvalidSpec
from tasks.fake_model import LABELS, MAKERS, FakeModel
from tasks.kinds.likest import did_you_mean
from tasks.kinds.models import (
    AnyModel,
    HttpModel,
    HuggingFaceModel,
    PythonModel,
    VllmModel,
    output_names,
)
from tasks.kinds.models.hf.options import CLASSIFICATION, DETECTION, EMBEDDING, SEGMENTATION
from tasks.kinds.models.tensors.model import TensorModel

LISTS = ("outputs", "labels", "refuses")
MANY = 1 << 16
"""More labels than an image of a fake has."""


def faked(model: AnyModel, **given: Any) -> PythonModel:
    """A fake that makes the columns that a model makes.

    Args:
        model: what it stands in for.
        given: arguments of FakeModel, such as labels, width, refuses.

    Raises:
        InvalidSpec: nobody can know what a class of yours makes, and `outputs` is not given; or an
            argument is none of a fake's.
    """
    refuse_unknown(given)
    init = {**arguments_for(model), **given}
    if "outputs" not in init:
        raise InvalidSpec.at(
            "fake",
            given or True,
            f"must name the outputs, such as outputs: {sorted(MAKERS)[:1]}, since those of a "
            f"{model.kind} model are not known",
        )
    FakeModel(**init)  # says now what it would say in the job
    reference = f"{FakeModel.__module__}:{FakeModel.__qualname__}"
    return PythonModel(class_=reference, init=init)


def refuse_unknown(given: dict[str, Any]) -> None:
    """See that a fake takes the arguments, and that lists are lists: a text is one of letters.

    Raises:
        InvalidSpec: names the one that it does not take.
    """
    known = [each.name for each in fields(FakeModel)]
    for name, value in given.items():
        if name not in known:
            meant = did_you_mean(name, known) or f"; there are {', '.join(known)}"
            raise InvalidSpec.at("fake", name, f"is no argument of a fake model{meant}")
        if name in LISTS and isinstance(value, str):
            raise InvalidSpec.at(f"fake.{name}", value, f"must be a list, such as [{value!r}]")


def arguments_for(model: AnyModel) -> dict[str, Any]:
    """What a kind's own fields say of its output."""
    if isinstance(model, TensorModel) and model.labels:
        outputs = [*output_names.LABELS]
        return {"outputs": outputs, "labels": model.names_of_classes, "top_k": model.top_k}
    if not isinstance(model, (HttpModel, VllmModel, HuggingFaceModel)):
        return {}
    own: dict[str, Any] = {"column": model.input_columns[0], "outputs": [*model.output_columns]}
    if model.answer_schema:
        own["answer_schema"] = model.answer_schema
    if not isinstance(model, HuggingFaceModel):
        return own
    options = model.options
    if model.task in CLASSIFICATION:
        named = {"labels": options.candidate_labels} if options.candidate_labels else {}
        return {**own, **named, "top_k": options.top_k or 1}
    if model.task in EMBEDDING:
        return {**own, "normalize": bool(options.normalize)}
    if model.task in DETECTION:
        return {**own, "top_k": options.max_detections or len(LABELS)}
    if model.task in SEGMENTATION:
        return {**own, "top_k": MANY}
    return own
