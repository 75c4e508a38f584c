"""Speech models of a few thousand random weights, saved as people save theirs."""

from pathlib import Path
from typing import Any

import numpy as np

from tasks.kinds.audio import Samples
from tests.kinds.sounds import tone
from tests.kinds.tiny_models import VOCABULARY, saved, tokenizer

RATE = 16_000


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


def save_whisper(folder: Path, positions: int = 32, **generation: Any) -> Path:
    """One that listens for a second and writes, with room for so many tokens.

    Args:
        folder: for its files.
        positions: tokens at most.
        generation: further settings of how it writes.
    """
    import torch
    from transformers import (
        WhisperConfig,
        WhisperFeatureExtractor,
        WhisperForConditionalGeneration,
    )

    torch.manual_seed(0)
    parts = ("encoder", "decoder")
    config = WhisperConfig(
        vocab_size=len(VOCABULARY) + 1,
        num_mel_bins=8,
        d_model=32,
        **{f"{part}_layers": 2 for part in parts},
        **{f"{part}_attention_heads": 2 for part in parts},
        **{f"{part}_ffn_dim": 64 for part in parts},
        max_source_positions=50,
        max_target_positions=positions,
        decoder_start_token_id=2,
        bos_token_id=2,
        eos_token_id=3,
        pad_token_id=0,
        init_std=0.5,
    )
    model = WhisperForConditionalGeneration(config)
    model.generation_config.update(
        no_timestamps_token_id=len(VOCABULARY),
        is_multilingual=False,
        **{"suppress_tokens": None, "begin_suppress_tokens": None, **generation},
    )
    for layer in model.model.decoder.layers:  # else what it hears hardly changes what it says
        layer.encoder_attn.out_proj.weight.data *= 30
    WhisperFeatureExtractor(feature_size=8, chunk_length=1).save_pretrained(folder)
    tokenizer(with_pairs=False).save_pretrained(folder)
    saved(model, folder)
    return folder


def sounds(count: int) -> list[Samples]:
    """Tones with noise, of many lengths and heights."""
    random = np.random.default_rng(0)
    return [
        tone(0.1 + 0.9 * at / count, RATE, 100 * 1.5**at)
        + 0.3 * random.normal(size=round((0.1 + 0.9 * at / count) * RATE)).astype(np.float32)
        for at in range(count)
    ]
