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
        raise ValueError(f"it is another name for {name}: write that")
    if meant := likest(task, get_args(Task), cutoff=0.9):
        raise ValueError(f"did you mean {meant}?")
    raise ValueError(
        f"it must be one of {', '.join(get_args(Task))}; for other transformers pipelines, write "
        "your own class: kind: python"
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
        "do_sample: draw only from this many of the likeliest tokens; empty: from all.",
    )
    pooling: Pooling | None = Field(
        default=None,
        description="Embeddings: how many vectors become one. auto (also if empty): for text what "
        "the model's sentence-transformers files say, otherwise the mean (with truncate_dim in "
        "those files, of that many numbers); for images the model's own image embedding, otherwise "
        "the vector of its class token, otherwise the mean of its patches; for both, with CLIP and "
        "similar models, the embedding in their shared space. lasttoken: for text, the vector of "
        "the last token, as in many embedding models made from generative ones.",
    )
    normalize: bool | None = Field(
        default=None,
        description="Embeddings: scale each vector to length 1. Empty: only if the model's "
        "sentence-transformers files say so. If this and pooling (not auto) are both set, the "
        "steps in those files are ignored, dense layers included.",
    )
    max_length: int | None = Field(
        default=None,
        ge=1,
        description="Text: tokens after which a text is cut off. Empty, or more than this: what "
        "the model can read, less max_new_tokens if the model continues the text. Longer prompts "
        "and texts to translate are set aside; other texts are cut off, and the job's log says so. "
        "A chat is never cut off: one that is too long is set aside.",
    )
    prefix: Annotated[str | None, EmptyText()] = Field(
        default=None,
        description="Text: put before each text, as in 'summarize: ' or 'query: '. Empty: for "
        "summarization what the model's files say, as with T5; for feature-extraction the default "
        "prompt of its sentence-transformers files, if they have one; otherwise nothing. '' puts "
        "nothing there, whatever they say.",
    )
    source_language: str | None = Field(
        default=None,
        description="Translation with a multilingual model: language of the texts, as its "
        "tokenizer names it, such as eng_Latn, en_XX or en. Speech: the language spoken; empty: "
        "the model detects it.",
    )
    target_language: str | None = Field(
        default=None,
        description="Translation with a multilingual model: language to translate into, as its "
        "tokenizer names it, such as deu_Latn, de_DE or de.",
    )
    chat: bool | None = Field(
        default=None,
        description="Generation: write each prompt with the model's chat template. A text is the "
        "user's message; a list of {role, content} is a conversation to continue: after the "
        "assistant's words if it ends with some, otherwise with an answer.",
    )
    system_prompt: Annotated[str | None, EmptyText()] = Field(
        default=None,
        description="Generation with chat: the system message, unless a conversation has its own.",
    )
    chat_template_kwargs: dict[str, Any] = Field(
        default={},
        description="Generation with chat: arguments of the model's template, as in "
        "{enable_thinking: false}. If the template writes today's date, it gets the day (UTC) on "
        "which the run was planned.",
    )
    max_new_tokens: int | None = Field(
        default=None,
        ge=1,
        description="Generation and speech: maximum number of tokens to write. Empty: what the "
        f"files of an encoder-decoder or a speech model say; for others {NEW_TOKENS}.",
    )
    num_beams: int | None = Field(
        default=None,
        ge=1,
        description="Generation and speech: beams to search with; 1 takes the likeliest token each "
        "time. Empty: what the model's generation_config.json says, otherwise 1.",
    )
    do_sample: bool | None = Field(
        default=None,
        description="Generation: draw each token at random instead of taking the likeliest. What a "
        "row gets depends only on the seed and the row's place in its run, not on the rows beside "
        "it; a redrive of the row, or another run, may draw others.",
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
        description="Generation with do_sample: draw only from the likeliest tokens that together "
        "have this probability. Empty: from all.",
    )
    seed: int | None = Field(
        default=None,
        description="Generation with do_sample: another seed gives other texts. Empty: 0.",
    )

    aggregation_strategy: Strategy | None = Field(
        default=None,
        description="Tokens: how their labels become entities, as in transformers' pipelines. "
        "simple (also if empty): adjacent tokens with the same label are one entity, B- begins "
        "another; first, average, max: the same for whole words, which have the label of their "
        "first token, of their tokens' mean scores, or of their surest token; none: each token is "
        "one, with its label as it is, as for parts of speech. Tokens with the label O are left "
        "out.",
    )
    stride: int | None = Field(
        default=None,
        ge=0,
        description="Tokens: read a text that is too long in windows that overlap by this many "
        "tokens; of overlapping entities the longer one stays, as in transformers' pipelines. "
        "Empty: the text is cut off. Question answering: the same, and the likeliest answer of all "
        "windows stays; empty: 128, or a third of what the model reads.",
    )
    max_answer_length: int | None = Field(
        default=None,
        ge=1,
        description="Question answering: maximum number of tokens of an answer. Empty: 15.",
    )
    impossible_answers: bool | None = Field(
        default=None,
        description="Question answering: give an empty answer if that is likelier than any; for "
        "models trained with questions that their text does not answer.",
    )
    candidate_labels: list[str] | None = Field(
        default=None,
        min_length=1,
        description="Zero-shot classification: the labels to choose from, as in [a cat, a dog]. "
        "Their scores add up to 1, except with SigLIP and multi_label, where each has its own. A "
        "text is read once with each label, and resources.batch_size counts these pairs.",
    )
    hypothesis_template: str | None = Field(
        default=None,
        description="Zero-shot classification: the sentence for a label, with {} in its place. "
        f"Empty: {EXAMPLE} for texts, {PHOTO} for images.",
    )
    multi_label: bool | None = Field(
        default=None,
        description="Zero-shot classification of texts: several labels may be true of a text, or "
        "none. Each then has its own score: how sure the model is that the label follows and is "
        "not contradicted.",
    )
    threshold: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Detection: keep objects with a score above this. Empty: 0.5.",
    )
    max_detections: int | None = Field(
        default=None,
        ge=1,
        description="Detection: maximum number of objects per image, the best ones. Empty: all.",
    )

    @field_validator("candidate_labels")
    @classmethod
    def _told_apart(cls, labels: list[str] | None) -> list[str] | None:
        if labels and (len(set(labels)) < len(labels) or not all(map(str.strip, labels))):
            raise ValueError("has a label twice, or an empty one: list each once")
        return labels

    @field_validator("hypothesis_template")
    @classmethod
    def _has_a_place(cls, template: str | None) -> str | None:
        if template is not None and template.count("{}") != 1:
            raise ValueError(
                f"needs exactly one place for the label: write {{}} once, as in {PHOTO}"
            )
        return template

    def label_texts(self, task: Task) -> list[str]:
        """The text that stands for each label."""
        template = self.hypothesis_template or (PHOTO if task in BY_WORDS else EXAMPLE)
        return [template.replace("{}", each) for each in self.candidate_labels or ()]

    @property
    def own_pooling(self) -> OwnPooling | None:
        """How one vector is made of many; None: as the model's files have it."""
        return None if self.pooling == "auto" else self.pooling
