"""Models of a few thousand random weights that find answers in texts."""

import json
from pathlib import Path
from typing import Any

from tests.kinds.tiny_models import BERT_SIZES, SPECIAL, VOCABULARY, WORDS, saved, tokenizer
from tests.kinds.tiny_writers import small


def save_answering(folder: Path) -> Any:
    """One that reads single letters."""
    tokenizer(with_pairs=True).save_pretrained(folder)
    return save_finder(folder, len(VOCABULARY))


def save_answering_in_pieces(folder: Path) -> Any:
    """One that reads words letter by letter."""
    from tokenizers import BertWordPieceTokenizer
    from transformers import PreTrainedTokenizerFast

    names = [*SPECIAL, *WORDS, *(f"##{each}" for each in WORDS)]
    vocabulary = {name: at for at, name in enumerate(names)}
    pieces = BertWordPieceTokenizer(vocabulary)
    tokens = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]"}
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    PreTrainedTokenizerFast(
        tokenizer_object=pieces,
        **tokens,
        sep_token="[SEP]",
        model_max_length=64,
        model_input_names=inputs,
    ).save_pretrained(folder)
    return save_finder(folder, len(vocabulary))


def save_finder(folder: Path, vocabulary: int) -> Any:
    """A model for a tokenizer of so many tokens."""
    import torch
    from transformers import BertConfig, BertForQuestionAnswering

    torch.manual_seed(0)
    return saved(BertForQuestionAnswering(BertConfig(vocab_size=vocabulary, **BERT_SIZES)), folder)


def save_answering_from_the_text_on(folder: Path) -> Any:
    """One that reads the text before the question, and in the end the token for no answer."""
    import torch
    from tokenizers import processors
    from transformers import XLNetConfig, XLNetForQuestionAnsweringSimple

    made = tokenizer(with_pairs=True)
    made._tokenizer.post_processor = processors.TemplateProcessing(
        single="$A:0 [SEP]:0 [CLS]:2",
        pair="$A:0 [SEP]:0 $B:1 [SEP]:1 [CLS]:2",
        special_tokens=[(each, VOCABULARY[each]) for each in ("[SEP]", "[CLS]")],
    )
    made.save_pretrained(folder)
    file = folder / "tokenizer_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "padding_side": "left"}))
    torch.manual_seed(0)
    sizes = {"d_model": 32, "n_layer": 2, "n_head": 2, "d_inner": 64, "initializer_range": 0.3}
    config = XLNetConfig(vocab_size=len(VOCABULARY), **sizes)
    return saved(XLNetForQuestionAnsweringSimple(config), folder)


def save_answering_encoder_decoder(folder: Path) -> Any:
    """BART, which reads a pair twice: its decoder too."""
    import torch
    from transformers import BartConfig, BartForQuestionAnswering

    torch.manual_seed(0)
    tokenizer(with_pairs=True).save_pretrained(folder)
    return saved(BartForQuestionAnswering(BartConfig(**small(), decoder_start_token_id=3)), folder)


def save_answering_with_a_short_decoder(folder: Path) -> Any:
    """LED, whose decoder has fewer places than its encoder."""
    import torch
    from transformers import LEDConfig, LEDForQuestionAnswering

    torch.manual_seed(0)
    tokenizer(with_pairs=True).save_pretrained(folder)
    places = {"max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 32}
    config = LEDConfig(**small(), **places, attention_window=16, decoder_start_token_id=3)
    return saved(LEDForQuestionAnswering(config), folder)
