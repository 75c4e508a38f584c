"""Classifiers of sounds of a few thousand random weights, one of each type of model."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.kinds.tiny_models import saved

WORDS = ["yes", "no", "up", "down"]
NAMES: dict[str, Any] = {
    "id2label": dict(enumerate(WORDS)),
    "label2id": {word: at for at, word in enumerate(WORDS)},
}
LAYERS: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "initializer_range": 0.5,
}
CONVOLUTIONS: dict[str, Any] = {
    "conv_dim": (8, 8, 8),
    "conv_stride": (5, 4, 4),
    "conv_kernel": (10, 8, 8),
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
    "classifier_proj_size": 16,
}
SHORTEST = 10 + 5 * (8 + 4 * (8 - 1) - 1)
"""Samples that these convolutions make one vector of."""
SHARES_BATCHES = {"feat_extract_norm": "layer", "do_stable_layer_norm": True}
"""So that lengths may differ in a batch."""


def of_samples(name: str, **more: Any) -> Callable[[Path], Any]:
    """What saves a model that listens to samples.

    Args:
        name: of its classes, as in Wav2Vec2.
        more: of its configuration.
    """

    def save(folder: Path) -> Any:
        import torch
        import transformers

        torch.manual_seed(0)
        config = getattr(transformers, f"{name}Config")(**LAYERS, **CONVOLUTIONS, **NAMES, **more)
        masked = more.get("feat_extract_norm") == "layer"
        extractor = transformers.Wav2Vec2FeatureExtractor(return_attention_mask=masked)
        extractor.save_pretrained(folder)
        model = getattr(transformers, f"{name}ForSequenceClassification")(config)
        for module in model.modules():
            if isinstance(module, torch.nn.BatchNorm1d):
                torch.nn.init.normal_(module.bias)  # else it leaves padding as it is
        return saved(model, folder)

    return save


def save_wav2vec2_bert(folder: Path) -> Any:
    """One that listens to spectrograms of any length."""
    import torch
    from transformers import (
        SeamlessM4TFeatureExtractor,
        Wav2Vec2BertConfig,
        Wav2Vec2BertForSequenceClassification,
    )

    torch.manual_seed(0)
    config = Wav2Vec2BertConfig(
        **LAYERS,
        **NAMES,
        feature_projection_input_dim=16,
        conv_depthwise_kernel_size=5,
        classifier_proj_size=16,
        left_max_position_embeddings=8,
        right_max_position_embeddings=4,
    )
    SeamlessM4TFeatureExtractor(feature_size=8, num_mel_bins=8).save_pretrained(folder)
    return saved(Wav2Vec2BertForSequenceClassification(config), folder)


def save_spectrogram_transformer(folder: Path) -> Any:
    """One that listens for 64 columns of a spectrogram: 0.655 s."""
    import torch
    from transformers import ASTConfig, ASTFeatureExtractor, ASTForAudioClassification

    torch.manual_seed(0)
    sizes = {"num_mel_bins": 16, "max_length": 64}
    ASTFeatureExtractor(**sizes).save_pretrained(folder)
    return saved(ASTForAudioClassification(ASTConfig(**LAYERS, **NAMES, **sizes)), folder)


def save_whisper_classifier(folder: Path) -> Any:
    """One that listens for a second."""
    import torch
    from transformers import WhisperConfig, WhisperFeatureExtractor, WhisperForAudioClassification

    torch.manual_seed(0)
    config = WhisperConfig(
        num_mel_bins=8,
        d_model=16,
        encoder_layers=2,
        encoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_layers=1,
        decoder_attention_heads=2,
        max_source_positions=50,
        classifier_proj_size=16,
        init_std=0.5,
        **NAMES,
    )
    WhisperFeatureExtractor(feature_size=8, chunk_length=1).save_pretrained(folder)
    return saved(WhisperForAudioClassification(config), folder)


LISTENERS: dict[str, Callable[[Path], Any]] = {
    "wav2vec2": of_samples("Wav2Vec2"),
    "wav2vec2 by layer": of_samples("Wav2Vec2", **SHARES_BATCHES),
    "wav2vec2 weighing layers": of_samples(
        "Wav2Vec2", feat_extract_norm="layer", use_weighted_layer_sum=True
    ),
    "hubert by layer": of_samples("Hubert", **SHARES_BATCHES),
    "hubert by batch": of_samples("Hubert", **SHARES_BATCHES, conv_pos_batch_norm=True),
    "wavlm": of_samples("WavLM"),
    "wavlm by layer": of_samples("WavLM", **SHARES_BATCHES),
    "unispeech by layer": of_samples("UniSpeech", **SHARES_BATCHES),
    "unispeech-sat by layer": of_samples("UniSpeechSat", **SHARES_BATCHES),
    "sew": of_samples("SEW"),
    "sew-d": of_samples("SEWD"),
    "data2vec": of_samples("Data2VecAudio"),
    "conformer": of_samples("Wav2Vec2Conformer", feat_extract_norm="layer"),
    "wav2vec2-bert": save_wav2vec2_bert,
    "spectrogram transformer": save_spectrogram_transformer,
    "whisper": save_whisper_classifier,
}
"""What saves each of them, by name."""
MIXES_LENGTHS = (
    *("wav2vec2 by layer", "wav2vec2 weighing layers", "hubert by layer", "wavlm by layer"),
    *("unispeech by layer", "unispeech-sat by layer", "wav2vec2-bert"),
)
"""Those that hear no padding."""


def saved_listeners(place: Path) -> dict[str, Path]:
    """A folder of each, by name."""
    made = {name: place / name for name in LISTENERS}
    for name, folder in made.items():
        LISTENERS[name](folder)
    return made
