"""Options that do nothing for a task, or beside others."""

from tasks.kinds.models.hf.options import (
    ANSWERS,
    BY_ENTAILMENT,
    CLASSIFICATION,
    DETECTION,
    EMBEDDING,
    GENERATION,
    SPEECH,
    TEXT,
    TOKENS_APART,
    WHOLE_TEXT,
    ZERO_SHOT,
    HuggingFaceOptions,
    Task,
)

BELONGS_TO: dict[str, tuple[str, ...]] = {
    "top_k": (*CLASSIFICATION, *GENERATION),
    "normalize": EMBEDDING,
    "pooling": EMBEDDING,
    "max_length": TEXT,
    "prefix": WHOLE_TEXT,
    "source_language": ("translation", *SPEECH),
    "target_language": ("translation",),
    "chat": ("text-generation",),
    "system_prompt": ("text-generation",),
    "chat_template_kwargs": ("text-generation",),
    "max_new_tokens": (*GENERATION, *SPEECH),
    "num_beams": (*GENERATION, *SPEECH),
    "do_sample": GENERATION,
    "temperature": GENERATION,
    "top_p": GENERATION,
    "seed": GENERATION,
    "aggregation_strategy": TOKENS_APART,
    "stride": (*TOKENS_APART, *ANSWERS),
    "max_answer_length": ANSWERS,
    "impossible_answers": ANSWERS,
    "candidate_labels": ZERO_SHOT,
    "hypothesis_template": ZERO_SHOT,
    "multi_label": BY_ENTAILMENT,
    "threshold": DETECTION,
    "max_detections": DETECTION,
}
SAMPLING = ("temperature", "top_p", "seed")


def problem_with(options: HuggingFaceOptions, task: Task) -> str | None:
    """What is wrong with options for a task, as a sentence; None where nothing is."""
    mine = [name for name, tasks in BELONGS_TO.items() if task in tasks]
    for name, tasks in BELONGS_TO.items():
        value = getattr(options, name)
        if value not in (None, {}) and task not in tasks:
            return (
                f"model.options.{name}: {value!r} is for {', '.join(tasks)}, not {task}, which "
                f"takes {', '.join(mine) or 'none'}"
            )
    return conflict(options, task)


def conflict(options: HuggingFaceOptions, task: Task) -> str | None:
    """Which option does nothing beside the others, as a sentence."""
    sampling = (*SAMPLING, "top_k") if task in GENERATION else SAMPLING
    of_chats = ("system_prompt", "chat_template_kwargs")
    needs = {**dict.fromkeys(sampling, "do_sample"), **dict.fromkeys(of_chats, "chat")}
    for name, needed in needs.items():
        value = getattr(options, name)
        if value not in (None, {}) and not getattr(options, needed):
            return f"model.options.{name}: {value!r} has no effect without {needed}: true"
    if options.chat and options.prefix is not None:
        problem = "has no effect with chat: true; put it in the prompts or system_prompt"
        return f"model.options.prefix: {options.prefix!r} {problem}"
    if task in ZERO_SHOT and not options.candidate_labels:
        return f"model.options.candidate_labels: list the labels that {task} chooses from"
    if options.pooling == "lasttoken" and task != "feature-extraction":
        return "model.options.pooling: 'lasttoken' is for texts; for images, set auto, mean or cls"
    if options.stride is not None and options.aggregation_strategy == "none":
        problem = "needs whole entities, but aggregation_strategy is none: set another one"
        return f"model.options.stride: {options.stride} {problem}"
    if options.do_sample and (options.num_beams or 1) > 1:
        return f"model.options.num_beams: {options.num_beams} cannot be combined with do_sample"
    return None
