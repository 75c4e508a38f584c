"""Models of a few thousand random weights that label tokens, with tokenizers of three kinds."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.kinds.tiny_models import BERT_SIZES, SPECIAL, VOCABULARY, saved, tokenizer

NAMES = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC", "MISC")
SENTENCES = (
    "Ada Lovelace met Charles Babbage in London, and wrote of it in 1843.",
    "São Paulo und Zürich liegen weit auseinander; Jean-Baptiste war in beiden.",
    "the cat sat on the mat and looked at the dog that looked at the cat",
    "Prices rose by 3.5% in Q2 -- said J. P. Morgan (New York).",
    "naïve façade, coöperate\nwith\tthe 東京 office \N{CAT FACE}\N{CAT FACE} of Ms O'Neill",
)


def save_ner(folder: Path) -> Any:
    """A labeller of single letters."""
    tokenizer(with_pairs=True).save_pretrained(folder)
    return save_labeller(folder, len(VOCABULARY))


def save_with_pieces(folder: Path, kind: str) -> Any:
    """A labeller whose tokenizer knows pieces of SENTENCES."""
    from transformers import PreTrainedTokenizerFast

    words = TOKENIZERS[kind]()
    tokens = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]"}
    fast = PreTrainedTokenizerFast(
        tokenizer_object=words, **tokens, sep_token="[SEP]", model_max_length=64
    )
    fast.save_pretrained(folder)
    return save_labeller(folder, len(fast))


def save_labeller(folder: Path, vocabulary: int) -> Any:
    """A labeller that calls about half of all tokens entities."""
    import torch
    from transformers import BertConfig, BertForTokenClassification

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=vocabulary,
        **BERT_SIZES,
        id2label=dict(enumerate(NAMES)),
        label2id={name: at for at, name in enumerate(NAMES)},
    )
    model = BertForTokenClassification(config)
    with torch.no_grad():
        model.classifier.bias[0] = 1.5
    return saved(model, folder)


def word_pieces() -> Any:
    """As BERT's: pieces within a word begin with ##, and capitals do not count."""
    from tokenizers import BertWordPieceTokenizer, processors

    plain = [BertWordPieceTokenizer(lowercase=True).normalize(text) for text in SENTENCES]
    known = pieces_of(plain)
    vocabulary = [*SPECIAL, *known, *(f"##{piece}" for piece in known)]
    numbered = {piece: at for at, piece in enumerate(vocabulary)}
    words = BertWordPieceTokenizer(vocab=numbered, lowercase=True)
    words.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return words._tokenizer


def byte_pairs() -> Any:
    """As RoBERTa's: pieces of bytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    words = Tokenizer(models.BPE(unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=320, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    words.train_from_iterator(SENTENCES, trainer)
    words.post_processor = processors.RobertaProcessing(("[SEP]", 3), ("[CLS]", 2))
    return words


def sentence_pieces() -> Any:
    """As XLM-R's: pieces of sentences, blanks among them."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    known = pieces_of(
        ["\N{LOWER ONE EIGHTH BLOCK}".join(("", *text.split())) for text in SENTENCES]
    )
    scored = [(piece, -10.0 / len(piece)) for piece in known]
    special = [(piece, 0.0) for piece in SPECIAL]
    words = Tokenizer(models.Unigram([*special, *scored], SPECIAL.index("[UNK]")))
    words.add_special_tokens(SPECIAL)
    words.pre_tokenizer = pre_tokenizers.Metaspace()
    words.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return words


def pieces_of(texts: list[str]) -> list[str]:
    """What up to four letters stand twice in TEXTS, and each letter: the trainers draw theirs."""
    joined = "\n".join(texts)
    pairs = Counter(joined[at : at + size] for size in (2, 3, 4) for at in range(len(joined)))
    often = {piece for piece, times in pairs.items() if times > 1 and not re.search(r"\s", piece)}
    return sorted(often | {*re.sub(r"\s", "", joined)})


TOKENIZERS: dict[str, Callable[[], Any]] = {
    "word pieces": word_pieces,
    "byte pairs": byte_pairs,
    "sentence pieces": sentence_pieces,
}
