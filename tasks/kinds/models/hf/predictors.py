"""Puts inputs, model and output columns together, one function a task."""

from collections.abc import Callable
from functools import partial
from typing import Any

from tasks.kinds.models.arrays import Columns, label_columns
from tasks.kinds.models.hf import embedding, entailment, heads, joint, sentence_files
from tasks.kinds.models.hf.checkpoint import Checkpoint, torch_dtype
from tasks.kinds.models.hf.dense import Layer
from tasks.kinds.models.hf.depth import depth_estimator
from tasks.kinds.models.hf.detection import detector
from tasks.kinds.models.hf.generation import causal_generator, seq2seq_generator
from tasks.kinds.models.hf.image import ImageInputs
from tasks.kinds.models.hf.label_pairs import Frames, PairInputs
from tasks.kinds.models.hf.options import PLACES_IN_IMAGES, HuggingFaceOptions, Task
from tasks.kinds.models.hf.padding import pad_as_configured
from tasks.kinds.models.hf.prediction import predict_with
from tasks.kinds.models.hf.segmentation import segmenter
from tasks.kinds.models.hf.sounds import SoundInputs
from tasks.kinds.models.hf.speech import transcriber
from tasks.kinds.models.hf.text import TextInputs, prefix_of, tokenizer_for
from tasks.kinds.models.hf.zero_shot import classify_by_words
from tasks.kinds.models.model import Function, Placement
from tasks.kinds.models.onednn import multiply_faster
from tasks.kinds.models.runtimes.choice import shown_precision
from tasks.kinds.models.runtimes.runtime_used import Runtime, RuntimeUsed
from tasks.kinds.models.torch_batches import Run, side_by_side
from tasks.kinds.models.vision.detection import whole_numbers_of_pixels
from tasks.kinds.models.vision.running import image_run

Build = Callable[[Checkpoint, Placement, HuggingFaceOptions], Function]
UNUSED_OF_SOUNDS = "masked_spec_embed"
"""In the name of a weight that stands for what is left out in training."""
BuildOnRuntime = Callable[[Checkpoint, Placement, HuggingFaceOptions, Runtime], Function]


def classify_images(
    checkpoint: Checkpoint, placement: Placement, options: HuggingFaceOptions, runtime: Runtime
) -> Function:
    """Labels of images."""
    model = checkpoint.model("AutoModelForImageClassification", placement)
    inputs = ImageInputs(checkpoint, placement, torch_dtype(placement))
    run = image_run(model, logits_of, inputs, placement, runtime)
    return predict_with(inputs, run, labels(model, checkpoint, options, "image-classification"))


def classify_texts(
    checkpoint: Checkpoint, placement: Placement, options: HuggingFaceOptions
) -> Function:
    """Labels of texts."""
    model, inputs, run = text_classifier(checkpoint, placement)
    return predict_with(inputs, run, labels(model, checkpoint, options, "text-classification"))


def classify_sounds(
    checkpoint: Checkpoint, placement: Placement, options: HuggingFaceOptions
) -> Function:
    """Labels of sounds."""
    model = checkpoint.model("AutoModelForAudioClassification", placement, UNUSED_OF_SOUNDS)
    multiply_faster(model, placement)
    inputs = SoundInputs(checkpoint, model, placement)
    run = side_by_side(model, logits_of, placement)
    return predict_with(inputs, run, labels(model, checkpoint, options, "audio-classification"))


def classify_by_entailment(
    checkpoint: Checkpoint, placement: Placement, options: HuggingFaceOptions
) -> Function:
    """Labels of texts, given in words."""
    model, inputs, run = text_classifier(checkpoint, placement)
    names = heads.class_names(model.config, checkpoint.name)
    judge = entailment.Judge(names, checkpoint.name, options)
    pairs = PairInputs(Frames(checkpoint, options), inputs)
    return predict_with(pairs, run, judge.columns)


def text_classifier(checkpoint: Checkpoint, placement: Placement) -> tuple[Any, TextInputs, Run]:
    """A model, its batches of texts or pairs, and what runs it over them."""
    model = checkpoint.model("AutoModelForSequenceClassification", placement)
    multiply_faster(model, placement)
    inputs = joint.text_inputs(model, checkpoint.tokenizer(), placement)
    pad_as_configured(inputs, model)
    return model, inputs, side_by_side(model, logits_of, placement)


