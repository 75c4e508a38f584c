"""Models of a few thousand random weights that vLLM's engine takes on CPUs too.

Its attention there wants heads of 32 numbers and more. Their tokens are bytes, so that they can
write whatever a schema asks for.
"""

from pathlib import Path
from typing import Any

NAMES = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
TOKENS = 256 + len(NAMES)
PLACES = 128
CHAT_TEMPLATE = (
    "{% if messages[-1].role == 'assistant' %}{{ raise_exception('it has answered') }}{% endif %}"
    "{{ strftime_now('%d %b') }}{{ '!' if loud else '' }}"
    "{% for message in messages %}{{ message.role[0] + message.content }}{% endfor %}"
)


def byte_tokenizer(places: int = PLACES, **names: Any) -> Any:
    """A tokenizer whose tokens are bytes.

    Args:
        places: of the longest text.
        names: of tokens that stand for something else.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = {word: number for number, word in enumerate([*NAMES.values(), *letters])}
    made = Tokenizer(models.BPE(vocab=words, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    given = {**NAMES, **names}
    return PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=places, **given)


def sizes() -> dict[str, Any]:
    """Arguments of a small Llama's configuration."""
    return {
        "vocab_size": TOKENS,
        "hidden_size": 64,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "num_hidden_layers": 2,
        "intermediate_size": 128,
        "max_position_embeddings": PLACES,
        "initializer_range": 0.3,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }


def save_llama(folder: Path) -> Any:
    """A causal model with a chat template that writes the date."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(folder)
    model = LlamaForCausalLM(LlamaConfig(**sizes())).eval()
    model.save_pretrained(folder)
    return model


def save_classifying_llama(folder: Path) -> Any:
    """One with a label for each text, off its last token."""
    import torch
    from transformers import LlamaConfig, LlamaForSequenceClassification

    torch.manual_seed(0)
    byte_tokenizer().save_pretrained(folder)
    labels = {0: "short", 1: "long", 2: "odd"}
    model = LlamaForSequenceClassification(LlamaConfig(**sizes(), id2label=labels)).eval()
    model.save_pretrained(folder)
    return model
