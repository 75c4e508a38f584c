"""A ResNet of torchvision's with its weights' transforms, in the shape that Ray's guide gives it.

What the functions need is made where the module is imported, as in a notebook.
"""

from typing import Any

import numpy as np
import torch  # noqa: TID253 - a user imports it so
from torchvision import models, transforms  # noqa: TID253
from torchvision.models import ResNet18_Weights  # noqa: TID253

weights = ResNet18_Weights.IMAGENET1K_V1
imagenet_transforms = weights.transforms
transform = transforms.Compose([transforms.ToTensor(), imagenet_transforms()])


def preprocess_image(row: dict[str, np.ndarray]) -> dict[str, Any]:
    return {"original_image": row["image"], "transformed_image": transform(row["image"])}


class ResnetModel:
    def __init__(self) -> None:
        self.weights = ResNet18_Weights.IMAGENET1K_V1
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = models.resnet18(weights=self.weights).to(self.device)
        self.model.eval()

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, Any]:
        torch_batch = torch.from_numpy(batch["transformed_image"]).to(self.device)
        with torch.inference_mode():
            prediction = self.model(torch_batch)
            predicted_classes = prediction.argmax(dim=1).detach().cpu()
            predicted_labels = [self.weights.meta["categories"][i] for i in predicted_classes]
            return {
                "predicted_label": predicted_labels,
                "original_image": batch["original_image"],
            }
