"""vLLM's own engine in this process: rows go in one by one, and are batched as they run."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from PIL.Image import DecompressionBombError

from tasks.errors import InvalidSpec, StageFailed
from tasks.kinds.images import DECODER_ERRORS, BadImage
from tasks.kinds.models.arrays import Columns, label_columns
from tasks.kinds.models.hf.heads import class_names
from tasks.kinds.models.hf.options import NEW_TOKENS
from tasks.kinds.models.hf.sampling import seed_of
from tasks.kinds.models.llm.answers import Generated
from tasks.kinds.models.llm.dated_templates import dated_template
from tasks.kinds.models.llm.engine_files import refuse_wordless
from tasks.kinds.models.llm.engine_process import watch
from tasks.kinds.models.llm.fetched_images import with_files
from tasks.kinds.models.llm.options import VllmOptions
from tasks.kinds.models.llm.reply_outcomes import GIVEN_UP
from tasks.kinds.models.llm.row_answers import Key, Outcome
from tasks.kinds.models.llm.shown_images import Illustrated
from tasks.kinds.models.machine_errors import chain, is_out_of_memory

POOLING = ("embed", "classify")
CUT_OFF = {"truncate_prompt_tokens": -1}
"""Texts that are too long for the model are read up to where it can."""

NOT_SHOWN = (*DECODER_ERRORS, DecompressionBombError)
"""What vLLM raises of an image, as its readers do."""


def load_engine(name: str, revision: str | None, task: str, arguments: dict[str, Any]) -> Any:
    """A `vllm.LLM`, its weights on the device.

    Raises:
        InvalidSpec: vLLM does not take the arguments, or not on this device; or the model brings
            no words.
        StageFailed: its engine did not start.
        Exception: there is too little memory, as it is.
    """
    import vllm

    runner = {"runner": "pooling", "convert": task} if task in POOLING else {"runner": "generate"}
    try:
        llm = vllm.LLM(name, revision=revision, tokenizer_revision=revision, **runner, **arguments)
    except (ValueError, TypeError) as error:
        problem = f"cannot start vLLM with {name}: {error}"
        raise InvalidSpec.at("model.engine_kwargs", arguments, problem) from error
    except (RuntimeError, TimeoutError) as error:
        led_to_by = chain(error)
        if any(map(is_out_of_memory, led_to_by)):
            raise
        root = led_to_by[-1]
        raise StageFailed(
            f"vLLM did not start with {name}: {type(root).__name__}: {root}; the messages of its "
            "engine process are above this in the job's log"
        ) from error
    refuse_wordless(llm, name, arguments)
    watch(llm)
    return llm


@dataclass(frozen=True)
class Engine:
    """A loaded model, asked for a batch at a time."""

    llm: Any
    options: VllmOptions
    answer_schema: dict[str, Any] = field(default_factory=dict)
    """JSON schema of what is written; empty: anything."""

    def generated(
        self, prompts: Sequence[Any], keys: Sequence[Key], days: Sequence[str | None] | None = None
    ) -> list[Outcome]:
        """A text for each prompt, or the ValueError that sets its row aside.

        Prompts are handed in one by one, so that a bad one costs the others nothing.

        Args:
            prompts: texts, conversations, with images or not, or ValueErrors of rows that need not
                be asked for.
            keys: of the rows, for what is drawn at random.
            days: on which the run of each row was planned, where prompts are conversations.

        Raises:
            StageFailed: the engine failed: no row's fault.
        """
        found: list[Outcome] = list(prompts)
        asked = []
        sent = with_files(prompts, self.llm)
        for at, (prompt, key) in enumerate(zip(sent, keys, strict=True)):
            if isinstance(prompt, ValueError):
                found[at] = prompt
                continue
            try:
                if days is None:
                    self.enqueue(prompt, key)
                else:
                    self.enqueue_chat(prompt, key, days[at])
                asked.append(at)
            except Exception as error:
                found[at] = of_the_row(error, prompt)
        for at, answer in zip(asked, self.finished(), strict=True):
            found[at] = answer
        return found

    def enqueue(self, prompt: Any, key: Key) -> None:
        """Hand one prompt in; it is tokenised here, and starts to run."""
        self.llm.enqueue([as_sent(prompt)], [self.parameters(key)], use_tqdm=False)

    def enqueue_chat(self, prompt: Any, key: Key, day: str | None) -> None:
        """Hand a conversation in, as of a day."""
        given = self.options.chat_template_kwargs
        dated = dated_template(self.llm.get_tokenizer(), given.get("tools"), day)
        self.llm.enqueue_chat(
            [as_sent(prompt)],
            [self.parameters(key)],
            use_tqdm=False,
            chat_template_kwargs=given or None,
            **({"chat_template": dated} if dated else {}),
        )

    def finished(self) -> list[Generated]:
        """What became of the prompts handed in, in their order.

        Raises:
            StageFailed: the engine failed.
        """
        try:
            outputs = self.llm.wait_for_completion(use_tqdm=False)
        except Exception as error:
            raise engine_failed(error) from error
        return [generated(each) for each in outputs]

    def parameters(self, key: Key) -> Any:
        """How to draw a row's tokens: the same in whatever batch the row comes."""
        return sampling(self.options, self.answer_schema, key)

    def embeddings(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each text; errors as `pooled`."""
        return [each.embedding for each in self.pooled(self.llm.embed, texts)]

    def classified(self, texts: Sequence[str], name: str) -> Columns:
        """The likeliest label of each text; errors as `pooled`.

        Raises:
            InvalidSpec: the checkpoint of this name does not name each label.
        """
        labels = class_names(self.llm.model_config.hf_config, name)
        scores = [each.probs for each in self.pooled(self.llm.classify, texts)]
        return label_columns(np.asarray(scores, np.float32), labels)

    def pooled(self, call: Any, texts: Sequence[str]) -> list[Any]:
        """What a pooling model makes of texts.

        Raises:
            Exception: a text is not what the model takes; which one is not known.
            StageFailed: the engine failed.
        """
        try:
            made = call(list(texts), use_tqdm=False, tokenization_kwargs=dict(CUT_OFF))
        except Exception as error:
            raise of_the_row(error) from error
        return [each.outputs for each in made]


def sampling(options: VllmOptions, answer_schema: dict[str, Any], key: Key) -> Any:
    """How to draw a row's tokens; errors are vLLM's own."""
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    given = options.given
    given.pop("chat_template_kwargs", None)
    more = given.pop("sampling_params", {})
    if answer_schema:
        more = {"structured_outputs": {"json": answer_schema}, **more}
    if "structured_outputs" in more:
        structure = StructuredOutputsParams(**more["structured_outputs"])
        more = {**more, "structured_outputs": structure}
    settings = {"max_tokens": NEW_TOKENS, "temperature": 0.0, **given, **more}
    if settings["temperature"]:
        settings["seed"] = seed_of(given.get("seed", 0), key)
    return SamplingParams(**settings)


def check_sampling(options: VllmOptions, answer_schema: dict[str, Any]) -> None:
    """See that vLLM takes the settings of generation: each row would be set aside over them.

    Raises:
        InvalidSpec: it does not.
    """
    from vllm.exceptions import VLLMClientError

    try:
        sampling(options, answer_schema, (0, 0))
    except (VLLMClientError, TypeError, ValueError) as error:
        problem = f"are not what vLLM takes: {error}"
        raise InvalidSpec.at("model.options", options.given, problem) from error


def as_sent(prompt: Any) -> Any:
    """A prompt as vLLM takes it."""
    return prompt.as_sent() if isinstance(prompt, Illustrated) else prompt


def generated(output: Any) -> Generated:
    """What became of one prompt.

    Raises:
        StageFailed: the engine gave it up in the middle.
    """
    made = output.outputs[0]
    if made.finish_reason in GIVEN_UP:
        problem = f"vLLM ended a request with finish reason {made.finish_reason!r}"
        raise StageFailed(
            f"{problem}: its text is not a complete answer, and the request is repeated"
        )
    return Generated(
        made.text, made.finish_reason, len(output.prompt_token_ids), len(made.token_ids)
    )


def of_the_row(error: Exception, prompt: Any = None) -> Exception:
    """An error that a prompt has caused, or its image.

    Raises:
        StageFailed: the engine has failed.
    """
    from vllm.exceptions import VLLMClientError

    if isinstance(error, (VLLMClientError, ValueError, TypeError)):
        return error
    if isinstance(prompt, Illustrated) and isinstance(error, NOT_SHOWN):
        return BadImage(f"the image cannot be read: {type(error).__name__}: {error}")
    raise engine_failed(error) from error


def engine_failed(error: Exception) -> StageFailed:
    """What to say where the engine has failed."""
    return StageFailed(f"vLLM's engine failed: {type(error).__name__}: {error}")
