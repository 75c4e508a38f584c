"""Models of a few thousand random weights that write otherwise where padding is not minded."""

from pathlib import Path
from typing import Any

from tests.kinds.tiny_encoders import OF_TYPE, SIZES
from tests.kinds.tiny_models import VOCABULARY, saved, tokenizer
from tests.kinds.tiny_writers import with_large_weights

IDS = {"pad_token_id": 0, "eos_token_id": 3, "bos_token_id": 2}


def save_phi3(folder: Path) -> Any:
    """One that turns tokens otherwise in texts of more than 24 (LongRoPE)."""
    return save_writer(folder, "phi3", **OF_TYPE["phi3"])


def save_llama4(folder: Path) -> Any:
    """One that looks more sharply from the 16th token on, padding included."""
    return save_writer(
        folder,
        "llama4_text",
        **SIZES,
        intermediate_size_mlp=64,
        num_key_value_heads=2,
        head_dim=16,
        num_local_experts=2,
        attention_chunk_size=8,
        no_rope_layers=[1, 0],
        floor_scale=16,
        attn_scale=2.0,
    )


def save_xlstm(folder: Path) -> Any:
    """One that is recurrent in all layers, and asks for no mask."""
    return save_writer(folder, "xlstm", hidden_size=128, num_hidden_layers=2, num_heads=2)


def save_writer(folder: Path, kind: str, **sizes: Any) -> Any:
    """One of a type of transformers'."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, vocab_size=len(VOCABULARY), **sizes, **IDS)
    tokenizer(with_pairs=False).save_pretrained(folder)
    return saved(with_large_weights(AutoModelForCausalLM.from_config(config)), folder)
