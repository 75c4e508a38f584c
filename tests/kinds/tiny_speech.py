"""A speech model of a few thousand random weights, saved as people save theirs."""

from pathlib import Path
from typing import Any

from tests.kinds.tiny_models import saved


def save_wav2vec2(folder: Path) -> Any:
    """A classifier of sounds at 16 kHz, of four words."""
    import torch
    from transformers import (
        Wav2Vec2Config,
        Wav2Vec2FeatureExtractor,
        Wav2Vec2ForSequenceClassification,
    )

    torch.manual_seed(0)
    words = ["yes", "no", "up", "down"]
    config = Wav2Vec2Config(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        conv_dim=(8, 8, 8),
        conv_stride=(5, 4, 4),
        conv_kernel=(10, 8, 8),
        num_conv_pos_embeddings=4,
        num_conv_pos_embedding_groups=2,
        classifier_proj_size=16,
        initializer_range=1.0,
        id2label=dict(enumerate(words)),
        label2id={word: at for at, word in enumerate(words)},
    )
    Wav2Vec2FeatureExtractor(sampling_rate=16_000).save_pretrained(folder)
    return saved(Wav2Vec2ForSequenceClassification(config), folder)
