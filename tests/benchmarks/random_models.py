"""Models of well-known sizes with random weights, and inputs for them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.kinds.models.hf.checkpoint import quiet


@dataclass(frozen=True)
class Sizes:
    """How large the models are, and how much they get to do."""

    hidden: int
    layers: int
    heads: int
    image_size: int
    vocabulary: int
    num_images: int
    num_texts: int
    longest_text: int
    num_prompts: int
    longest_prompt: int
    num_new_tokens: int

    @classmethod
    def base(cls) -> "Sizes":
        """ViT-base, BERT-base and GPT-2."""
        return cls(768, 12, 12, 224, 30_000, 8_192, 16_384, 256, 1_024, 128, 64)

    @classmethod
    def tiny(cls) -> "Sizes":
        """A thousandth of that."""
        return cls(64, 2, 2, 32, 1_000, 128, 256, 64, 64, 32, 8)


def save_vit(folder: Path, sizes: Sizes) -> None:
    """An image classifier of a thousand classes."""
    from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor

    config = ViTConfig(image_size=sizes.image_size, num_labels=1_000, **body(sizes))
    size = {"height": sizes.image_size, "width": sizes.image_size}
    ViTImageProcessor(size=size).save_pretrained(folder)
    save(ViTForImageClassification(config), folder)


def save_resnet(folder: Path, sizes: Sizes) -> None:
    """ResNet-50, of a thousand classes."""
    from transformers import ResNetConfig, ResNetForImageClassification, ViTImageProcessor

    size = {"height": sizes.image_size, "width": sizes.image_size}
    ViTImageProcessor(size=size).save_pretrained(folder)
    save(ResNetForImageClassification(ResNetConfig(num_labels=1_000)), folder)


def save_bert(folder: Path, sizes: Sizes) -> None:
    """A text encoder."""
    from transformers import BertConfig, BertModel

    config = BertConfig(vocab_size=sizes.vocabulary, **body(sizes))
    tokenizer(sizes).save_pretrained(folder)
    save(BertModel(config), folder)


def save_gpt2(folder: Path, sizes: Sizes) -> None:
    """A text generator that never stops by itself: every row gets all its new tokens."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=sizes.vocabulary,
        n_embd=sizes.hidden,
        n_layer=sizes.layers,
        n_head=sizes.heads,
        bos_token_id=None,
        eos_token_id=None,
    )
    tokenizer(sizes).save_pretrained(folder)
    save(GPT2LMHeadModel(config), folder)


def body(sizes: Sizes) -> dict[str, int]:
    """What ViT and BERT call their sizes."""
    return {
        "hidden_size": sizes.hidden,
        "num_hidden_layers": sizes.layers,
        "num_attention_heads": sizes.heads,
        "intermediate_size": 4 * sizes.hidden,
    }


def tokenizer(sizes: Sizes) -> Any:
    """One that knows as many words as the model."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {f"w{number}": number for number in range(sizes.vocabulary)}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="w0", unk_token="w0")


def save(model: Any, folder: Path) -> None:
    """Without progress bars between the figures."""
    with quiet():
        model.save_pretrained(folder)


def token_rows(count: int, longest: int, vocabulary: int) -> pa.Table:
    """Texts of random lengths, as the preprocessing leaves them."""
    random = np.random.default_rng(0)
    offsets = np.concatenate([[0], random.integers(4, longest + 1, count).cumsum()])
    values = pa.array(random.integers(1, vocabulary, offsets[-1]), pa.int32())
    tokens = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)
    return pa.table({"__row": np.arange(count), "__input_ids": tokens})


def num_tokens(rows: pa.Table) -> int:
    """Tokens in all rows."""
    return sum(len(each.values) for each in rows["__input_ids"].chunks)
