"""Texts by words: whether a text entails what stands for a label, as judged by a model of pairs."""

from typing import Any

from tasks.errors import InvalidSpec
from tasks.kinds.models.arrays import Columns, label_columns
from tasks.kinds.models.hf import heads, places
from tasks.kinds.models.hf.checkpoint import Checkpoint
from tasks.kinds.models.hf.label_pairs import TASK, Frames
from tasks.kinds.models.hf.options import HuggingFaceOptions

FOLLOWS, CONTRADICTED = "entail", "contra"
"""How the names of a model's classes begin."""
OR_NOT = 2
"""Classes of a model that has no other name for what does not follow."""


class Judge:
    """Makes label columns of a model's scores of pairs, as transformers' pipeline does.

    Source: https://huggingface.co/docs/transformers/main_classes/pipelines
    """

    def __init__(self, names: list[str], checkpoint: str, options: HuggingFaceOptions) -> None:
        """See that the model judges what the options ask of it.

        Args:
            names: of its classes, in the order of their scores.
            checkpoint: the model's name.
            options: of the task.

        Raises:
            InvalidSpec: no class is named entailment; or, where each label is judged by itself,
                none contradiction.
        """
        self.labels, self.top_k = options.candidate_labels or [], options.top_k or 1
        self.follows = class_named(FOLLOWS, names, checkpoint)
        self.contradicted: int | None = None
        """None: one of the labels is taken to be right."""
        if options.multi_label or len(self.labels) == 1:
            if len(names) == OR_NOT:
                self.contradicted = 1 - self.follows
            else:
                self.contradicted = class_named(CONTRADICTED, names, checkpoint)

    def columns(self, logits: Any) -> Columns:
        """Labels and scores of rows; logits are of shape (rows * labels, classes)."""
        logits = logits.unflatten(0, (len(logits) // len(self.labels), len(self.labels)))
        if self.contradicted is None:
            scores = logits[..., self.follows].softmax(-1)
        else:
            scores = logits[..., [self.contradicted, self.follows]].softmax(-1)[..., 1]
        return label_columns(scores.cpu().numpy(), self.labels, self.top_k)


def class_named(beginning: str, names: list[str], checkpoint: str) -> int:
    """Which of a model's classes has a name that begins so, in whatever letters.

    Raises:
        InvalidSpec: none has, or several have.
    """
    found = [at for at, name in enumerate(names) if name.lower().startswith(beginning)]
    if len(found) == 1:
        return found[0]
    problem = (
        f"has the classes {', '.join(names)}, but {TASK} needs one whose name has {beginning}..., "
        "as in models trained for entailment, such as facebook/bart-large-mnli. If this model is "
        "one, name that class in id2label of its config.json"
    )
    raise InvalidSpec.at("model.name_or_path", checkpoint, problem)


def check(checkpoint: Checkpoint, options: HuggingFaceOptions) -> None:
    """See that a model judges pairs, and that what stands for a label leaves room for a text.

    Raises:
        InvalidSpec: it does not.
    """
    Judge(heads.class_names(checkpoint.config(), checkpoint.name), checkpoint.name, options)
    places.check_tokenizer(checkpoint)
    Frames(checkpoint, options)
