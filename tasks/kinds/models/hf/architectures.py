"""Whether a checkpoint was made for a task, as architecture and type in its config.json tell."""

import importlib.util
from typing import Any

from tasks.errors import InvalidSpec, shown
from tasks.kinds.models.hf.hub import FIELD
from tasks.kinds.models.hf.options import EMBEDDING, IMAGE, SEQ2SEQ, TEXT, Task
from tasks.kinds.models.hf.own_code import OWN_CODE, tell_of_code
from tasks.kinds.models.hf.quantized import refuse_lacking_packages
from tasks.kinds.models.hf.transformers_types import types_here, types_of_finders

GEMMAS = ("Gemma3ForConditionalGeneration", "Gemma4ForConditionalGeneration")
"""They read images as well, and write texts without."""
CLASSIFIER, FINDER = "ForSequenceClassification", "ForQuestionAnswering"
LISTENERS = (
    *("Data2VecAudio", "Hubert", "SEW", "SEWD", "UniSpeech", "UniSpeechSat"),
    *("Wav2Vec2", "Wav2Vec2Bert", "Wav2Vec2Conformer", "WavLM"),
)
CLASSIFY_SOUNDS = ("ForAudioClassification", *(f"{each}{CLASSIFIER}" for each in LISTENERS))
ARCHITECTURES: dict[str, tuple[str, ...]] = {
    "image-classification": ("ForImageClassification",),
    "text-classification": (CLASSIFIER,),
    "zero-shot-classification": (CLASSIFIER,),
    "token-classification": ("ForTokenClassification",),
    "question-answering": (FINDER,),
    "object-detection": ("ForObjectDetection",),
    "image-segmentation": (
        "ForSemanticSegmentation",
        "Mask2FormerForUniversalSegmentation",
        "MaskFormerForInstanceSegmentation",
        "DetrForSegmentation",
    ),
    "depth-estimation": ("ForDepthEstimation",),
    "text-generation": ("ForCausalLM", "LMHeadModel", *GEMMAS),
    "audio-classification": CLASSIFY_SOUNDS,
    "automatic-speech-recognition": ("WhisperForConditionalGeneration",),
    **dict.fromkeys(SEQ2SEQ, ("ForConditionalGeneration", "MarianMTModel", "EncoderDecoderModel")),
}
HALVES: dict[str, tuple[str, ...]] = {
    "feature-extraction": (
        "CLIPTextModelWithProjection",
        "MetaClip2TextModelWithProjection",
        "ClapTextModelWithProjection",
    ),
    "image-feature-extraction": (
        "CLIPVisionModelWithProjection",
        "MetaClip2VisionModelWithProjection",
    ),
}
"""One half of a model of two media, with its way into the space that both share."""
ENCODERS = ("T5EncoderModel", "MT5EncoderModel", "UMT5EncoderModel", "LongT5EncoderModel")
"""The half that reads, of models that write: what embeddings are made with."""
TOLD_IN_WORDS = ("OwlViT", "Owlv2", "GroundingDino", "MMGroundingDino", "OmDetTurbo")
"""Beginnings of names of detectors that look for what a text says."""
NAMED = 4
"""Architectures that a message names at most."""
OF_ANY_SHAPE = "siglip2"
"""Beginning of the types of NaFlex models; those of one size are of the type siglip."""
OF_PAGES = ("layoutlmv2", "layoutlmv3", "lilt", "lxmert", "markuplm")
"""Types of models that find answers by where words stand on a page, or in pictures."""


