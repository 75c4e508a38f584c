"""Models of a few thousand random weights that label tokens, with tokenizers of three kinds."""

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


def save_trained(folder: Path, kind: str) -> Any:
    """A labeller whose tokenizer has learned its words from SENTENCES."""
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

    words = BertWordPieceTokenizer(lowercase=True)
    words.train_from_iterator(
        SENTENCES, vocab_size=150, special_tokens=SPECIAL, show_progress=False
    )
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
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    words = Tokenizer(models.Unigram())
    words.pre_tokenizer = pre_tokenizers.Metaspace()
    words.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=150, special_tokens=SPECIAL, unk_token="[UNK]", show_progress=False
    )
    words.train_from_iterator(SENTENCES, trainer)
    words.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return words


TOKENIZERS: dict[str, Callable[[], Any]] = {
    "word pieces": word_pieces,
    "byte pairs": byte_pairs,
    "sentence pieces": sentence_pieces,
}
