"""A tiny model of each of Hugging Face's tasks, with rows for it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tasks.kinds.models import HuggingFaceModel
from tasks.kinds.models.hf.options import Task
from tasks.kinds.models.output_names import DEPTHS, SEGMENTS
from tests.kinds.maps import depths_of, maps_of, share_that_differs
from tests.kinds.tiny_clip import save_clip
from tests.kinds.tiny_depths import save_depth_anything
from tests.kinds.tiny_detectors import save_detr
from tests.kinds.tiny_entities import save_ner
from tests.kinds.tiny_listeners import LISTENERS
from tests.kinds.tiny_models import (
    images,
    png,
    rows_of,
    save_bert,
    save_gpt2,
    save_nli,
    save_vit,
    texts,
)
from tests.kinds.tiny_segmenters import (
    save_maskformer,
    save_segformer,
)
from tests.kinds.tiny_speech import save_whisper, sounds
from tests.kinds.tiny_writers import save_t5


@dataclass(frozen=True)
class TinyTask:
    """How to make a model, what to give it, and what to ask of it."""

    task: Task
    save: Callable[[Path], Any]
    values: list[Any]
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.task} {self.save.__name__}"

    def saved(self, folder: Path) -> tuple[HuggingFaceModel, pa.Table]:
        """The model, saved there, and rows as its preprocessing leaves them."""
        self.save(folder)
        given = {"task": self.task, "name_or_path": str(folder), "options": self.options}
        model = HuggingFaceModel.model_validate(given)
        return model, model.preprocessor()(rows_of(model.input_column, self.values))


FEW_TOKENS = {"max_new_tokens": 5}
SOUNDS = [each.tolist() for each in sounds(20)]
TINY_TASKS = (
    TinyTask("feature-extraction", save_bert, texts(60)),
    TinyTask("text-classification", save_bert, texts(60)),
    TinyTask(
        "zero-shot-classification", save_nli, texts(60), {"candidate_labels": ["a b", "c", "d e f"]}
    ),
    TinyTask("token-classification", save_ner, texts(60)),
    TinyTask("feature-extraction", save_clip, texts(60)),
    TinyTask("image-feature-extraction", save_vit, [*map(png, images(40))]),
    TinyTask("image-feature-extraction", save_clip, [*map(png, images(40))]),
    TinyTask(
        "zero-shot-image-classification",
        save_clip,
        [*map(png, images(40))],
        {"candidate_labels": ["a b", "c", "d e f"]},
    ),
    TinyTask("image-classification", save_vit, [*map(png, images(40))]),
    # A detector of random weights is sure of nothing.
    TinyTask("object-detection", save_detr, [*map(png, images(20))], {"threshold": 0.01}),
    TinyTask("image-segmentation", save_segformer, [*map(png, images(20))]),
    TinyTask("image-segmentation", save_maskformer, [*map(png, images(20))]),
    TinyTask("depth-estimation", save_depth_anything, [*map(png, images(20))]),
    # A row's draws are its own.
    TinyTask(
        "text-generation",
        save_gpt2,
        texts(60, longest=40),
        FEW_TOKENS | {"do_sample": True, "seed": 3},
    ),
    TinyTask("audio-classification", LISTENERS["wav2vec2"], SOUNDS, {"top_k": 3}),
    TinyTask("audio-classification", LISTENERS["wav2vec2 by layer"], SOUNDS),
    TinyTask("translation", save_t5, texts(60, longest=40), FEW_TOKENS),
    TinyTask("automatic-speech-recognition", save_whisper, SOUNDS, FEW_TOKENS),
)

HALF_A_STEP = 1 / 65_535
"""Of both files."""


def assert_alike(ours: pa.Table, theirs: pa.Table, tolerance: float) -> None:
    """See that both say the same, numbers up to a difference of rounding."""
    assert ours.schema == theirs.schema
    if "segmentation" in ours.column_names:  # the other columns follow from the maps
        assert share_that_differs(maps_of(ours), maps_of(theirs)) <= tolerance
        ours, theirs = (each.drop_columns([*SEGMENTS]) for each in (ours, theirs))
    if "depth" in ours.column_names:
        for mine, its in zip(depths_of(ours), depths_of(theirs), strict=True):
            assert np.abs(mine - its).max() <= (tolerance + HALF_A_STEP) * np.ptp(its)
        ours, theirs = (each.drop_columns([*DEPTHS]) for each in (ours, theirs))
    for name in ours.column_names:
        one, other = ours[name].to_pylist(), theirs[name].to_pylist()
        if name in ("embedding", "predicted_score"):
            np.testing.assert_allclose(one, other, atol=tolerance)
        elif name in ("boxes", "scores"):
            for mine, its in zip(one, other, strict=True):
                np.testing.assert_allclose(mine, its, rtol=tolerance, atol=tolerance)
        elif name == "entities":
            for mine, its in zip(chain(*one), chain(*other), strict=True):
                assert mine == its | {"score": pytest.approx(its["score"], abs=tolerance)}
        else:
            assert one == other
