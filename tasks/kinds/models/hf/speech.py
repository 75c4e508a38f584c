"""Speech to text: sounds become spectrograms of one size on the CPU, and those become words."""

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.kinds.audio import Samples
from tasks.kinds.columns import column_to_numpy
from tasks.kinds.models.arrays import slices, with_columns
from tasks.kinds.models.hf import samples
from tasks.kinds.models.hf.checkpoint import Checkpoint, torch_dtype
from tasks.kinds.models.hf.options import HuggingFaceOptions
from tasks.kinds.models.hf.own_settings import ONE_TEXT, UNCOMPILED
from tasks.kinds.models.hf.samples import FEATURES
from tasks.kinds.models.hf.score_check import ScoreCheck
from tasks.kinds.models.model import Function, Placement
from tasks.kinds.models.torch_batches import Batches, Call, side_by_side

SOUNDS_PER_BATCH_ON_CPU = 8
SOUNDS_PER_BATCH_ON_GPU = 32
USUAL_POSITIONS = 448
"""Of tokens that Whisper writes, where its config.json does not say."""


def check_language(checkpoint: Checkpoint, language: str | None) -> None:
    """See that the model knows the language that is spoken.

    Raises:
        InvalidSpec: it does not, or it knows one only.
    """
    if language is None:
        return
    generation = checkpoint.json_file("generation_config.json") or {}
    known = sorted(each.strip("<|>") for each in generation.get("lang_to_id") or {})
    if language not in known:
        problem = f"is not among the model's languages: {', '.join(known)}"
        if not known:
            problem = "cannot be set: this model knows only one language; leave it out"
        raise InvalidSpec.at("model.options.source_language", language, problem)


def features_function(checkpoint: Checkpoint, column: str, num_threads: int) -> Function:
    """Sounds to `__features`: a spectrogram each, padded with silence to the model's length."""
    extractor = checkpoint.feature_extractor()
    listen = partial(spectrogram, extractor)
    return samples.features_function(listen, extractor.sampling_rate, column, num_threads)


def spectrogram(extractor: Any, sound: Samples) -> np.ndarray:
    """One sound as the model listens to it.

    Raises:
        ValueError: it is longer than the model can listen.
    """
    if len(sound) > extractor.n_samples:
        seconds = len(sound) / extractor.sampling_rate
        problem = f"the sound is {seconds:.1f} s long, but the model hears only"
        raise ValueError(f"{problem} {extractor.chunk_length} s; split it first")
    found = extractor(sound, sampling_rate=extractor.sampling_rate, return_tensors="np")
    return np.asarray(found["input_features"][0], np.float32)


def set_limit(model: Any, options: HuggingFaceOptions) -> None:
    """Leave one limit of what is written: of two, each call warns; of none, it writes 20 tokens."""
    config = model.generation_config
    if options.max_new_tokens or config.max_new_tokens:
        config.max_length = None
    elif config.max_length is None:
        config.max_length = model.config.max_target_positions


def check_room(checkpoint: Checkpoint, options: HuggingFaceOptions) -> None:
    """See that what is to be written fits beside what Whisper begins with; no weight is read.

    Raises:
        InvalidSpec: it does not.
    """
    asked = options.max_new_tokens
    config = checkpoint.json_file("config.json") or {}
    if asked is None or config.get("model_type") != "whisper":
        return
    generation = checkpoint.json_file("generation_config.json") or {}
    begins_with = 4 if generation.get("is_multilingual", True) else 2
    most = config.get("max_target_positions", USUAL_POSITIONS) - begins_with
    if asked > most:
        problem = f"is more than the model can write: set at most {most}"
        raise InvalidSpec.at("model.options.max_new_tokens", asked, problem)


def transcriber(
    checkpoint: Checkpoint, placement: Placement, options: HuggingFaceOptions
) -> Function:
    """A predictor that adds `generated_text`, the words that are spoken."""
    import torch

    model = checkpoint.model("AutoModelForSpeechSeq2Seq", placement)
    tokenizer = checkpoint.tokenizer()
    check_room(checkpoint, options)
    set_limit(model, options)
    on_cpu = placement.device == "cpu"
    padding = model.generation_config.pad_token_id
    default_size = SOUNDS_PER_BATCH_ON_CPU if on_cpu else SOUNDS_PER_BATCH_ON_GPU
    given = {
        "max_new_tokens": options.max_new_tokens,
        "num_beams": options.num_beams,
        "language": options.source_language,
    }
    given = {name: value for name, value in given.items() if value is not None}
    settings = ONE_TEXT | UNCOMPILED | given

    def call_of(model: Any) -> Call:
        def write(features: Any) -> Any:
            check = ScoreCheck()
            found = model.generate(
                input_features=features, logits_processor=[check], do_sample=False, **settings
            )
            check.refuse_no_numbers()
            return found.cpu()

        return write

    run = side_by_side(model, call_of, placement)

    def batches(rows: pa.Table) -> Batches:
        for index in slices(len(rows), placement.rows(default_size)):
            part = rows[FEATURES].slice(index[0], len(index))
            features = torch.from_numpy(np.array(column_to_numpy(part)))
            yield index, features.to(placement.device, torch_dtype(placement))

    def predict(rows: pa.Table) -> pa.Table:
        texts = np.empty(len(rows), dtype=object)
        for index, written in run(batches(rows)):
            ended = [without_padding(each, padding) for each in written.tolist()]
            texts[index] = tokenizer.batch_decode(ended, skip_special_tokens=True)
        return with_columns(rows, {"generated_text": pa.array(texts.tolist(), pa.string())})

    return predict


def without_padding(tokens: list[int], padding: int | None) -> list[int]:
    """A row's tokens without what fills it up to its neighbours' length, which may be a word.

    Args:
        tokens: of the row; transformers leaves out the one that ends a text.
        padding: the token that it fills up with.
    """
    end = len(tokens)
    while end and tokens[end - 1] == padding:
        end -= 1
    return tokens[:end]
