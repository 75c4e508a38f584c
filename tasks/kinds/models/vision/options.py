"""What can be set for a model of torchvision's."""

from pydantic import ConfigDict, Field

from tasks.kinds.form import FormModel
from tasks.kinds.models.vision.detection import THRESHOLD


class TorchvisionOptions(FormModel):
    """Settings of a classifier or of a detector."""

    model_config = ConfigDict(title="Options of the model")

    top_k: int | None = Field(
        default=None,
        ge=1,
        description="Classifiers: how many labels to give, best first. Empty or 1: predicted_label "
        "and predicted_score hold one value; more: lists.",
    )
    threshold: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description=f"Detectors: keep objects with a score above this. Empty: {THRESHOLD}. Most "
        "detectors drop those below 0.05 in any case.",
    )
    max_detections: int | None = Field(
        default=None,
        ge=1,
        description="Detectors: maximum number of objects per image, the best ones. Empty: all "
        "that the model gives, usually 100.",
    )
