"""What can be set for a Hugging Face model, and for which task."""

from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, ConfigDict, Field, field_validator

from tasks.kinds.form import EmptyText, FormModel
from tasks.kinds.likest import likest

Task = Literal[
    "image-classification",
    "text-classification",
    "token-classification",
    "question-answering",
    "feature-extraction",
    "image-feature-extraction",
    "zero-shot-classification",
    "zero-shot-image-classification",
    "object-detection",
    "image-segmentation",
    "depth-estimation",
    "text-generation",
    "text2text-generation",
    "summarization",
    "translation",
    "automatic-speech-recognition",
    "audio-classification",
]
OTHER_NAMES = {"sentiment-analysis": "text-classification", "ner": "token-classification"}
"""Of transformers' pipelines."""
OwnPooling = Literal["mean", "cls", "lasttoken"]
Pooling = Literal["auto", OwnPooling]
Strategy = Literal["simple", "first", "average", "max", "none"]
NEW_TOKENS = 128
PHOTO, EXAMPLE = "This is a photo of {}.", "This example is {}."

BY_WORDS = ("zero-shot-image-classification",)
BY_ENTAILMENT = ("zero-shot-classification",)
ZERO_SHOT = (*BY_ENTAILMENT, *BY_WORDS)
OF_SOUNDS = ("audio-classification",)
CLASSIFICATION = ("image-classification", "text-classification", *OF_SOUNDS, *ZERO_SHOT)
EMBEDDING = ("feature-extraction", "image-feature-extraction")
SEQ2SEQ = ("text2text-generation", "summarization", "translation")
"""An encoder reads, a decoder writes; transformers 5 has no pipelines of these names any more."""
GENERATION = ("text-generation", *SEQ2SEQ)
TOKENS_APART = ("token-classification",)
ANSWERS = ("question-answering",)
WHOLE_TEXT = ("text-classification", "feature-extraction", *GENERATION)
TEXT = (*TOKENS_APART, *ANSWERS, *BY_ENTAILMENT, *WHOLE_TEXT)
SPEECH = ("automatic-speech-recognition",)
AUDIO = (*OF_SOUNDS, *SPEECH)
DETECTION = ("object-detection",)
SEGMENTATION = ("image-segmentation",)
DEPTH = ("depth-estimation",)
PLACES_IN_IMAGES = (*DETECTION, *SEGMENTATION, *DEPTH)
"""What is found has a place in an image, in pixels of what was read."""
IMAGE = ("image-classification", "image-feature-extraction", *BY_WORDS, *PLACES_IN_IMAGES)


def known_task(task: Any) -> Any:
    """A task, as it was given.

    Raises:
        ValueError: it is none of ours; says what runs it.
    """
    if task in get_args(Task) or not isinstance(task, str):
        return task
    if name := OTHER_NAMES.get(task):
        raise ValueError(f"it is another name of {name}: write that")
    if meant := likest(task, get_args(Task), cutoff=0.9):
        raise ValueError(f"did you mean {meant}?")
    raise ValueError(
        f"it must be one of {', '.join(get_args(Task))}; what else a pipeline of transformers does "
        "runs in a class of yours: kind: python"
    )


KnownTask = Annotated[Task, BeforeValidator(known_task)]