def embed_images(
    checkpoint: Checkpoint, placement: Placement, options: HuggingFaceOptions, runtime: Runtime
) -> Function:
    """Embeddings of images."""
    model = joint.loaded(checkpoint, "image", placement, embedding.UNUSED_OF_IMAGES)
    inputs = ImageInputs(checkpoint, placement, torch_dtype(placement))

    def forward_of(model: Any) -> embedding.Forward:
        if joint.shares_space(model, "image"):
            return joint.features_forward(model, "image", options)
        return embedding.image_forward(model, options.pooling or "auto")

    run = image_run(model, forward_of, inputs, placement, runtime)
    return predict_with(inputs, run, vectors(bool(options.normalize)))


def embed_texts(
    checkpoint: Checkpoint, placement: Placement, options: HuggingFaceOptions
) -> Function:
    """Embeddings of texts."""
    model = joint.loaded(checkpoint, "text", placement, embedding.UNUSED_OF_TEXTS)
    model.config.use_cache = False  # of each token's keys, in every layer, by models that write
    multiply_faster(model, placement)
    tokenizer = tokenizer_for("feature-extraction", checkpoint)
    inputs = joint.text_inputs(model, tokenizer, placement)
    finish = vectors(bool(options.normalize))
    if joint.shares_space(model, "text"):

        def forward_of(model: Any) -> embedding.Forward:
            return joint.features_forward(model, "text", options)

    else:
        pooling, normalize = embedding.wanted(options, checkpoint)
        prefix = prefix_of(checkpoint, "feature-extraction", options)
        left_out = embedding.tokens_left_out(options, checkpoint, tokenizer, prefix)
        forward_of = partial(embedding.text_forward, pooling=pooling, left_out=left_out)
        kept = sentence_files.numbers_kept(checkpoint)
        # What the user asks for is done last; what the files ask for is a step of the model's.
        finish = shortened(kept) if options.normalize else vectors(normalize, kept)
        for layer in reversed(embedding.layers(options, checkpoint, placement.device)):
            finish = partial(after, layer, finish)
    return predict_with(inputs, side_by_side(model, forward_of, placement), finish)


def vectors(normalize: bool, kept: int | None = None) -> Callable[[Any], Columns]:
    """What makes a column of vectors, of as many numbers as are kept."""
    return lambda found: heads.embedding_column(found, normalize, kept)


def shortened(kept: int | None) -> Callable[[Any], Columns]:
    """What makes a column of vectors of length 1, of as many numbers as are kept."""
    return lambda found: heads.embedding_column(found[:, :kept], normalize=True)


def after(layer: Layer, finish: Callable[[Any], Columns], found: Any) -> Columns:
    """Columns of what a layer makes of vectors."""
    return finish(layer(found))


def logits_of(model: Any) -> embedding.Forward:
    """The model's scores for a batch."""
    return lambda arguments: model(**arguments).logits


def labels(
    model: Any, checkpoint: Checkpoint, options: HuggingFaceOptions, task: Task
) -> Callable[[Any], Columns]:
    """What makes label columns of scores."""
    names = heads.class_names(model.config, checkpoint.name)

    def columns(logits: Any) -> Columns:
        scores = heads.probabilities(logits, model.config, task).cpu().numpy()
        return label_columns(scores, names, options.top_k or 1)

    return columns


def eager_on(task: Task, placement: Placement) -> RuntimeUsed:
    """What a model that is never compiled calculates with."""
    placement = whole_numbers_of_pixels(placement) if task in PLACES_IN_IMAGES else placement
    precision = shown_precision(torch_dtype(placement))
    return RuntimeUsed("eager", "eager", precision, placement.device)


BUILD_IMAGES: dict[str, BuildOnRuntime] = {
    "image-classification": classify_images,
    "image-feature-extraction": embed_images,
    "zero-shot-image-classification": classify_by_words,
}
BUILD: dict[str, Build] = {
    "text-classification": classify_texts,
    "zero-shot-classification": classify_by_entailment,
    "feature-extraction": embed_texts,
    "audio-classification": classify_sounds,
    "object-detection": detector,
    "image-segmentation": segmenter,
    "depth-estimation": depth_estimator,
    "text-generation": causal_generator,
    "text2text-generation": seq2seq_generator,
    "summarization": seq2seq_generator,
    "translation": seq2seq_generator,
    "automatic-speech-recognition": transcriber,
}