def check_architecture(name: str, config: dict[str, Any], task: Task) -> None:
    """See that a model was made for the task.

    Raises:
        InvalidSpec: it was made for another, or transformers has no class for it.
    """
    types = types_here()
    if types and not types & {type_of(config), type_of(config).replace("-", "_")}:
        raise unknown_type(name, config)
    have = [str(each) for each in config.get("architectures") or []]
    refuse_other_halves(name, have, task, reads_and_writes=bool(config.get("is_encoder_decoder")))
    if needs_timm(config) and importlib.util.find_spec("timm") is None:
        problem = (
            "has a backbone from the package timm: pip install timm, here and on every node, or "
            "use a model without it, such as facebook/detr-resnet-50 at revision no_timm"
        )
        raise InvalidSpec.at(FIELD, name, problem)
    refuse_lacking_packages(name, config)
    if any(each.startswith(TOLD_IN_WORDS) for each in have):
        problem = f"is {', '.join(have)}, which looks for objects given as text: use a "
        raise InvalidSpec.at(FIELD, name, f"{problem}detector with its own classes")
    if task in IMAGE and type_of(config).startswith(OF_ANY_SHAPE):
        problem = (
            "takes images of any shape, as patches with a mask, which no task here supports: use "
            "a checkpoint for images of one size, such as google/siglip2-base-patch16-224"
        )
        raise InvalidSpec.at(FIELD, name, problem)
    if task in TEXT and any(part in each for each in have for part in CLASSIFY_SOUNDS):
        problem = f"is {', '.join(have)}, which classifies sounds, not texts: set model.task"
        raise InvalidSpec.at(FIELD, name, f"{problem} to audio-classification")
    if task in EMBEDDING and have and have[0].endswith("WithProjection"):
        refuse_other_half(name, have[0], task)
    wanted = ARCHITECTURES.get(task, ())
    if have and wanted and not any(part in each for each in have for part in wanted):
        named = " or ".join(wanted[:NAMED])
        problem = f"is {', '.join(have)}; {task} needs a model whose name has {named}"
        raise InvalidSpec.at(FIELD, name, problem)
    if FINDER in wanted:
        refuse_other_finders(name, type_of(config))
    tell_of_code(name, config, type_of(config))


def refuse_other_halves(name: str, have: list[str], task: Task, *, reads_and_writes: bool) -> None:
    """See that a model has both an encoder and a decoder just where its task wants them.

    Args:
        name: of the model.
        have: its architectures.
        task: that it is for.
        reads_and_writes: whether its files say that it has both.

    Raises:
        InvalidSpec: it has both and the task wants one, or the other way.
    """
    writes_nothing = any(  # as of BART those that classify, or find answers
        head in ARCHITECTURES.get(task, ()) and head in each
        for head in (CLASSIFIER, FINDER)
        for each in have
    )
    only_reads = task in EMBEDDING and any(each in ENCODERS for each in have)
    if reads_and_writes and task in TEXT and not (task in SEQ2SEQ or writes_nothing or only_reads):
        problem = f"is an encoder-decoder ({', '.join(have)}): set model.task to one of {SEQ2SEQ}"
        raise InvalidSpec.at(FIELD, name, problem)
    if task in SEQ2SEQ and not reads_and_writes:
        problem = f"is not an encoder-decoder ({', '.join(have)}), as {task} needs"
        raise InvalidSpec.at(FIELD, name, problem)


def refuse_other_finders(name: str, model_type: str) -> None:
    """See that a model finds answers in plain texts.

    Raises:
        InvalidSpec: it wants tables, pictures, or pages on which words have a place.
    """
    types = types_of_finders()
    if model_type in OF_PAGES or (types and model_type not in types):
        problem = (
            f"is of type {model_type}, for which transformers has no model that answers from text "
            "alone: use one such as type bert or deberta-v2"
        )
        raise InvalidSpec.at(FIELD, name, problem)


def refuse_other_half(name: str, architecture: str, task: Task) -> None:
    """See that the half of a model is the one that a task wants.

    Raises:
        InvalidSpec: it is not; what it projects to would be lost without a word.
    """
    if architecture not in HALVES[task]:
        problem = (
            f"is {architecture}; of the halves of models, {task} takes only "
            f"{', '.join(HALVES[task])}"
        )
        raise InvalidSpec.at(FIELD, name, f"{problem}: use another model, or another model.task")


def type_of(config: dict[str, Any]) -> str:
    """What transformers goes by to find a model's classes; empty where the file does not say."""
    of_timm = "timm_wrapper" if "pretrained_cfg" in config else ""
    return str(config.get("model_type", of_timm) or "")


def unknown_type(name: str, config: dict[str, Any]) -> InvalidSpec:
    """What to say of a model that transformers has no classes for."""
    model_type = type_of(config)
    said = f"is of type {shown(model_type)}, which the installed transformers does not know"
    way_out = "check config.json, or install a newer transformers, here and on every node"
    if not model_type:
        said, way_out = "has a config.json without a model_type", "check that it is the right file"
    if config.get("auto_map"):
        return InvalidSpec.at(FIELD, name, f"{said}, and {OWN_CODE}")
    return InvalidSpec.at(FIELD, name, f"{said}; {way_out}")


def needs_timm(config: dict[str, Any]) -> bool:
    """Whether a part of the model is made by timm."""
    backbone = config.get("backbone_config") or {}
    return bool(config.get("use_timm_backbone")) or backbone.get("model_type") == "timm_backbone"