class HuggingFaceOptions(FormModel):
    """Settings of a task; each belongs to some tasks only and is refused with others."""

    model_config = ConfigDict(title="Options of the task")

    top_k: int | None = Field(
        default=None,
        ge=1,
        description="Classification: how many labels to give, best first. Empty or 1: "
        "predicted_label and predicted_score hold one value; more: lists. Generation with "
        "do_sample: draw from so many likeliest tokens only; empty: from all.",
    )
    pooling: Pooling | None = Field(
        default=None,
        description="Embeddings: how one vector is made of many. auto, also where empty: for text "
        "what the model's sentence-transformers files say, else the mean (of a vector are kept as "
        "many numbers as those files' truncate_dim says); for images the model's "
        "own image embedding, else its class token's vector, else the mean of its patches; with "
        "CLIP and the like, for both, that of the space they share. lasttoken: for text, that of "
        "its last token, as of many that were made of models that write.",
    )
    normalize: bool | None = Field(
        default=None,
        description="Embeddings: scale each vector to length 1. Empty: only where the model's "
        "sentence-transformers files say so. Where this and pooling both say what is done, the "
        "steps of those files count for nothing, dense layers included.",
    )
    max_length: int | None = Field(
        default=None,
        ge=1,
        description="Text: tokens after which a text is cut off. Empty, or more than this: what "
        "the model can read, less max_new_tokens where the model writes on from it; a prompt or a "
        "text to translate that is longer is set aside, and of others the job's log says that some "
        "are cut off. A chat is never cut off: one that is too long is set aside.",
    )
    prefix: Annotated[str | None, EmptyText()] = Field(
        default=None,
        description="Text: put before each text, as in 'summarize: ' or 'query: '. Empty: for "
        "summarization what the model's files say, as T5's do; for feature-extraction the default "
        "prompt of its sentence-transformers files, if they have one; else nothing. '' puts "
        "nothing there, whatever they say.",
    )
    source_language: str | None = Field(
        default=None,
        description="Translation with a model of many languages: that of the texts, as its "
        "tokenizer names it, such as eng_Latn, en_XX or en. Speech: that which is spoken; empty: "
        "the model listens which.",
    )
    target_language: str | None = Field(
        default=None,
        description="Translation with a model of many languages: the one to write in, as its "
        "tokenizer names it, such as deu_Latn, de_DE or de.",
    )
    chat: bool | None = Field(
        default=None,
        description="Generation: write each prompt as the model's chat template has it. A text is "
        "what the user says; a list of {role, content} is a conversation to go on with: after the "
        "assistant's words, where it ends with some, else with an answer.",
    )
    system_prompt: Annotated[str | None, EmptyText()] = Field(
        default=None,
        description="Generation with chat: what the model is told first, unless a conversation "
        "has such a message of its own.",
    )
    max_new_tokens: int | None = Field(
        default=None,
        ge=1,
        description="Generation and speech: tokens to write at most. Empty: what the files of an "
        f"encoder-decoder or a speech model say; of others {NEW_TOKENS}.",
    )
    num_beams: int | None = Field(
        default=None,
        ge=1,
        description="Generation and speech: beams to search with; 1 takes the likeliest token each "
        "time. Empty: what the model's generation_config.json says, else 1.",
    )
    do_sample: bool | None = Field(
        default=None,
        description="Generation: draw each token at random instead of taking the likeliest. What "
        "a row gets depends on seed and the row only, not on the rows beside it.",
    )
    temperature: float | None = Field(
        default=None,
        gt=0,
        description="Generation with do_sample: above 1 is bolder, below 1 safer. Empty: 1.",
    )
    top_p: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="Generation with do_sample: draw from the likeliest tokens only that together "
        "are this probable. Empty: from all.",
    )
    seed: int | None = Field(
        default=None, description="Generation with do_sample: other seed, other texts. Empty: 0."
    )

    aggregation_strategy: Strategy | None = Field(
        default=None,
        description="Tokens: how their labels become entities, as in transformers' pipelines. "
        "simple, also where empty: tokens side by side of one label are one, B- begins another; "
        "first, average, max: the same of whole words, each of which has the label of its first "
        "token, of its tokens' mean scores, or of its surest token; none: each token is one, with "
        "its label as it is, as for parts of speech. Tokens of the label O are left out.",
    )
    stride: int | None = Field(
        default=None,
        ge=0,
        description="Tokens: read a text that is too long in windows, of which two neighbours "
        "share so many tokens; of entities that overlap the longer one stays, as in transformers' "
        "pipelines. Empty: the text is cut off. Question answering: the same, and of the windows' "
        "answers the likeliest stays; empty: 128, or a third of what the model reads.",
    )
    max_answer_length: int | None = Field(
        default=None,
        ge=1,
        description="Question answering: tokens of an answer at most. Empty: 15.",
    )
    impossible_answers: bool | None = Field(
        default=None,
        description="Question answering: give an empty answer where that is likelier than any, as "
        "models can tell that were trained with questions which their text does not answer.",
    )
    candidate_labels: list[str] | None = Field(
        default=None,
        min_length=1,
        description="Zero-shot classification: the labels to choose from, as in [a cat, a dog]. "
        "Scores add up to 1 over them; SigLIP, and multi_label, give each one of its own. A text "
        "is read once with each of them, and resources.batch_size counts these pairs.",
    )
    hypothesis_template: str | None = Field(
        default=None,
        description="Zero-shot classification: the text that stands for a label, with {} in its "
        f"place. Empty: {EXAMPLE} of texts, {PHOTO} of images.",
    )
    multi_label: bool | None = Field(
        default=None,
        description="Zero-shot classification of texts: several labels may be true of a text, or "
        "none. Each one has a score of its own then, of how sure the model is that it follows and "
        "is not contradicted.",
    )
    threshold: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Detection: give objects with a score above this. Empty: 0.5.",
    )
    max_detections: int | None = Field(
        default=None,
        ge=1,
        description="Detection: objects to give for an image at most, the best. Empty: all.",
    )

    @field_validator("candidate_labels")
    @classmethod
    def _told_apart(cls, labels: list[str] | None) -> list[str] | None:
        if labels and (len(set(labels)) < len(labels) or not all(map(str.strip, labels))):
            raise ValueError("names a label twice, or one of no words: name each once")
        return labels

    @field_validator("hypothesis_template")
    @classmethod
    def _has_a_place(cls, template: str | None) -> str | None:
        if template is not None and template.count("{}") != 1:
            raise ValueError(f"has not one place for the label: write {{}} once, as in {PHOTO}")
        return template

    def label_texts(self, task: Task) -> list[str]:
        """The text that stands for each label."""
        template = self.hypothesis_template or (PHOTO if task in BY_WORDS else EXAMPLE)
        return [template.replace("{}", each) for each in self.candidate_labels or ()]

    @property
    def own_pooling(self) -> OwnPooling | None:
        """How one vector is made of many; None: as the model's files have it."""
        return None if self.pooling == "auto" else self.pooling
