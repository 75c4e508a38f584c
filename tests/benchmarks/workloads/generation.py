"""Texts that a GPT-2 goes on from prompts of differing lengths, word by word the likeliest."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.benchmarks.random_models import Sizes, save, tokenizer
from tests.benchmarks.workloads.workload import Size, Target

KEY = "prompt_id"
SIZES: dict[Size, int] = {"whole": 1_792, "small": 128, "tiny": 4}
TARGETS = {
    "guide": (Target(4.5),),
    "plain": (Target(0.98), Target(0.95, "whole")),
    "floor": (Target(0.9), Target(0.85, "whole")),
}
MODEL = Sizes(
    hidden=768,
    layers=6,
    heads=12,
    image_size=0,
    vocabulary=50_257,
    num_images=0,
    num_texts=0,
    longest_text=0,
    num_prompts=0,
    longest_prompt=32,
    num_new_tokens=20,
)
"""DistilGPT-2's."""
ROWS_PER_FILE = 128
TIES = 1 / 500
"""Texts that may differ: two words that are as likely but for rounding, of random weights, whose
words are far closer to one another than a trained model's."""


def make_weights(folder: Path, seed: int) -> None:
    """Random ones; it never stops by itself, so that every way writes as much.

    What goes in and what comes out have weights apart, else it would repeat its last word for ever.
    """
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=MODEL.vocabulary,
        n_embd=MODEL.hidden,
        n_layer=MODEL.layers,
        n_head=MODEL.heads,
        bos_token_id=None,
        eos_token_id=None,
        tie_word_embeddings=False,
    )
    tokenizer(MODEL).save_pretrained(folder)
    save(GPT2LMHeadModel(config), folder)


def make_inputs(folder: Path, size: int, seed: int) -> None:
    """Parquet files of prompts of 4 to 32 words."""
    random = np.random.default_rng(seed)
    for number, first in enumerate(range(0, size, ROWS_PER_FILE)):
        rows = min(ROWS_PER_FILE, size - first)
        lengths = random.integers(4, MODEL.longest_prompt + 1, rows)
        words = (random.integers(1, MODEL.vocabulary, length) for length in lengths)
        prompts = [" ".join(f"w{word}" for word in each) for each in words]
        table = pa.table({KEY: np.arange(first, first + rows), "prompt": prompts})
        pq.write_table(table, folder / f"{number:04d}.parquet")


def spec(inputs: Path, weights: Path, output: Path) -> dict[str, Any]:
    """Our run: nothing set but what is read and kept, and how much to write."""
    return {
        "name": "generation",
        "source": {"kind": "parquet", "path": str(inputs)},
        "model": {
            "kind": "huggingface",
            "task": "text-generation",
            "name_or_path": str(weights),
            "options": {"max_new_tokens": MODEL.num_new_tokens},
        },
        "sink": {"kind": "parquet", "path": str(output), "keep_columns": [KEY]},
    }


def compare(ours: pa.Table, theirs: pa.Table) -> None:
    """The same texts, up to ties."""
    pairs = zip(*(each["generated_text"].to_pylist() for each in (ours, theirs)), strict=True)
    differ = [number for number, (mine, other) in enumerate(pairs) if mine != other]
    assert len(differ) <= TIES * len(ours), f"{len(differ)} of {len(ours)} texts differ: {differ}"
