"""What a model's files must have for its task and options."""

from tasks.kinds.models.hf import (
    answers,
    chat,
    context_length,
    embedding,
    joint,
    languages,
    places,
    speech,
    windows,
)
from tasks.kinds.models.hf.checkpoint import Checkpoint
from tasks.kinds.models.hf.options import (
    ANSWERS,
    BY_ENTAILMENT,
    BY_WORDS,
    DEPTH,
    EMBEDDING,
    GENERATION,
    SEGMENTATION,
    SPEECH,
    TEXT,
    TOKENS_APART,
    HuggingFaceOptions,
    Task,
)


def check_options(checkpoint: Checkpoint, task: Task, options: HuggingFaceOptions) -> None:
    """See that the files have what the options ask of them.

    A tokenizer is loaded where only it can tell: to import transformers takes seconds.

    Raises:
        InvalidSpec: says what they lack.
    """
    if task == "translation":
        languages.check_languages(checkpoint, options)
    if task in SPEECH:
        speech.check_language(checkpoint, options.source_language)
        speech.check_room(checkpoint, options)
    if task in TOKENS_APART:
        places.check_tokenizer(checkpoint)
        windows.check_stride(checkpoint, task, options)
    if task in ANSWERS:
        answers.check(checkpoint, options)
    if task in BY_WORDS:
        from tasks.kinds.models.hf import zero_shot

        zero_shot.check_model(checkpoint)
    if task in SEGMENTATION:
        from tasks.kinds.models.hf import segmentation

        segmentation.check(checkpoint)
    if task in DEPTH:
        from tasks.kinds.models.hf import depth

        depth.check(checkpoint)
    if task in BY_ENTAILMENT:
        from tasks.kinds.models.hf import entailment

        entailment.check(checkpoint, options)
    if task in GENERATION:
        context_length.check_new_tokens(checkpoint, task, options)
    if task in TEXT and options.max_length and options.max_length <= context_length.MOST_ADDED:
        context_length.refuse_no_room(checkpoint.tokenizer(), options.max_length, options)
    if options.chat:
        chat.check_template(checkpoint, options.chat_template_kwargs)
    if task in EMBEDDING:
        joint.check_pooling(checkpoint, task, options)
    if task == "feature-extraction":
        embedding.check_files(options, checkpoint)
