"""A stand-in for the package vllm, where it is not: its calls and types, and none of its engine.

It has what the kind calls of vLLM 0.29's `LLM`, with the same arguments, outputs and errors. A
prompt's tokens are its characters; the model writes the prompt backwards. What this proves is how
rows, outcomes and errors travel. That vLLM takes these calls, and what it answers, `make test-vllm`
tells.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

LABELS = {0: "short", 1: "long"}
BROKEN = "the engine dies of this"
REASON = "length"
TOKENIZER: Any = None


class VLLMError(Exception): ...


class VLLMClientError(VLLMError): ...


class VLLMValidationError(VLLMClientError): ...


class EngineDeadError(VLLMError): ...


class SamplingParams:
    """Takes what vLLM's takes of what the kind gives."""

    names = frozenset(
        {"max_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "stop"}
        | {"structured_outputs"}
    )

    def __init__(self, **given: Any) -> None:
        if unknown := given.keys() - self.names:
            raise TypeError(f"Unexpected keyword argument {sorted(unknown)[0]!r}")
        self.given = given


class StructuredOutputsParams:
    def __init__(self, json: Any = None) -> None:
        self.json = json


class LLM:
    """vLLM's offline engine."""

    made: "list[LLM]" = []  # noqa: RUF012

    def __init__(self, model: str, *, max_model_len: int = 30, **arguments: Any) -> None:
        if arguments.get("tensor_parallel_size", 1) > 1:
            raise ValueError("World size (2) is larger than the number of available GPUs (1)")
        self.arguments = {"model": model, **arguments}
        self.max_model_len = max_model_len
        self.model_config = SimpleNamespace(hf_config=SimpleNamespace(id2label=LABELS))
        self.queue: list[tuple[str, SamplingParams]] = []
        self.ran: list[list[str]] = []
        self.parameters: list[SamplingParams] = []
        self.templates: list[Any] = []
        self.conversations: list[Any] = []
        self.llm_engine = SimpleNamespace(engine_core=SimpleNamespace())  # in this process
        LLM.made.append(self)

    def get_tokenizer(self) -> Any:
        return TOKENIZER

    def enqueue(
        self, prompts: Sequence[str], sampling_params: Any = None, *, use_tqdm: bool = True
    ) -> list[str]:
        for prompt, parameters in zip(prompts, sampling_params, strict=True):
            if len(prompt) >= self.max_model_len:
                raise VLLMValidationError(
                    f"The decoder prompt (length {len(prompt)}) is longer than the maximum model "
                    f"length of {self.max_model_len}."
                )
            self.queue.append((prompt, parameters))
            self.parameters.append(parameters)
        return [str(len(self.queue))] * len(prompts)

    def enqueue_chat(
        self,
        messages: Sequence[list[dict[str, Any]]],
        sampling_params: Any = None,
        use_tqdm: bool = True,
        *,
        chat_template: str | None = None,
        chat_template_kwargs: dict[str, Any] | None = None,
    ) -> list[str]:
        self.templates.append((chat_template, chat_template_kwargs))
        written = []
        for talk in messages:
            if talk[-1]["role"] == "assistant":
                raise ValueError("the last message must be the user's")  # as templates say it
            self.conversations.append(talk)
            written.append("|".join(words_of(each["content"]) for each in talk))
        return self.enqueue(written, sampling_params, use_tqdm=use_tqdm)

    def wait_for_completion(self, *, use_tqdm: bool = True) -> list[Any]:
        asked, self.queue = self.queue, []
        self.ran.append([prompt for prompt, _ in asked])
        if BROKEN in self.ran[-1]:
            raise EngineDeadError("EngineCore encountered an issue.")
        return [
            SimpleNamespace(
                prompt_token_ids=list(prompt),
                outputs=[written(prompt[::-1][: parameters.given["max_tokens"]])],
            )
            for prompt, parameters in asked
        ]

    def generate(
        self, prompts: Sequence[str], sampling_params: Any = None, *, use_tqdm: bool = True
    ) -> list[Any]:
        self.enqueue(prompts, [sampling_params] * len(prompts), use_tqdm=use_tqdm)
        return self.wait_for_completion(use_tqdm=use_tqdm)

    def embed(
        self, prompts: Sequence[str], *, use_tqdm: bool = True, tokenization_kwargs: Any = None
    ) -> list[Any]:
        self.ran.append(list(prompts))
        if BROKEN in prompts:
            raise EngineDeadError("EngineCore encountered an issue.")
        assert tokenization_kwargs == {"truncate_prompt_tokens": -1}
        return [
            SimpleNamespace(outputs=SimpleNamespace(embedding=[float(len(each)), 0.5]))
            for each in prompts
        ]

    def classify(
        self, prompts: Sequence[str], *, use_tqdm: bool = True, tokenization_kwargs: Any = None
    ) -> list[Any]:
        shares = np.clip([len(each) / 20 for each in prompts], 0, 1)
        return [
            SimpleNamespace(outputs=SimpleNamespace(probs=[1 - share, share])) for share in shares
        ]


def words_of(content: Any) -> str:
    """What a message says, beside the images that it shows."""
    if isinstance(content, str):
        return content
    return "".join(each.get("text", "") for each in content)


def written(text: str) -> SimpleNamespace:
    """One completion."""
    return SimpleNamespace(text=text, token_ids=list(text), finish_reason=REASON)


@contextmanager
def vllm_stand_in() -> Iterator[type[LLM]]:
    """Puts the stand-in where `import vllm` finds it."""
    names: dict[str, dict[str, Any]] = {
        "vllm": {"LLM": LLM, "SamplingParams": SamplingParams},
        "vllm.sampling_params": {"StructuredOutputsParams": StructuredOutputsParams},
        "vllm.exceptions": {"VLLMClientError": VLLMClientError},
    }
    modules = {name: ModuleType(name) for name in names}
    for name, members in names.items():
        modules[name].__spec__ = ModuleSpec(name, None)  # else it counts as not installed
        vars(modules[name]).update(members)
    LLM.made = []
    with patch.dict(sys.modules, modules):
        yield LLM
