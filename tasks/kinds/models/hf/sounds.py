"""Sounds to be classified: as long as the model listens, padded only where it hears no padding."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.kinds.audio import Samples
from tasks.kinds.columns import column_to_numpy
from tasks.kinds.models.arrays import Index
from tasks.kinds.models.hf.checkpoint import Checkpoint, torch_dtype
from tasks.kinds.models.hf.padding import hears_padding
from tasks.kinds.models.hf.samples import FEATURES, features_function
from tasks.kinds.models.hf.text import batches_by_length, batches_of_one_length
from tasks.kinds.models.model import Function, Placement
from tasks.kinds.models.onednn import keep_few_primitives
from tasks.kinds.models.torch_batches import on_device

FRAME, HOP = 0.025, 0.01
"""Seconds that a column of a spectrogram is of, and from one to the next, where no file says it."""
USUAL_RATE = 16_000
"""By which transformers itself counts them, whatever the rate is; torchaudio, if it is there, does
not."""
NUMBERS_PER_BATCH_ON_CPU = 1 << 16
NUMBERS_PER_BATCH_ON_GPU = 1 << 22
"""A second is some ten thousand numbers, as samples and as a spectrogram. Of four seconds in a
batch a wav2vec2 is as quick on a CPU as of two, and by a tenth quicker than of eight."""
ENOUGH_NUMBERS_ON_CPU = 1 << 14
"""Of so many a CPU makes as much a second as of more: padding is all that larger batches add."""


@dataclass
class Listener:
    """Makes of a sound what a model listens to, as the checkpoint's feature extractor has it."""

    extractor: Any
    shortest: int
    """Samples of which the model makes anything."""
    longest: int | None
    """Samples that it listens to, padded with silence up to there; None: to all, padded by none."""
    has_told: bool = field(default=False, init=False)

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> Self:
        """The listener of a checkpoint."""
        extractor, config = checkpoint.feature_extractor(), checkpoint.config()
        if hasattr(extractor, "n_samples"):  # Whisper's
            return cls(extractor, 1, extractor.n_samples)
        if hasattr(config, "conv_kernel"):
            return cls(extractor, samples_for_one(config), None)
        fewest = getattr(extractor, "stride", 1)  # which wav2vec2-bert takes together
        most = getattr(extractor, "max_length", None)  # of the Audio Spectrogram Transformer
        by_transformers = hasattr(extractor, "mel_filters")
        rate = USUAL_RATE if by_transformers else extractor.sampling_rate
        return cls(extractor, samples_for(fewest, rate), most and samples_for(most, rate))

    @property
    def sampling_rate(self) -> int:
        """Of what it listens to, in Hz."""
        rate: int = self.extractor.sampling_rate
        return rate

    def features(self, samples: Samples) -> np.ndarray:
        """Samples or a spectrogram, (time, ...), or always of one shape.

        Says once that some sounds are cut off, where they are.

        Raises:
            ValueError: the sound is too short.
        """
        rate = self.sampling_rate
        if len(samples) < self.shortest:
            problem = f"the sound is {len(samples) / rate:.3f} s long, but the model hears nothing"
            raise ValueError(f"{problem} in less than {self.shortest / rate:.3f} s")
        if self.longest and len(samples) > self.longest:
            self.tell_of_longer()
            samples = samples[: self.longest]
        found = self.extractor(samples, sampling_rate=rate, return_tensors="np")
        features = found[self.extractor.model_input_names[0]][0]
        mask = found.get("attention_mask")
        if mask is not None and self.longest is None and not mask.all():
            features = features[mask[0] != 0]  # wav2vec2-bert's pads an odd number of columns
        return np.asarray(features, np.float32)

    def tell_of_longer(self) -> None:
        """Say it the first time."""
        if not self.has_told:
            seconds = (self.longest or 0) / self.sampling_rate
            print(
                f"sounds longer than {seconds:.1f} s are cut off there, since the model hears no "
                "more. If the rest matters, split them in a step",
                flush=True,
            )
        self.has_told = True


def samples_for(columns: int, rate: int) -> int:
    """Samples of which there are so many columns of a spectrogram."""
    return int(FRAME * rate) + (columns - 1) * int(HOP * rate)


def samples_for_one(config: Any) -> int:
    """Samples of which layers of convolutions, one after another, make one vector."""
    count: int = getattr(config, "squeeze_factor", 1)  # SEW makes one of so many
    for kernel, stride in reversed([*zip(config.conv_kernel, config.conv_stride, strict=True)]):
        count = (count - 1) * stride + kernel
    return count


def preprocessor(checkpoint: Checkpoint, column: str, num_threads: int) -> Function:
    """Sounds to `__features`: what the model listens to."""
    listener = Listener.of(checkpoint)
    return features_function(listener.features, listener.sampling_rate, column, num_threads)


class SoundInputs:
    """Batches of sounds on the model's device, the longest first."""

    def __init__(self, checkpoint: Checkpoint, model: Any, placement: Placement) -> None:
        """See what the model takes.

        Args:
            checkpoint: the model's.
            model: loaded.
            placement: where it runs.

        Raises:
            InvalidSpec: it takes something else than its feature extractor makes.
        """
        self.listener = Listener.of(checkpoint)
        self.name: str = model.main_input_name
        made = self.listener.extractor.model_input_names[0]
        if made != self.name:
            problem = (
                f"has a feature extractor that makes {made}, but its model takes {self.name}: "
                "save the one used in training beside the model, with its save_pretrained"
            )
            raise InvalidSpec.at("model.name_or_path", checkpoint.name, problem)
        self.pads = not hears_padding(model.config)
        self.placement, self.device = placement, placement.device
        self.dtype = torch_dtype(placement)
        on_cpu = placement.device == "cpu"
        if on_cpu:
            keep_few_primitives()
        self.numbers = NUMBERS_PER_BATCH_ON_CPU if on_cpu else NUMBERS_PER_BATCH_ON_GPU
        self.enough = ENOUGH_NUMBERS_ON_CPU if on_cpu else self.numbers

    def batches(self, rows: pa.Table) -> Iterator[tuple[Index, dict[str, Any]]]:
        """Rows of like length together; of one length, where the model would hear padding."""
        if not len(rows):
            return
        features = column_to_numpy(rows[FEATURES])
        lengths = np.array([*map(len, features)], np.int64)
        each = math.prod(features[0].shape[1:])
        size = self.placement.batch_size and self.placement.rows(self.placement.batch_size)
        numbers = self.placement.limit.of(self.numbers) // each
        if self.pads:
            together = batches_by_length(lengths, size, numbers, self.enough // each)
        else:
            together = batches_of_one_length(lengths, size, numbers)
        for index in together:
            yield index, self.arguments([features[at] for at in index])

    def arguments(self, features: Sequence[np.ndarray]) -> dict[str, Any]:
        """What the model listens to, and a mask where some of it is padding."""
        lengths = np.array([*map(len, features)])
        padded = np.zeros((len(features), lengths.max(), *features[0].shape[1:]), np.float32)
        for at, each in enumerate(features):
            padded[at, : len(each)] = each
        arguments = {self.name: on_device(padded, self.device).to(self.dtype)}
        if (lengths < lengths.max()).any():
            is_own = np.arange(lengths.max()) < lengths[:, None]
            arguments["attention_mask"] = on_device(is_own.astype(np.int64), self.device)
        return arguments

    def blank(self) -> dict[str, Any]:
        """As much silence as the model hears."""
        silence = np.zeros(self.listener.shortest, np.float32)
        return self.arguments([self.listener.features(silence)])
