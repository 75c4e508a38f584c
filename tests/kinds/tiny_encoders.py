"""Models that read texts, of many makes, with random weights: padding has some as well."""

from pathlib import Path
from typing import Any

from tests.kinds.tiny_models import VOCABULARY, saved, tokenizer

SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}
SHORT_SIZES = {"d_model": 32, "n_layer": 2, "n_head": 2, "d_inner": 64}
OF_TYPE: dict[str, dict[str, Any]] = {
    "bert": SIZES,
    "big_bird": {**SIZES, "block_size": 2, "num_random_blocks": 1},
    "canine": {
        **SIZES,
        "local_transformer_stride": 16,
        "upsampling_kernel_size": 4,
        "downsampling_rate": 4,
    },
    "convbert": {**SIZES, "embedding_size": 32, "conv_kernel_size": 3, "head_ratio": 1},
    "fnet": {key: size for key, size in SIZES.items() if key != "num_attention_heads"},
    "funnel": {
        "d_model": 32,
        "block_sizes": [1, 1],
        "n_head": 2,
        "d_head": 16,
        "d_inner": 64,
        "architectures": ["FunnelModel"],
    },
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64},
    "llama": {**SIZES, "num_key_value_heads": 2},
    "longformer": {**SIZES, "attention_window": [4, 4], "max_position_embeddings": 66},
    "mobilebert": {
        **SIZES,
        "embedding_size": 32,
        "intra_bottleneck_size": 32,
        "true_hidden_size": 32,
    },
    "mra": SIZES,
    "nystromformer": {**SIZES, "segment_means_seq_len": 64, "num_landmarks": 64},
    "phi3": {
        **SIZES,
        "num_key_value_heads": 2,
        "original_max_position_embeddings": 24,
        "rope_parameters": {
            "rope_type": "longrope",
            "rope_theta": 10_000.0,
            "short_factor": [1.0] * 8,
            "long_factor": [1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 24.0, 32.0],
        },
    },
    "reformer": {
        "hidden_size": 32,
        "attention_head_size": 16,
        "num_attention_heads": 2,
        "feed_forward_size": 64,
        "axial_pos_shape": [8, 8],
        "axial_pos_embds_dim": [16, 16],
        "attn_layers": ["local", "local"],
        "local_attn_chunk_length": 4,
        "is_decoder": False,
        "max_position_embeddings": 64,
    },
    "roberta": {**SIZES, "max_position_embeddings": 66},
    "rwkv": {"hidden_size": 32, "num_hidden_layers": 2, "context_length": 64},
    "squeezebert": {**SIZES, "embedding_size": 32},
    "xlnet": SHORT_SIZES,
    "yoso": SIZES,
}


def save_encoder(folder: Path, kind: str, task: str, **more: Any) -> Any:
    """A model of a type of transformers', for classification or embeddings."""
    import torch
    from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification

    torch.manual_seed(0)
    fields = {"vocab_size": len(VOCABULARY), "num_labels": 4, "pad_token_id": 0, **OF_TYPE[kind]}
    config = AutoConfig.for_model(kind, **{**fields, **more})
    classifies = task == "text-classification"
    auto_class = AutoModelForSequenceClassification if classifies else AutoModel
    model = auto_class.from_config(config)
    for weights in model.parameters():
        if weights.ndim > 1:
            torch.nn.init.normal_(weights, 0, 0.3)
    tokenizer(with_pairs=True).save_pretrained(folder)
    return saved(model, folder)
