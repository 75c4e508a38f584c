"""What users bring: a speech model of their own choice, and one whose environment breaks."""

from pathlib import Path
from typing import Any

import numpy as np

Batch = dict[str, Any]


class SpokenWord:
    """The word that is spoken in each sound."""

    def __init__(self, name_or_path: str) -> None:
        from transformers import AutoFeatureExtractor, AutoModelForAudioClassification

        self.extractor = AutoFeatureExtractor.from_pretrained(name_or_path)
        self.model = AutoModelForAudioClassification.from_pretrained(name_or_path).eval()

    def __call__(self, batch: Batch) -> Batch:
        found = [self.word(samples) for samples in batch["audio"]]
        words, scores = zip(*found, strict=True)
        return {"word": np.array(words), "score": np.array(scores, np.float32)}

    def word(self, samples: np.ndarray) -> tuple[str, float]:
        import torch

        rate = self.extractor.sampling_rate
        inputs = self.extractor(samples, sampling_rate=rate, return_tensors="pt")
        with torch.inference_mode():
            scores = self.model(**inputs).logits[0].softmax(-1)
        return self.model.config.id2label[int(scores.argmax())], float(scores.max())


class DiesOnce:
    """Says how bright an image is; where the third batch comes, the environment breaks, once."""

    def __init__(self, marker: str) -> None:
        self.marker, self.calls = Path(marker), 0

    def __call__(self, batch: Batch) -> Batch:
        self.calls += 1
        if self.calls == 3 and not self.marker.exists():
            self.marker.touch()
            raise OSError(5, "the device is gone for a moment")
        return {"brightness": [float(np.mean(image)) for image in batch["image"]]}
