"""Predictors in the shape that Ray's guides give them: their arguments, batches and results."""

from typing import Any

import numpy as np
import pandas as pd


class HuggingFacePredictor:
    def __init__(self) -> None:
        from transformers import pipeline

        self.model = pipeline("text-generation", model="gpt2")

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, Any]:
        predictions = self.model(list(batch["data"]), max_length=20, num_return_sequences=1)
        batch["output"] = [each[0]["generated_text"] for each in predictions]  # type: ignore[assignment]
        return batch


class TorchPredictor:
    def __init__(self) -> None:
        import torch
        from torch import nn

        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(in_features=100, out_features=1), nn.Sigmoid())
        self.model.eval()

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        import torch

        tensor = torch.as_tensor(batch["data"], dtype=torch.float32)
        with torch.inference_mode():
            return {"output": self.model(tensor).numpy()}


class TFPredictor:
    def __init__(self) -> None:
        from tensorflow import keras  # type: ignore[import-untyped]

        keras.utils.set_random_seed(0)
        input_layer = keras.Input(shape=(100,))
        output_layer = keras.layers.Dense(1, activation="sigmoid")
        self.model = keras.Sequential([input_layer, output_layer])

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"output": self.model(batch["data"]).numpy()}


class KerasPredictor:
    """The same where torch is under Keras, whose tensors have to be cut off from it first."""

    def __init__(self) -> None:
        import keras

        keras.utils.set_random_seed(0)
        input_layer = keras.Input(shape=(100,))
        output_layer = keras.layers.Dense(1, activation="sigmoid")
        self.model = keras.Sequential([input_layer, output_layer])

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"output": self.model.predict_on_batch(batch["data"])}


class XGBoostPredictor:
    def __init__(self, checkpoint: str) -> None:
        from ray.train import Checkpoint
        from ray.train.xgboost import RayTrainReportCallback

        self.model = RayTrainReportCallback.get_model(Checkpoint(checkpoint))

    def __call__(self, data: pd.DataFrame) -> dict[str, np.ndarray]:
        import xgboost

        dmatrix = xgboost.DMatrix(data)
        return {"predictions": self.model.predict(dmatrix)}


def transform_images(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The step before the next model: both pictures, one of them as the model wants it."""
    images = np.stack(list(batch["image"]))
    transformed = images.transpose(0, 3, 1, 2).astype(np.float32) / 255 - 0.5
    return {"original_image": images, "transformed_image": transformed}


class ResnetModel:
    def __init__(self) -> None:
        import torch
        from torch import nn

        torch.manual_seed(0)
        self.categories = ["tench", "springer", "cassette player", "chain saw"]
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(8, 4)
        ).to(self.device)
        self.model.eval()

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, Any]:
        import torch

        torch_batch = torch.from_numpy(batch["transformed_image"]).to(self.device)
        with torch.inference_mode():
            prediction = self.model(torch_batch)
            predicted_classes = prediction.argmax(dim=1).detach().cpu()
            predicted_labels = [self.categories[i] for i in predicted_classes]
            return {
                "predicted_label": predicted_labels,
                "original_image": batch["original_image"],
            }


class EmbedImages:
    def __init__(self, model_id: str, device: str) -> None:
        from transformers import CLIPModel, CLIPProcessor

        self.processor = CLIPProcessor.from_pretrained(model_id)
        self.model = CLIPModel.from_pretrained(model_id)
        self.model.to(device)
        self.device = device

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        import torch
        from PIL import Image

        images = [Image.fromarray(np.uint8(img)).convert("RGB") for img in batch["image"]]
        inputs = self.processor(images=images, return_tensors="pt", padding=True).to(self.device)
        with torch.inference_mode():
            features = self.model.get_image_features(**inputs)
            batch["embedding"] = features.pooler_output.cpu().numpy()
        return batch
