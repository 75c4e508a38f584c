"""Images by words: the label whose text lies nearest in the space that texts and images share."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.kinds.models.arrays import Columns, Index, label_columns
from tasks.kinds.models.hf import joint
from tasks.kinds.models.hf.checkpoint import Checkpoint, torch_dtype
from tasks.kinds.models.hf.embedding import Forward
from tasks.kinds.models.hf.image import ImageInputs
from tasks.kinds.models.hf.options import HuggingFaceOptions, Task
from tasks.kinds.models.hf.prediction import predict_with
from tasks.kinds.models.hf.text import tokenizer_for, tokens_function
from tasks.kinds.models.model import Function, Placement
from tasks.kinds.models.runtimes.runtime_used import Runtime
from tasks.kinds.models.vision.running import image_run

Batch: TypeAlias = tuple[Index, dict[str, Any]]
"""Which rows, and what the model is called with."""
LABELS_IMAGES: Task = "zero-shot-image-classification"
EMBEDS_TEXTS: Task = "feature-extraction"
ALIKE = 0.02
"""Of the largest score, between ours and the model's own, in half precision too."""


def classify_by_words(
    checkpoint: Checkpoint, placement: Placement, options: HuggingFaceOptions, runtime: Runtime
) -> Function:
    """The labels whose texts are nearest to each image; texts are embedded once.

    Raises:
        InvalidSpec: the model does not compare texts with images, or in a way of its own.
    """
    model = checkpoint.model("AutoModel", placement)
    inputs = ImageInputs(checkpoint, placement, torch_dtype(placement))
    words, some = words_of(model, checkpoint, placement, options.label_texts(LABELS_IMAGES))
    words.refuse_other_scores(model, some, inputs.blank(), checkpoint.name)

    def forward_of(model: Any) -> Forward:
        return joint.features_forward(model, "image", HuggingFaceOptions())

    def columns(vectors: Any) -> Columns:
        scores = words.probabilities(vectors).cpu().numpy()
        return label_columns(scores, options.candidate_labels or (), options.top_k or 1)

    return predict_with(inputs, image_run(model, forward_of, inputs, placement, runtime), columns)


def check_model(checkpoint: Checkpoint) -> None:
    """See that a model compares images with texts; no weight is read.

    Raises:
        InvalidSpec: it does not.
    """
    model_class = checkpoint.model_class()
    if not joint.has_one_space(model_class):
        problem = (
            f"is of type {model_class.__name__}, which does not compare images with texts: use "
            "one that does, such as CLIP or SigLIP"
        )
        raise InvalidSpec.at("model.name_or_path", checkpoint.name, problem)


@dataclass(frozen=True)
class Words:
    """Texts in the space of images, and how near an image is to each."""

    vectors: Any
    """(texts, numbers), each of length 1."""
    scale: Any
    bias: Any
    one_by_one: bool
    """Whether each text is judged by itself; else one of them is taken to be right."""

    def logits(self, images: Any) -> Any:
        """Scores of images' vectors, (images, texts)."""
        import torch

        images = torch.nn.functional.normalize(images.float(), dim=-1)
        return images @ self.vectors.T * self.scale + self.bias

    def probabilities(self, images: Any) -> Any:
        """Scores as transformers' pipeline gives them."""
        logits = self.logits(images)
        return logits.sigmoid() if self.one_by_one else logits.softmax(-1)

    def refuse_other_scores(
        self, model: Any, some: Batch, blank: dict[str, Any], name: str
    ) -> None:
        """See that the model's own scores of a blank image are ours.

        Args:
            model: that is asked.
            some: of the texts.
            blank: the image.
            name: of the checkpoint.

        Raises:
            InvalidSpec: they are not.
        """
        import torch

        index, arguments = some
        with torch.inference_mode():
            own = model(**arguments, **blank).logits_per_image.float()
            image = joint.features_forward(model, "image", HuggingFaceOptions())(blank)
            differs = (own - self.logits(image)[:, index]).abs().max()
            most = own.abs().max().clamp(min=1)
        if differs > ALIKE * most:
            raise compares_otherwise(model, name)


def compares_otherwise(model: Any, name: str) -> InvalidSpec:
    """What to say of a checkpoint's model whose scores we cannot give."""
    problem = f"is of type {type(model).__name__}, which compares images with texts "
    problem += "differently from CLIP and SigLIP: use one of these, or your own class"
    return InvalidSpec.at("model.name_or_path", name, problem)


def scale_of(model: Any, name: str) -> Any:
    """What a checkpoint's model multiplies nearness by: its logarithm is trained, or 1 over it.

    Raises:
        InvalidSpec: neither is.
    """
    if hasattr(model, "logit_scale"):
        return model.logit_scale.float().exp()
    if hasattr(model, "temperature"):  # ALIGN's
        return 1 / model.temperature.float()
    raise compares_otherwise(model, name)


def words_of(
    model: Any, checkpoint: Checkpoint, placement: Placement, texts: list[str]
) -> tuple[Words, Batch]:
    """Texts, embedded by the model; and some of them as it is called with them."""
    import torch

    options = HuggingFaceOptions(prefix="")
    read = tokens_function(checkpoint, ["text"], EMBEDS_TEXTS, options)
    inputs = joint.text_inputs(model, tokenizer_for(EMBEDS_TEXTS, checkpoint), placement)
    batches = [*inputs.batches(read(pa.table({"text": texts})))]
    embed = joint.features_forward(model, "text", options)
    with torch.inference_mode():
        vectors = torch.cat([embed(arguments).float() for _, arguments in batches])
        order = np.argsort(np.concatenate([index for index, _ in batches]))
        vectors = torch.nn.functional.normalize(vectors, dim=-1)[order]
        no_bias = torch.zeros(1, device=vectors.device)
        scale = scale_of(model, checkpoint.name)
        bias = getattr(model, "logit_bias", no_bias).float()
        one_by_one = model.config.model_type.startswith("siglip")
        return Words(vectors, scale, bias, one_by_one), batches[0]
