"""Ray's guide for image classification: torchvision's transforms row by row, then batches.

As there, the files are decoded by Ray, each row is made a tensor of floats, and the picture itself
travels on to the model beside it.
"""

from typing import Any

import numpy as np

from tests.benchmarks.clock import Clock
from tests.benchmarks.contenders import ROOT
from tests.benchmarks.script import Arguments

KNOBS = {"batch_size": 64, "concurrency": 1}
"""The guide's 720 fill the memory of its GPUs; its four actors have one of them each."""


class Transform:
    """torchvision's transforms of an image, made once in a process."""

    def __init__(self) -> None:
        self.transform: Any = None

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """A row beside its transformed image."""
        self.transform = self.transform or made_transform()
        return {**row, "transformed_image": self.transform(row["image"])}


def made_transform() -> Any:
    """What the guide composes: to a tensor, then what the weights want."""
    from tests.torchvision_shim.loading import importable, unpacked

    with importable(unpacked(ROOT / ".pytest_cache" / "d" / "torchvision")):
        from torchvision import transforms
        from torchvision.transforms import _presets

    resized = _presets.ImageClassification(crop_size=224)
    return transforms.Compose([transforms.ToTensor(), resized])


class Classifier:
    """The guide's class: one model an actor, floats in, labels out."""

    def __init__(self, weights: str, clocks: str) -> None:
        from transformers import AutoModelForImageClassification

        self.model = AutoModelForImageClassification.from_pretrained(weights).eval()
        self.clock = Clock(clocks)

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, Any]:
        return self.clock.timed(self.predict, batch, len(batch["path"]))

    def predict(self, batch: dict[str, np.ndarray]) -> dict[str, Any]:
        """Labels and scores beside path and picture."""
        import torch

        with torch.inference_mode():
            logits = self.model(pixel_values=torch.from_numpy(batch["transformed_image"])).logits
            best = logits.softmax(-1).max(-1)
        labels = [self.model.config.id2label[int(each)] for each in best.indices]
        return {
            "path": batch["path"],
            "predicted_label": labels,
            "predicted_score": best.values.numpy(),
            "original_image": batch["image"],
        }


def main(given: Arguments) -> None:
    """Read, transform, predict, write."""
    import ray

    images = ray.data.read_images(str(given.inputs), mode="RGB", include_paths=True)
    predictions = images.map(Transform().__call__).map_batches(
        Classifier,
        compute=ray.data.ActorPoolStrategy(size=given.knobs["concurrency"]),
        batch_size=given.knobs["batch_size"],
        fn_constructor_args=(str(given.weights), str(given.clocks)),
    )
    predictions.drop_columns(["original_image"]).write_parquet(str(given.output))
    given.finish()
